"""A broker, and workers that keep a ledger of what they began."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from famulus import Task, Worker
from famulus.testing import RunningBroker, running_broker


@dataclass
class Served:
    broker: RunningBroker
    #: How often each task was begun, by its id.
    begun: Counter[str] = field(default_factory=Counter)

    @property
    def frontend(self) -> str:
        return self.broker.frontend


@pytest.fixture(scope="package")
def network() -> Iterator[Served]:
    worker = Worker(slots=20)

    @worker.service("upper")
    def upper(body: bytes, task: Task) -> bytes:
        served.begun[task.message_id] += 1
        if body.startswith(b"bad"):
            raise ValueError("as you wish")
        return body.upper()

    @worker.service("add")
    def add(a: int, b: int) -> int:
        return a + b

    @worker.service("score")
    def score(body: bytes, task: Task) -> bytes:
        served.begun[task.message_id] += 1
        rows = pa.ipc.open_stream(body).read_all()
        scores = pa.table({"score": pc.multiply(rows["a"].cast(pa.float64()), 0.5), "name": rows["b"]})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, scores.schema) as stream:
            stream.write_table(scores.slice(1) if rows["a"][0].as_py() < 0 else scores)
        return bytes(sink.getvalue())

    with running_broker() as broker, worker.started(broker.backend):
        served = Served(broker)
        yield served


@pytest.fixture
def served(network: Served) -> Served:
    network.begun.clear()
    return network
