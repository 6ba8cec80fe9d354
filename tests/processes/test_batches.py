"""Batches and time limits through a real broker, in threads and in processes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import pytest
from tests.processes.conftest import HERE, BrokerProcess, Process

from famulus import Client, TaskError


@pytest.fixture(params=[0, 2], ids=["threads", "processes"])
def worker(request: pytest.FixtureRequest, broker: BrokerProcess, processes: Callable[..., Process]) -> Process:
    worker = processes(sys.executable, str(HERE / "batch_worker.py"), broker.backend, str(request.param))
    worker.wait_for_line("is ready: ")
    return worker


def test_a_backlog_fills_batches_and_each_task_has_its_own_outcome(broker: BrokerProcess, worker: Process) -> None:
    with Client(broker.frontend) as client:
        answers = [answer.split() for answer in client.map("sizes", [b"good"] * 400)]
        assert len(answers) == 400
        full = [size for size, _ in answers if size == b"16"]
        assert len(full) > 200, "most of them are full, since all of the tasks are there"
        futures = [client.submit("sizes", body) for body in (b"good", b"bad", b"good")]
        assert futures[0].result()
        with pytest.raises(TaskError, match="ValueError: no"):
            futures[1].result()
        assert futures[2].result()


def test_a_function_that_hangs_gives_its_slot_back(broker: BrokerProcess, worker: Process) -> None:
    with Client(broker.frontend) as client:
        # More than there are processes; and the worker has to end in time, whatever still hangs in its threads.
        for future in [client.submit("hang", b"1") for _ in range(3)]:
            with pytest.raises(TaskError) as caught:
                future.result()
            assert caught.value.code == "time_limit"
        assert client.request("hang") == b""
    worker.signal(signal.SIGTERM)
    assert worker.wait(20) == 0
