"""Cancelled tasks in a worker: what has not begun never does, and what runs is stopped where that is possible."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest
from tests.unit.worker.conftest import Broker, Collect, MakeCall, Run

from famulus import Task, Worker
from famulus.core.batch_queue import BatchQueue
from famulus.net.waiting import Bell
from famulus.testing import StandIn
from famulus.wire import headers
from famulus.worker.batching import BatchTerms
from famulus.worker.calls import NOT_BEGUN, STOPPED, Answer, BatchAnswer, BatchCall, Call, ended_as
from famulus.worker.coroutines import Coroutines
from famulus.worker.overruns import Overruns
from famulus.worker.services import Services
from famulus.worker.threads import Threads


def cancel(broker: Broker, ticket: bytes) -> None:
    broker._socket.send_multipart([broker._peer, b"", headers.CANCEL, ticket])


def heard(broker: Broker) -> tuple[bytes, str, str]:
    """The next answer: its ticket, its outcome, and why."""
    ticket, fields, _ = broker.hear("TASK")
    return ticket, fields.get("outcome", "OK"), fields.get("reason", "")


class Door:
    """Functions wait here, and say that they do."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()
        self.entered: list[bytes] = []

    def __call__(self, body: bytes) -> bytes:
        self.entered.append(body)
        self.reached.set()
        assert self.open.wait(20)
        return body


@pytest.fixture
def door() -> Door:
    return Door()


def test_what_waits_for_a_thread_never_begins(bell: Bell, collect: Collect, make_call: MakeCall, door: Door) -> None:
    threads = Threads(bell, 1)
    first, second, third = [make_call(door, body) for body in (b"1", b"2", b"3")]
    threads.start([first, second, third])
    assert door.reached.wait(20)
    assert threads.cancel(second.given)
    assert not threads.cancel(first.given), "it has begun"
    door.open.set()
    assert [answer.body for answer in collect(threads, 2)] == [b"1", b"3"]
    assert door.entered == [b"1", b"3"]
    assert threads.close()


def test_its_time_limit_is_over_too(make_call: MakeCall) -> None:
    overruns, call = Overruns(1), make_call(bytes.upper)
    call.service.time_limit_ns = 10
    overruns.watch(call, 0)
    overruns.forget(call.given)
    assert overruns.give_up(100) == []
    assert not overruns.minds


def test_a_function_in_a_thread_can_look(broker: Broker, run: Run) -> None:
    reached = threading.Event()

    def work(body: bytes, task: Task) -> bytes:
        reached.set()
        while not task.cancelled:
            pass
        if body == b"raises":
            raise ValueError("no")
        return body

    worker = Worker(broker.address)
    worker.service("work")(work)
    run(worker)
    broker.welcome()
    for ticket, body, ended in ((b"t1", b"raises", ("UNKNOWN", STOPPED)), (b"t2", b"returns", ("OK", ""))):
        broker.give(ticket, "work", body)
        assert reached.wait(20)
        reached.clear()
        cancel(broker, ticket)
        assert heard(broker) == (ticket, *ended)


@pytest.mark.parametrize("typed", [False, True])
def test_a_task_says_so_whoever_makes_it(make_call: MakeCall, typed: bool) -> None:
    seen: list[bool] = []
    worker = Worker()
    if typed:

        @worker.service("test")
        def look(number: int, task: Task) -> None:
            seen.append(task.cancelled)
    else:

        @worker.service("test")
        def look_plainly(body: bytes, task: Task) -> None:
            seen.append(task.cancelled)

    with StandIn(worker) as broker, broker.client() as client:
        if typed:
            client.call("test", number=1)
        else:
            client.request("test")
    assert seen == [False]


def test_what_comes_together_with_its_cancel_is_not_begun(broker: Broker, run: Run) -> None:
    called: list[bytes] = []
    worker = Worker(broker.address, slots=100)
    worker.service("quick")(called.append)
    run(worker)
    broker.welcome()
    for number in range(64):
        broker.give(b"%d" % number, "quick", b"%d" % number)
        assert heard(broker)[1] == "OK"
    # Quick by now: the I/O thread calls it.
    outcomes = set()
    for number in range(100, 200):
        broker.give(b"%d" % number, "quick", b"%d" % number)
        cancel(broker, b"%d" % number)
        ticket, outcome, _ = heard(broker)
        assert (outcome == "REJECTED") == (ticket not in called)
        outcomes.add(outcome)
    assert outcomes <= {"OK", "REJECTED"}


def test_a_ticket_that_it_does_not_have_is_ignored(broker: Broker, run: Run) -> None:
    worker = Worker(broker.address)
    worker.service("echo")(lambda body: body)
    run(worker)
    broker.welcome()
    cancel(broker, b"nothing")
    broker.give(b"t1", "echo", b"x")
    assert heard(broker) == (b"t1", "OK", "")
    cancel(broker, b"t1")
    assert not broker.heard("TASK")


# -- coroutines -----------------------------------------------------------------------------------------------------


def test_a_coroutine_is_cancelled_and_nothing_has_failed(
    broker: Broker, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    reached = threading.Event()

    async def wait(body: bytes) -> bytes:
        reached.set()
        await asyncio.sleep(1000)
        return body

    async def deaf(body: bytes) -> bytes:
        reached.set()
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            return b"all the same"
        return body

    worker = Worker(broker.address)
    worker.service("wait", time_limit_s=100)(wait)
    worker.service("deaf")(deaf)
    with caplog.at_level(logging.ERROR, "famulus.worker"):
        run(worker)
        broker.welcome()
        for ticket, service, ended in ((b"t1", "wait", ("UNKNOWN", STOPPED)), (b"t2", "deaf", ("OK", ""))):
            broker.give(ticket, service)
            assert reached.wait(20)
            reached.clear()
            cancel(broker, ticket)
            assert heard(broker) == (ticket, *ended)
    assert caplog.records == []


def test_one_that_the_loop_has_not_begun_never_begins(bell: Bell, collect: Collect, make_call: MakeCall) -> None:
    called: list[bytes] = []

    async def never(body: bytes) -> None:
        called.append(body)

    coroutines = Coroutines(bell)
    call = make_call(never)

    def both_in_one_turn() -> None:
        coroutines._begin([call])
        coroutines._cancel(call.given)

    call.given.is_cancelled = True
    coroutines._loop.call_soon_threadsafe(both_in_one_turn)
    (answer,) = collect(coroutines, 1)
    assert ended_as(answer) == ("REJECTED", NOT_BEGUN)
    assert called == []
    assert not coroutines.cancel(call.given), "it has ended: nothing happens"
    assert coroutines.close()


# -- batches --------------------------------------------------------------------------------------------------------


def test_one_that_waits_for_its_batch_is_taken_out() -> None:
    queue: BatchQueue[str] = BatchQueue(2, 10, 1)
    for task in "abc":
        queue.add(0, task, 100)
    assert queue.remove("b".__eq__)
    assert not queue.remove("b".__eq__)
    assert queue.start(0).batch == ["a", "c"]


def test_a_batch_that_has_begun_goes_on_and_the_others_do_not_notice(broker: Broker, run: Run) -> None:
    reached, go_on = threading.Event(), threading.Event()
    got: list[list[bytes]] = []

    def work(bodies: list[bytes], tasks: list[Task]) -> list[bytes]:
        got.append(bodies)
        reached.set()
        assert go_on.wait(20)
        return [b"late" if task.cancelled else b"fine" for task in tasks]

    worker = Worker(broker.address)
    worker.service("work", batch=2, wait_ms=10_000)(work)
    run(worker)
    broker.welcome()
    broker.give(b"t0", "work", b"0")
    cancel(broker, b"t0")
    assert heard(broker) == (b"t0", "REJECTED", NOT_BEGUN)
    for number in (1, 2):
        broker.give(b"t%d" % number, "work", b"%d" % number)
    assert reached.wait(20)
    cancel(broker, b"t1")
    # The cancel has been read when what comes after it has been answered.
    broker.give(b"t3", "nothing")
    assert heard(broker)[0] == b"t3"
    go_on.set()
    answers = {ticket: body for ticket, _, body in (broker.hear("TASK"), broker.hear("TASK"))}
    assert answers == {b"t1": b"late", b"t2": b"fine"}
    assert got == [[b"1", b"2"]]


def test_a_function_does_not_get_what_was_cancelled_before_its_batch_began(
    bell: Bell, collect: Collect, make_call: MakeCall
) -> None:
    got: list[list[bytes]] = []

    def work(bodies: list[bytes]) -> list[bytes]:
        got.append(bodies)
        return bodies

    services = Services()
    services.add("test", work, BatchTerms(4, 0))
    calls = [Call(make_call(work, body).given, services["test"], 1 << 62) for body in (b"1", b"2")]
    calls[0].given.is_cancelled = True
    threads = Threads(bell, 1)
    threads.start([BatchCall(calls)])
    (answer,) = collect(threads, 1)
    assert isinstance(answer, BatchAnswer)
    assert [ended_as(each) for each in answer.answers] == [("REJECTED", NOT_BEGUN), ("OK", "")]
    assert got == [[b"2"]]
    assert threads.close()


# -- what is said ---------------------------------------------------------------------------------------------------


def test_only_a_cancelled_task_ends_otherwise_than_ok_or_error(make_call: MakeCall) -> None:
    given = make_call(bytes.upper).given

    def says(reason: str) -> tuple[str, str]:
        return ended_as(Answer(given, reason, b""))

    assert says("") == ("OK", "")
    assert says("ValueError: no") == ("ERROR", "ValueError: no")
    given.is_cancelled = True
    assert says("") == ("OK", "")
    assert says("ValueError: no") == ("UNKNOWN", STOPPED)
    assert says(NOT_BEGUN) == ("REJECTED", NOT_BEGUN)
    assert says(NOT_BEGUN[:5] + NOT_BEGUN[5:]) == ("UNKNOWN", STOPPED), "nobody else can say that"
