"""Functions that yield: parts in order, never more than there is credit, and generators that are closed in the end."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import msgspec
import pytest
from tests.unit.worker.conftest import Broker, MakeCall, Run, Running

from famulus import Service, SettingsError, Task, Worker
from famulus.core.session.header_cache import Given, ParsedHeader
from famulus.net.waiting import Bell
from famulus.wire import headers, stream
from famulus.worker.calls import EXPIRED, STOPPED
from famulus.worker.outgoing_parts import OVER, OutgoingParts, StreamCall
from famulus.worker.service import is_async, is_stream
from famulus.worker.stream_call import NO_CREDIT, answer_of_stream, perform_stream


def ask(
    broker: Broker, ticket: bytes, service: str = "count", body: bytes = b"", credit: int | None = 3, **more: Any
) -> None:
    fields = {"service": service, "message_id": f"id-{ticket.decode()}", "attempt": 1, "timeout_ms": 20_000, **more}
    broker.tell("TASK", "REQUEST", ticket, body, **(fields if credit is None else {**fields, "credit": credit}))


def grant(broker: Broker, ticket: bytes, last: int) -> None:
    broker._socket.send_multipart([broker._peer, b"", headers.CREDIT, stream.write_credit(ticket, last)])


def cancel(broker: Broker, ticket: bytes) -> None:
    broker._socket.send_multipart([broker._peer, b"", headers.CANCEL, ticket])


def hear(broker: Broker) -> tuple[bytes, bytes, bytes]:
    """The next part or answer: its envelope, header and body."""
    deadline = time.monotonic() + 20
    while True:
        assert broker._socket.poll(max(0, int((deadline - time.monotonic()) * 1000))), "nothing came"
        broker._peer, envelope, header, body = broker._socket.recv_multipart()
        if json.loads(header)["request"] in ("PART", "TASK"):
            return envelope, header, body


def part(broker: Broker) -> tuple[bytes, int, bytes]:
    """The next part: its ticket, its number, and what it is."""
    envelope, header, body = hear(broker)
    assert header == headers.PART
    return *stream.read_place(envelope), body


def parts(broker: Broker, ticket: bytes, count: int, first: int = 1) -> list[bytes]:
    """The next parts, which must have these numbers."""
    heard = [part(broker) for _ in range(count)]
    assert [(each, number) for each, number, _ in heard] == [(ticket, first + place) for place in range(count)]
    return [body for _, _, body in heard]


def end(broker: Broker) -> tuple[bytes, str, str, int | None]:
    """The answer: its ticket, its outcome, why, and how many parts there were."""
    ticket, header, body = hear(broker)
    fields = json.loads(header)
    assert fields["request"] == "TASK", f"part {ticket!r}"
    assert body == b"" or "parts" not in fields
    return ticket, fields.get("outcome", "OK"), fields.get("reason", ""), fields.get("parts")


def nothing_comes(broker: Broker) -> bool:
    """By the time that another task has been answered, and a moment later."""
    ask(broker, b"?", "nobody", credit=None)
    envelope, _, _ = hear(broker)
    return envelope == b"?" and not broker.heard("PART")


class Counting:
    """Functions that count to what their body says, and say what becomes of them."""

    def __init__(self) -> None:
        self.yielded: list[int] = []
        self.closed = threading.Event()
        self.began = threading.Event()

    def count(self, body: bytes) -> Iterator[bytes]:
        self.began.set()
        try:
            for number in range(1, int(body or b"100") + 1):
                self.yielded.append(number)
                yield b"%d" % number
        finally:
            self.closed.set()

    async def count_async(self, body: bytes) -> AsyncIterator[bytes]:
        self.began.set()
        try:
            for number in range(1, int(body or b"100") + 1):
                self.yielded.append(number)
                yield b"%d" % number
        finally:
            self.closed.set()


@pytest.fixture
def counting() -> Counting:
    return Counting()


Serve = Callable[..., Running]


@pytest.fixture
def serve(broker: Broker, run: Run) -> Serve:
    """Run a worker with these functions by their names, as ready as can be."""

    def start(settings: dict[str, Any] | None = None, /, **functions: Any) -> Running:
        worker = Worker(broker.address, **(settings or {"slots": 8}))
        for name, function in functions.items():
            worker.service(name)(function)
        running = run(worker)
        broker.welcome()
        return running

    return start


@pytest.fixture(params=["threads", "coroutines", "processes"])
def counted(request: pytest.FixtureRequest, counting: Counting, serve: Serve) -> Counting:
    """The service `count`, wherever functions may run. What happens in a process is not seen here."""
    if request.param == "processes":
        serve({"processes": 1}, count=counting.count)
    else:
        serve(count=counting.count if request.param == "threads" else counting.count_async)
    return counting


# -- wherever it runs -----------------------------------------------------------------------------------------------


def test_parts_come_in_order_and_the_answer_counts_them(broker: Broker, counted: Counting) -> None:
    ask(broker, b"t1", body=b"5", credit=10)
    assert parts(broker, b"t1", 5) == [b"1", b"2", b"3", b"4", b"5"]
    assert end(broker) == (b"t1", "OK", "", 5)


def test_what_gives_no_part_is_a_stream_all_the_same(broker: Broker, counted: Counting) -> None:
    ask(broker, b"t1", body=b"0")
    assert end(broker) == (b"t1", "OK", "", 0)


def test_there_are_never_more_than_there_is_credit(broker: Broker, counted: Counting) -> None:
    ask(broker, b"t1", credit=3)
    assert parts(broker, b"t1", 3) == [b"1", b"2", b"3"]
    assert nothing_comes(broker)
    grant(broker, b"t1", 5)
    assert parts(broker, b"t1", 2, first=4) == [b"4", b"5"]
    for last in (5, 2, 0, 2**32 - 1):
        grant(broker, b"t1", last)
    grant(broker, b"other", 100)
    broker._socket.send_multipart([broker._peer, b"", headers.CREDIT, b"abc"])
    assert nothing_comes(broker), "what is wrong changes nothing"
    assert len(counted.yielded) <= 6, "it waits at the one that nobody wants yet"
    grant(broker, b"t1", 100)
    assert parts(broker, b"t1", 95, first=6)[-1] == b"100"
    assert end(broker) == (b"t1", "OK", "", 100)


def test_the_end_needs_no_credit(broker: Broker, counted: Counting) -> None:
    ask(broker, b"t1", body=b"3", credit=3)
    parts(broker, b"t1", 3)
    assert end(broker) == (b"t1", "OK", "", 3)


def test_credit_may_come_together_with_its_task(broker: Broker, counted: Counting) -> None:
    ask(broker, b"t1", body=b"5", credit=1)
    grant(broker, b"t1", 5)
    parts(broker, b"t1", 5)
    assert end(broker) == (b"t1", "OK", "", 5)


def test_whoever_asks_without_credit_is_told_how_to_ask(broker: Broker, counted: Counting) -> None:
    ask(broker, b"t1", credit=None)
    assert end(broker) == (b"t1", "ERROR", NO_CREDIT, None)
    assert NO_CREDIT.startswith("bad_arguments: ")
    assert counted.yielded == []


def test_one_that_waits_for_credit_is_closed_when_it_is_cancelled(broker: Broker, counted: Counting) -> None:
    ask(broker, b"t1")
    parts(broker, b"t1", 3)
    assert nothing_comes(broker)
    cancel(broker, b"t1")
    assert end(broker) == (b"t1", "UNKNOWN", STOPPED, 3)
    if counted.began.is_set():
        assert counted.closed.wait(20)
    ask(broker, b"t2", body=b"1")
    parts(broker, b"t2", 1)
    assert end(broker) == (b"t2", "OK", "", 1)


def test_what_nobody_waits_for_any_more_ends(broker: Broker, counted: Counting) -> None:
    ask(broker, b"t1", timeout_ms=300)
    parts(broker, b"t1", 3)
    assert end(broker) == (b"t1", "ERROR", OVER, 3)
    if counted.began.is_set():
        assert counted.closed.wait(20)


def test_one_whose_time_is_over_before_its_turn_is_not_begun(
    make_call: MakeCall, counting: Counting, alone: tuple[OutgoingParts, deque[OutgoingParts]]
) -> None:
    for function in (counting.count, counting.count_async):
        call = StreamCall(make_call(function, left_ms=-1), alone[0])
        answer = asyncio.run(answer_of_stream(call)) if function is counting.count_async else perform_stream(call)
        assert answer.reason == EXPIRED
    assert not counting.began.is_set()


# -- what goes wrong ------------------------------------------------------------------------------------------------


def fails_at_3(body: bytes) -> Iterator[bytes]:
    yield b"1"
    yield b"2"
    raise ValueError("no third one")


async def fails_at_3_async(body: bytes) -> AsyncIterator[bytes]:
    for each in fails_at_3(body):
        yield each


@pytest.mark.parametrize("where", ["threads", "coroutines", "processes"])
def test_what_it_raises_in_the_middle_is_an_error_with_its_parts(
    broker: Broker, serve: Serve, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    function = fails_at_3_async if where == "coroutines" else fails_at_3
    serve({"processes": 1} if where == "processes" else None, count=function)
    ask(broker, b"t1", credit=10)
    parts(broker, b"t1", 2)
    assert end(broker) == (b"t1", "ERROR", "ValueError: no third one", 2)
    assert "no third one" in caplog.text


@pytest.mark.parametrize("where", ["threads", "coroutines"])
def test_a_part_that_is_none_is_an_error_and_the_generator_is_closed(broker: Broker, serve: Serve, where: str) -> None:
    closed = threading.Event()

    def count(body: bytes) -> Iterator[Any]:
        try:
            yield "text"
            yield None
            yield 5
        finally:
            closed.set()

    async def count_async(body: bytes) -> AsyncIterator[Any]:
        for each in count(body):
            yield each

    serve(count=count if where == "threads" else count_async)
    ask(broker, b"t1", credit=10)
    assert parts(broker, b"t1", 2) == [b"text", b""]
    ticket, outcome, reason, count_of_parts = end(broker)
    assert (ticket, outcome, count_of_parts) == (b"t1", "ERROR", 2)
    assert reason.startswith("TypeError: ")
    assert closed.wait(20)


def test_one_that_will_not_be_closed_is_an_error_in_the_log(
    broker: Broker, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    def stubborn(body: bytes) -> Iterator[bytes]:
        while True:
            try:
                yield b"x"
            except GeneratorExit:
                yield b"never"

    serve(count=stubborn)
    ask(broker, b"t1", credit=1)
    parts(broker, b"t1", 1)
    cancel(broker, b"t1")
    assert end(broker) == (b"t1", "UNKNOWN", STOPPED, 1)
    assert "generator ignored GeneratorExit" in caplog.text


def die(body: bytes) -> Iterator[bytes]:
    yield b"1"
    os._exit(7)


def test_a_process_that_dies_ends_its_stream(broker: Broker, serve: Serve) -> None:
    serve({"processes": 1}, die=die, count=fails_at_3)
    ask(broker, b"t1", "die")
    parts(broker, b"t1", 1)
    ticket, outcome, reason, count_of_parts = end(broker)
    assert (ticket, outcome, count_of_parts) == (b"t1", "ERROR", 1)
    assert reason.startswith("ProcessDied: ")
    ask(broker, b"t2", "count")
    parts(broker, b"t2", 2)


def sleep_long(body: bytes) -> Iterator[bytes]:
    yield b"1"
    time.sleep(60)


def test_a_process_that_does_not_wait_is_killed_when_it_is_cancelled(broker: Broker, serve: Serve) -> None:
    serve({"processes": 1}, long=sleep_long, count=fails_at_3)
    ask(broker, b"t1", "long")
    parts(broker, b"t1", 1)
    cancel(broker, b"t1")
    assert end(broker) == (b"t1", "UNKNOWN", STOPPED, 1)
    ask(broker, b"t2", "count")
    parts(broker, b"t2", 2)


def test_what_runs_between_two_parts_hears_it_at_the_next_one(broker: Broker, serve: Serve) -> None:
    go_on, closed = threading.Event(), threading.Event()

    def count(body: bytes) -> Iterator[bytes]:
        yield b"1"
        go_on.wait(20)
        try:
            yield b"2"
        except GeneratorExit:
            closed.set()
            raise

    serve(count=count)
    ask(broker, b"t1", credit=10)
    parts(broker, b"t1", 1)
    cancel(broker, b"t1")
    assert nothing_comes(broker)
    go_on.set()
    assert end(broker) == (b"t1", "UNKNOWN", STOPPED, 1)
    assert closed.wait(20)


def test_an_async_one_hears_it_where_it_awaits(broker: Broker, serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    cancelled = threading.Event()

    async def count(body: bytes) -> AsyncIterator[bytes]:
        yield b"1"
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    serve(count=count)
    ask(broker, b"t1", credit=10)
    parts(broker, b"t1", 1)
    with caplog.at_level(logging.ERROR, "famulus.worker"):
        cancel(broker, b"t1")
        assert end(broker) == (b"t1", "UNKNOWN", STOPPED, 1)
    assert cancelled.wait(20)
    assert caplog.records == []


@pytest.mark.parametrize("where", ["threads", "coroutines", "processes"])
def test_a_time_limit_is_that_of_the_whole_stream(broker: Broker, run: Run, counting: Counting, where: str) -> None:
    worker = Worker(broker.address, slots=1, processes=1 if where == "processes" else 0)
    worker.service("count", time_limit_s=0.3)(counting.count_async if where == "coroutines" else counting.count)
    run(worker)
    broker.welcome()
    ask(broker, b"t1", credit=1)
    last = 1
    while (heard := hear(broker))[1] == headers.PART:
        assert stream.read_place(heard[0]) == (b"t1", last)
        last += 1
        # Each part comes long before the limit, and the whole does not.
        if not broker._socket.poll(50):
            grant(broker, b"t1", last)
    ended = headers.read(heard[1])
    assert isinstance(ended, headers.TaskResponse)
    assert (ended.outcome, ended.parts) == ("ERROR", last - 1)
    assert ended.reason.startswith("time_limit: ")
    assert 1 < last < 50
    if where != "processes":
        assert counting.closed.wait(20)
    ask(broker, b"t2", body=b"2")
    parts(broker, b"t2", 2)
    assert end(broker) == (b"t2", "OK", "", 2)


def paced(body: bytes) -> Iterator[bytes]:
    for number in range(1, 100):
        time.sleep(0.05)
        yield b"%d" % number


async def paced_async(body: bytes) -> AsyncIterator[bytes]:
    for number in range(1, 100):
        await asyncio.sleep(0.05)
        yield b"%d" % number


@pytest.mark.parametrize("credit", [1, 100])
@pytest.mark.parametrize("where", ["threads", "coroutines", "processes"])
def test_a_time_limit_ends_it_whether_it_waits_or_works(broker: Broker, run: Run, where: str, credit: int) -> None:
    worker = Worker(broker.address, slots=1, processes=1 if where == "processes" else 0)
    worker.service("count", time_limit_s=0.25)(paced_async if where == "coroutines" else paced)
    run(worker)
    broker.welcome()
    ask(broker, b"t1", credit=credit)
    count = 0
    while (heard := hear(broker))[1] == headers.PART:
        count += 1
    assert json.loads(heard[1])["reason"].startswith("time_limit: ")
    assert 1 <= count <= min(credit, 6)


def pids(body: bytes) -> Iterator[str]:
    while True:
        yield str(os.getpid())


def test_a_process_that_waits_for_credit_survives_its_end(broker: Broker, serve: Serve) -> None:
    serve({"processes": 1}, pids=pids)
    seen = set()
    for ticket in (b"t1", b"t2", b"t3"):
        ask(broker, ticket, "pids", credit=1)
        seen.update(parts(broker, ticket, 1))
        assert nothing_comes(broker)
        cancel(broker, ticket)
        assert end(broker) == (ticket, "UNKNOWN", STOPPED, 1)
    assert len(seen) == 1


# -- the end of the worker, and of the broker -----------------------------------------------------------------------


@pytest.mark.parametrize("where", ["threads", "coroutines"])
def test_when_the_broker_is_lost_nobody_waits_for_credit_any_more(
    broker: Broker, serve: Serve, counting: Counting, where: str
) -> None:
    serve({"slots": 1}, count=counting.count if where == "threads" else counting.count_async)
    ask(broker, b"t1")
    parts(broker, b"t1", 3)
    broker.restart()
    broker.welcome()
    assert counting.closed.wait(20)
    ask(broker, b"t1", body=b"1")
    parts(broker, b"t1", 1)
    assert end(broker) == (b"t1", "OK", "", 1), "and not that of the former task"


@pytest.mark.parametrize("where", ["threads", "coroutines"])
def test_a_worker_that_stops_at_once_closes_its_generators(
    broker: Broker, serve: Serve, counting: Counting, where: str
) -> None:
    running = serve(count=counting.count if where == "threads" else counting.count_async)
    ask(broker, b"t1")
    parts(broker, b"t1", 3)
    running.worker.stop(now=True)
    running.wait()
    assert running.result is False
    assert counting.closed.is_set()


def test_one_that_drains_gives_and_takes_credit_until_its_streams_have_ended(
    broker: Broker, serve: Serve, counting: Counting
) -> None:
    running = serve(count=counting.count)
    ask(broker, b"t1", body=b"6")
    parts(broker, b"t1", 3)
    running.worker.stop()
    broker.hear("DISCONNECT")
    grant(broker, b"t1", 6)
    parts(broker, b"t1", 3, first=4)
    assert end(broker) == (b"t1", "OK", "", 6)
    broker.tell("DISCONNECT")
    running.wait()
    assert running.result is True


def test_one_that_nobody_reads_is_given_up_when_there_is_no_more_time(
    broker: Broker, serve: Serve, counting: Counting
) -> None:
    running = serve({"drain_s": 0.2}, count=counting.count)
    ask(broker, b"t1")
    parts(broker, b"t1", 3)
    running.worker.stop()
    running.wait()
    assert running.result is False
    assert counting.closed.is_set()


# -- what streams and what does not ---------------------------------------------------------------------------------


def plain_iterator(body: bytes) -> Iterator[bytes]:
    return iter([body])


class Called:
    def __call__(self, body: bytes) -> Iterator[bytes]:
        yield body


class CalledAsync:
    async def __call__(self, body: bytes) -> AsyncIterator[bytes]:
        yield body

    async def method(self, body: bytes, more: int) -> AsyncIterator[bytes]:
        yield body


def test_it_is_known_when_it_is_registered() -> None:
    streams: list[Callable[..., Any]] = [
        fails_at_3,
        functools.partial(fails_at_3),
        Called(),
        functools.partial(Called()),
        functools.partial(functools.partial(Called().__call__)),
        fails_at_3_async,
        CalledAsync(),
        functools.partial(CalledAsync().method, more=1),
    ]
    assert [is_stream(each) for each in streams] == [True] * len(streams)
    assert [is_async(each) for each in streams] == [False] * 5 + [True] * 3
    for each in (plain_iterator, bytes.upper, functools.partial(plain_iterator), int, Counting):
        assert not is_stream(each)


def test_a_plain_function_that_is_asked_with_credit_answers_plainly(broker: Broker, serve: Serve) -> None:
    serve(echo=lambda body: body, iterator=plain_iterator)
    ask(broker, b"t1", "echo", b"x")
    grant(broker, b"t1", 50)
    envelope, header, body = hear(broker)
    assert (envelope, body) == (b"t1", b"x")
    assert header == headers.write_task_response("id-t1", "echo", "OK", "")
    ask(broker, b"t2", "iterator", b"x")
    ticket, outcome, reason, count_of_parts = end(broker)
    assert (ticket, outcome, count_of_parts) == (b"t2", "ERROR", None)
    assert reason.startswith("TypeError: a service returns bytes")


def test_however_quick_it_is_the_thread_of_the_messages_never_calls_it(broker: Broker, serve: Serve) -> None:
    names = set()

    def count(body: bytes) -> Iterator[bytes]:
        names.add(threading.current_thread().name)
        yield body

    serve(count=count)
    for number in range(100):
        ask(broker, b"%d" % number)
        parts(broker, b"%d" % number, 1)
        assert end(broker)[1] == "OK"
    assert names
    assert all(name.startswith("famulus-worker-") and name != "famulus-worker-deputy" for name in names)


def test_a_batch_has_no_streams() -> None:
    worker = Worker()
    with pytest.raises(SettingsError, match="'a': its function yields"):

        @worker.service("a", batch=4)
        def a(bodies: list[bytes]) -> Iterator[bytes]:
            yield from bodies

    with pytest.raises(SettingsError, match="'b': its function yields"):

        @worker.serves(Service("b", takes=int, gives=int), batch=4)
        async def b(numbers: list[int]) -> Any:
            yield numbers


# -- with types -----------------------------------------------------------------------------------------------------


class Word(msgspec.Struct):
    text: str


def named(first: int, last: int) -> Generator[Word, None, None]:
    for number in range(first, last):
        yield Word(str(number))


async def named_async(first: int, last: int, task: Task) -> AsyncIterator[Word]:
    for number in range(first, last):
        yield Word(str(number))


@pytest.mark.parametrize("function", [named, named_async])
def test_each_part_is_a_value(broker: Broker, serve: Serve, function: Any) -> None:
    serve(words=function)
    ask(broker, b"t1", "words", b'{"first":1,"last":3}')
    assert parts(broker, b"t1", 2) == [b'{"text":"1"}', b'{"text":"2"}']
    assert end(broker) == (b"t1", "OK", "", 2)
    ask(broker, b"t2", "words", b'{"first":"one","last":3}')
    assert end(broker) == (b"t2", "ERROR", "bad_arguments: first: expected int, got str", 0)


def test_a_service_with_types_gives_parts_of_its_type(broker: Broker, run: Run) -> None:
    worker = Worker(broker.address)
    closed = threading.Event()

    @worker.serves(Service("words", takes=int, gives=Word, codec="msgpack"))
    def words(count: int, task: Task) -> Iterator[Word]:
        try:
            for number in range(count):
                yield Word(f"{task.service} {number}")
        finally:
            closed.set()

    run(worker)
    broker.welcome()
    ask(broker, b"t1", "words", b"\x02", credit=1)
    (body,) = parts(broker, b"t1", 1)
    assert msgspec.msgpack.decode(body) == {"text": "words 0"}
    cancel(broker, b"t1")
    assert end(broker) == (b"t1", "UNKNOWN", STOPPED, 1)
    assert closed.is_set()


def test_what_no_codec_can_write_is_refused_when_it_is_registered() -> None:
    worker = Worker()
    with pytest.raises(SettingsError, match="'lock': no codec has"):

        @worker.service("lock")
        def lock(number: int) -> Iterator[threading.Event]:
            yield threading.Event()

    with pytest.raises(SettingsError, match=r"'number': its function yields, so it gives an Iterator\[...\], not int"):

        @worker.service("number")
        def number(number: int) -> int:  # type: ignore[misc]
            yield number

    @worker.service("anything")
    def anything(number: int) -> Iterator:  # type: ignore[type-arg]
        yield number

    @worker.service("nothing said")
    def nothing_said(number: int):  # type: ignore[no-untyped-def]
        yield number


# -- the way from one thread to the other ---------------------------------------------------------------------------


@pytest.fixture
def alone(bell: Bell) -> tuple[OutgoingParts, deque[OutgoingParts]]:
    """The parts of a stream with credit for two, and where those are named at which somebody should look."""
    listed: deque[OutgoingParts] = deque()
    given = Given(b"t", ParsedHeader("test", None, credit=2), b'"id"', b"", b"")
    return OutgoingParts(given, 2, 1 << 62, bell, listed), listed


def test_the_other_thread_is_told_once_until_it_has_looked(alone: tuple[OutgoingParts, deque[OutgoingParts]]) -> None:
    parts, listed = alone
    parts.grant(100)
    for number in range(50):
        assert parts.are_wanted()
        parts.add(b"%d" % number)
    assert list(listed) == [parts]
    parts.is_listed = False
    assert len(parts.take()) == 50
    assert parts.take() == []
    parts.add(b"50")
    assert list(listed) == [parts, parts]


def test_and_once_more_when_there_is_no_credit_left(alone: tuple[OutgoingParts, deque[OutgoingParts]]) -> None:
    parts, listed = alone
    parts.add(b"1")
    parts.add(b"2")
    assert list(listed) == [parts, parts]
    assert not parts.are_wanted()
    assert parts.wait(1) == "", "it is late: there is still no credit, and no reason to stop"


def test_whoever_waits_is_woken_by_credit_and_by_the_end(alone: tuple[OutgoingParts, deque[OutgoingParts]]) -> None:
    parts, _ = alone
    told: list[str] = []
    for change in (functools.partial(parts.grant, 3), parts.close):
        while parts.are_wanted():
            parts.add(b"x")
        waiting = threading.Thread(target=lambda: told.append(parts.wait()))
        waiting.start()
        deadline = time.monotonic() + 20
        while parts.wake is None:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        before = len(told)
        change()
        waiting.join(20)
        assert len(told) == before + 1
    assert told == ["", STOPPED]
