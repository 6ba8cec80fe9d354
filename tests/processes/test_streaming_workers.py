"""Functions that yield, through a real broker, for a client that speaks the protocol by hand."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.processes.conftest import HERE, BrokerProcess, Process, Raw

from famulus import Client, TaskError
from famulus.wire import headers, stream
from famulus.wire.stream import PROGRESS, Progress

#: Far less than anything here takes if it hangs.
SOON_S = 10.0
#: Nothing came within this time, so nothing will.
QUIET_S = 0.2


class Reader:
    """A plain socket that asks for streams."""

    def __init__(self, socket: Raw) -> None:
        self.socket = socket

    def ask(self, envelope: bytes, service: str, body: bytes = b"", credit: int = 0, **more: Any) -> None:
        fields = {"service": service, "timeout_ms": 60_000, "message_id": envelope.decode(), **more}
        self.socket.tell("TASK", envelope=envelope, body=body, **({**fields, "credit": credit} if credit else fields))

    def grant(self, envelope: bytes, last: int) -> None:
        self.socket.send(b"credit", headers.CREDIT, stream.write_credit(envelope, last))

    def parts(self, envelope: bytes, count: int, first: int = 1) -> list[bytes]:
        """So many parts, which must be the next ones; what it hears about progress is passed over."""
        bodies: list[bytes] = []
        while len(bodies) < count:
            place, header, body = self.socket.recv(SOON_S)
            assert header == headers.PART, header
            number = stream.read_place(place)[1]
            if number == PROGRESS:
                continue
            assert stream.read_place(place) == (envelope, first + len(bodies))
            bodies.append(body)
        return bodies

    def end(self, envelope: bytes) -> tuple[str, str, int | None]:
        """The outcome, its reason, and how many parts there were."""
        came, header, _ = self.socket.recv(SOON_S)
        fields = json.loads(header)
        assert (came, fields["request"]) == (envelope, "TASK"), header
        return fields["outcome"], fields.get("reason", ""), fields.get("parts")


@pytest.fixture
def reader(broker: BrokerProcess, raw: Callable[..., Raw]) -> Reader:
    return Reader(raw(broker.frontend))


Start = Callable[[int], Process]


@pytest.fixture
def start(broker: BrokerProcess, processes: Callable[..., Process]) -> Start:
    def start_worker(in_processes: int) -> Process:
        worker = processes(sys.executable, str(HERE / "streaming_worker.py"), broker.backend, str(in_processes))
        worker.wait_for_line("is ready: ")
        return worker

    return start_worker


@pytest.fixture(params=["threads", "coroutines", "processes"])
def where(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def worker(start: Start, where: str) -> Process:
    return start(2 if where == "processes" else 0)


@pytest.fixture
def service(where: str) -> str:
    return "count-async" if where == "coroutines" else "count"


def test_parts_come_in_order_and_no_more_than_were_asked_for(worker: Process, service: str, reader: Reader) -> None:
    reader.ask(b"one", service, b"1000", credit=3)
    assert reader.parts(b"one", 3) == [b"1", b"2", b"3"]
    assert reader.socket.silent(QUIET_S)
    reader.grant(b"one", 4)
    assert reader.parts(b"one", 1, first=4) == [b"4"]
    assert reader.socket.silent(QUIET_S)
    for last in range(100, 1101, 100):
        reader.grant(b"one", last)
    assert reader.parts(b"one", 996, first=5)[-1] == b"1000"
    assert reader.end(b"one") == ("OK", "", 1000)
    worker.wait_for_line("closed one at 1000")


def test_whoever_wants_no_more_closes_the_generator(worker: Process, service: str, reader: Reader) -> None:
    reader.ask(b"one", service, b"1000", credit=3)
    reader.parts(b"one", 3)
    assert reader.socket.silent(QUIET_S)
    reader.socket.tell("CANCEL", body=b"one")
    outcome, reason, _ = reader.end(b"one")
    assert (outcome, reason.partition(":")[0]) == ("UNKNOWN", "cancelled")
    worker.wait_for_line("closed one at 4")
    reader.ask(b"two", service, b"2", credit=3)
    assert reader.parts(b"two", 2) == [b"1", b"2"], "the slot is free"
    assert reader.end(b"two") == ("OK", "", 2)


def test_whoever_is_gone_closes_it_too(worker: Process, service: str, reader: Reader) -> None:
    reader.ask(b"one", service, b"1000", credit=3)
    reader.parts(b"one", 3)
    reader.socket.socket.close(0)
    worker.wait_for_line("closed one at 4")


def test_one_that_is_told_to_stop_finishes_its_streams(worker: Process, service: str, reader: Reader) -> None:
    reader.ask(b"one", service, b"100", credit=3)
    reader.parts(b"one", 3)
    worker.signal(signal.SIGTERM)
    worker.wait_for_line("drains: 1 task running")
    for last in range(4, 101):
        reader.grant(b"one", last)
        reader.parts(b"one", 1, first=last)
    assert reader.end(b"one") == ("OK", "", 100)
    assert worker.wait() == 0
    assert "closed one at 100" in worker.output


@pytest.mark.parametrize("where", ["threads", "processes"])
def test_one_that_raises_in_the_middle_says_how_many_parts_there_were(worker: Process, reader: Reader) -> None:
    reader.ask(b"one", "fail", credit=10)
    assert reader.parts(b"one", 2) == [b"1", b"2"]
    assert reader.end(b"one") == ("ERROR", "ValueError: no third one", 2)
    worker.wait_for_line("fail failed for task one")


@pytest.mark.parametrize("where", ["threads", "processes"])
def test_each_part_is_a_value_of_its_type(worker: Process, reader: Reader) -> None:
    reader.ask(b"one", "words", b'"once upon"', credit=10, content_type="application/json")
    assert reader.parts(b"one", 2) == [b'{"text":"once","length":4}', b'{"text":"upon","length":4}']
    assert reader.end(b"one") == ("OK", "", 2)


@pytest.mark.parametrize("where", ["threads", "processes"])
def test_without_credit_it_is_not_called(worker: Process, reader: Reader, broker: BrokerProcess) -> None:
    reader.ask(b"one", "count", b"5")
    outcome, reason, count = reader.end(b"one")
    assert (outcome, count) == ("ERROR", None)
    assert reason == "bad_arguments: this service gives a stream: ask for it with stream()"
    with Client(broker.frontend) as client, pytest.raises(TaskError, match="ask for it with stream"):
        client.request("count", b"5")
    assert "began" not in worker.output


@pytest.mark.parametrize("where", ["threads", "processes"])
def test_how_far_it_is_comes_in_between_and_costs_no_credit(worker: Process, reader: Reader) -> None:
    reader.ask(b"one", "steps", credit=2)
    heard: list[object] = []
    while True:
        place, header, body = reader.socket.recv(SOON_S)
        if header != headers.PART:
            break
        envelope, number = stream.read_place(place)
        assert envelope == b"one"
        heard.append(stream.read_progress(body) if number == PROGRESS else body)
    # The first of each may overtake the other: they are told by different ways.
    assert sorted(map(str, heard[:2])) == sorted(map(str, [Progress(0.5, "half"), b"1"]))
    assert sorted(map(str, heard[2:])) == sorted(map(str, [Progress(1.0, ""), b"2"]))
    assert json.loads(header)["parts"] == 2


@pytest.mark.parametrize("where", ["threads", "processes"])
def test_a_plain_function_says_it_at_most_ten_times_a_second(worker: Process, reader: Reader) -> None:
    began = time.monotonic()
    reader.ask(b"one", "work", b"50", credit=1)
    heard: list[Progress] = []
    while True:
        place, header, body = reader.socket.recv(SOON_S)
        if header != headers.PART:
            break
        assert stream.read_place(place) == (b"one", PROGRESS)
        heard.append(stream.read_progress(body))
    seconds = time.monotonic() - began
    assert (body, json.loads(header).get("parts")) == (b"done", None)
    assert 5 <= len(heard) <= 10 * seconds + 2
    assert heard == sorted(heard)
    assert heard[0].note == "step 0"
