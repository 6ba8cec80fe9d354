"""How far a task has got: checked where it is said, the latest counts, and nobody hears of it too often."""

from __future__ import annotations

import asyncio
import threading
from fractions import Fraction
from typing import Any

import pytest
from tests.unit.worker.conftest import Broker, MakeCall, Ready, Run

from famulus import Task, Worker
from famulus.core.clock import NEVER_NS
from famulus.core.session.header_cache import Given
from famulus.net.waiting import Bell
from famulus.testing import StandIn
from famulus.wire import limits, stream
from famulus.wire.stream import PROGRESS, Progress
from famulus.worker.calls import begin
from famulus.worker.progress import EVERY_NS, ProgressReports

START_NS = 10**12


@pytest.fixture
def reports(bell: Bell, ready: Ready) -> ProgressReports:
    return ProgressReports(bell, [ready.session])


@pytest.fixture
def given(ready: Ready) -> Given:
    return ready.given()


def test_the_first_goes_at_once_and_the_latest_a_tenth_of_a_second_later(
    reports: ProgressReports, ready: Ready, given: Given
) -> None:
    assert (reports.minds, reports.next_due_ns) == (False, NEVER_NS)
    reports.tell(given, b"1")
    assert reports.minds
    reports.send(START_NS)
    assert ready.take() == [b"1"]
    for body in (b"2", b"3", b"4"):
        reports.tell(given, body)
        reports.send(START_NS + 1)
    assert ready.take() == []
    assert reports.next_due_ns == START_NS + EVERY_NS
    reports.send(START_NS + EVERY_NS - 1)
    assert ready.take() == []
    reports.send(START_NS + EVERY_NS)
    assert ready.take() == [b"4"]
    reports.send(START_NS + 2 * EVERY_NS)
    assert (reports.minds, reports.next_due_ns) == (False, NEVER_NS), "nothing is kept of it"
    reports.tell(given, b"5")
    reports.send(START_NS + 2 * EVERY_NS)
    assert ready.take() == [b"5"]


def test_there_are_at_most_ten_a_second(reports: ProgressReports, ready: Ready, given: Given) -> None:
    for number in range(1000):
        reports.tell(given, b"%d" % number)
        reports.send(START_NS + number * 10**6)
    assert len(ready.take()) == 10


def test_tasks_do_not_wait_for_each_other(reports: ProgressReports, ready: Ready, given: Given) -> None:
    other = ready.given()
    reports.tell(given, b"1")
    reports.send(START_NS)
    reports.tell(other, b"other 1")
    reports.send(START_NS + 1)
    assert ready.take() == [b"1", b"other 1"]
    reports.tell(other, b"other 2")
    reports.tell(given, b"2")
    reports.send(START_NS + EVERY_NS)
    assert ready.take() == [b"2"]
    reports.send(START_NS + EVERY_NS + 1)
    assert ready.take() == [b"other 2"]


def test_what_is_held_back_is_dropped_when_the_task_ends(reports: ProgressReports, ready: Ready, given: Given) -> None:
    reports.tell(given, b"1")
    reports.send(START_NS)
    assert ready.take() == [b"1"]
    reports.tell(given, b"2")
    ready.session.answer(given, "OK", "", b"")
    ready.take()
    reports.send(START_NS + EVERY_NS)
    assert ready.take() == []
    reports.tell(given, b"3")
    reports.send(START_NS + EVERY_NS)
    assert not reports.minds


def test_one_that_is_told_while_another_is_sent_is_not_lost(bell: Bell, ready: Ready, given: Given) -> None:
    reports = ProgressReports(bell, [ready.session])

    class Told(dict[Given, bytes]):
        """The I/O thread comes in between the two lines of `tell`."""

        def __setitem__(self, key: Given, body: bytes) -> None:
            reports.send(START_NS)
            super().__setitem__(key, body)

    reports.tell(given, b"1")
    reports._told = Told(reports._told)
    reports.tell(given, b"2")
    assert ready.take() == [b"1"]
    reports.send(START_NS + EVERY_NS)
    assert ready.take() == [b"2"]


# -- what may be said -----------------------------------------------------------------------------------------------


def task_of(make_call: MakeCall, told: list[bytes]) -> Task:
    seen: list[Task] = []

    def function(body: bytes, task: Task) -> None:
        seen.append(task)

    call = make_call(function)
    call.service.tell_progress = lambda given, body: told.append(body)
    begin(call)
    return seen[0]


@pytest.mark.parametrize("done", [0, 1, 0.5, Fraction(1, 3)])
def test_it_is_a_number_from_0_to_1(make_call: MakeCall, done: Any) -> None:
    told: list[bytes] = []
    task_of(make_call, told).progress(done, "so far")
    assert [stream.read_progress(body) for body in told] == [Progress(float(done), "so far")]


@pytest.mark.parametrize(
    ("done", "note", "error"),
    [
        (1.01, "", ValueError),
        (-0.1, "", ValueError),
        (float("nan"), "", ValueError),
        (40, "", ValueError),
        ("0.4", "", TypeError),
        (True, "", TypeError),
        (None, "", TypeError),
        (0.4, b"note", TypeError),
        (0.4, None, TypeError),
    ],
)
def test_anything_else_is_an_error_where_it_is_said(
    make_call: MakeCall, done: Any, note: Any, error: type[Exception]
) -> None:
    told: list[bytes] = []
    with pytest.raises(error, match=r"^progress: .* not "):
        task_of(make_call, told).progress(done, note)
    assert told == []


def test_a_note_may_be_anything_and_has_a_bounded_length(make_call: MakeCall) -> None:
    told: list[bytes] = []
    task = task_of(make_call, told)
    task.progress(1, "\x00" * 5000)
    task.progress(1, "a\udcffb")
    assert max(map(len, told)) <= limits.PROGRESS_BYTES_MAX
    assert stream.read_progress(told[1]).note == "a?b"


def test_where_nobody_listens_it_is_checked_and_dropped() -> None:
    worker = Worker()

    @worker.service("work")
    def work(body: bytes, task: Task) -> str:
        task.progress(0.5)
        try:
            task.progress(2)
        except ValueError:
            return "checked"
        return ""

    with StandIn(worker) as broker, broker.client() as client:
        assert client.request("work") == b"checked"


# -- wherever it is said --------------------------------------------------------------------------------------------


def hear(broker: Broker) -> tuple[bytes, Progress]:
    """Its ticket, and how far it is."""
    place, fields, body = broker.hear("PART")
    assert fields == {"request": "PART", "type": "RESPONSE"}
    ticket, number = stream.read_place(place)
    assert number == PROGRESS
    return ticket, stream.read_progress(body)


@pytest.mark.parametrize("where", ["threads", "coroutines", "processes", "typed", "batch", "batch in a process"])
def test_it_is_heard_from_wherever_a_function_runs(broker: Broker, run: Run, where: str) -> None:
    worker = Worker(broker.address, slots=2, processes=1 if "process" in where else 0)
    go_on = threading.Event()

    def wait() -> None:
        # A process has its own copy, and nobody sets that.
        go_on.wait(0.2 if "process" in where else 20)

    def plain(body: bytes, task: Task) -> bytes:
        task.progress(0.4, "resizing")
        wait()
        return body

    async def later(body: bytes, task: Task) -> bytes:
        task.progress(0.4, "resizing")
        await asyncio.to_thread(wait)
        return body

    def typed(task: Task) -> None:
        task.progress(0.4, "resizing")
        wait()

    def batch(bodies: list[bytes], tasks: list[Task]) -> list[bytes]:
        tasks[1].progress(0.4, "resizing")
        wait()
        return bodies

    functions: dict[str, Any] = {"coroutines": later, "typed": typed}
    if "batch" in where:
        worker.service("work", batch=2, wait_ms=10_000)(batch)
    else:
        worker.service("work")(functions.get(where, plain))
    run(worker)
    broker.welcome()
    broker.give(b"t1", "work", b"")
    tickets = [b"t1"]
    if "batch" in where:
        broker.give(b"t2", "work", b"")
        tickets.append(b"t2")
    assert hear(broker) == (tickets[-1], Progress(0.4, "resizing"))
    go_on.set()
    assert [broker.hear("TASK")[0] for _ in tickets] == tickets


def test_after_the_answer_there_is_none(broker: Broker, run: Run) -> None:
    worker = Worker(broker.address)
    tasks: list[Task] = []

    @worker.service("work")
    def work(body: bytes, task: Task) -> None:
        task.progress(0.1)
        task.progress(0.2)
        tasks.append(task)

    run(worker)
    broker.welcome()
    broker.give(b"t1", "work")
    broker.hear("TASK")
    tasks[0].progress(0.3)
    assert not broker.heard("PART")
