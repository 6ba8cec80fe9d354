"""Streams of both clients, from a broker that a test plays by hand: who takes them, who stops, and who leaves."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.unit.client.test_failover import SOON_S, Asked, Broker, Loop, Threads

from famulus import AsyncClient, AsyncStream, Client, Service, Stream, TaskError, Unknown
from famulus.client.parts import CREDIT_DEFAULT
from famulus.client.rules import orphan_error
from famulus.client.stream import ThreadMailbox
from famulus.errors import BadAnswer, Closed
from famulus.wire import headers, stream

WORDS = Service("words", takes=int, gives=str)


class StreamBroker(Broker):
    def part(self, asked: Asked, number: int, body: bytes = b"") -> None:
        place = stream.write_place(asked.envelope, number)
        self._socket.send_multipart([asked.peer, place, headers.PART, body or b"%d" % number])

    def parts(self, asked: Asked, first: int, last: int) -> None:
        for number in range(first, last + 1):
            self.part(asked, number)

    def end(self, asked: Asked, parts: int, outcome: str = "OK", reason: str = "") -> None:
        self.answer(asked, parts=parts, outcome=outcome, reason=reason)

    def hear_credit(self) -> tuple[bytes, int]:
        return stream.read_credit(self.hear("CREDIT").body)


class Threaded(Threads):
    """Streams of a `Client`, as the tests read them."""

    def stream(self, *arguments: Any, **options: Any) -> Any:
        assert isinstance(self.client, Client)
        return self.client.stream(*arguments, **options)

    def next(self, parts: Any) -> Any:
        return next(parts)

    def rest(self, parts: Any) -> list[Any]:
        return list(parts)

    def leave(self, parts: Any) -> None:
        parts.close()


class Looped(Loop):
    """The same of an `AsyncClient`."""

    def stream(self, *arguments: Any, **options: Any) -> Any:
        async def begin() -> AsyncStream[Any]:
            assert isinstance(self.client, AsyncClient)
            return self.client.stream(*arguments, **options)

        return self._run(begin())

    def next(self, parts: Any) -> Any:
        return self._run(anext(parts))

    def rest(self, parts: Any) -> list[Any]:
        async def rest() -> list[Any]:
            return [part async for part in parts]

        return list(self._run(rest()))

    def leave(self, parts: Any) -> None:
        self._run(parts.aclose())


Clients = Callable[..., Threaded | Looped]


@pytest.fixture(params=[Threaded, Looped])
def clients(request: pytest.FixtureRequest) -> Iterator[Clients]:
    made: list[Threaded | Looped] = []

    def make(broker: object, **options: Any) -> Threaded | Looped:
        made.append(request.param(broker, **{"timeout": 20.0, **options}))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def broker() -> Iterator[StreamBroker]:
    broker = StreamBroker()
    yield broker
    broker.die()


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


# -- taking parts ---------------------------------------------------------------------------------------------------


def test_parts_come_one_by_one_and_end(broker: StreamBroker, clients: Clients) -> None:
    client = clients(broker.address)
    parts = client.stream("count", b"body", priority=7, headers={"a": "b"}, key="k", message_id="mine", timeout=5)
    asked = broker.hear()
    assert asked.body == b"body"
    told = {name: asked.fields[name] for name in ("credit", "priority", "headers", "key", "message_id", "timeout_ms")}
    assert told == {
        "credit": CREDIT_DEFAULT,
        "priority": 7,
        "headers": {"a": "b"},
        "key": "k",
        "message_id": "mine",
        "timeout_ms": 5000,
    }
    broker.part(asked, 1)
    assert client.next(parts) == b"1"
    broker.parts(asked, 2, 3)
    broker.end(asked, 3)
    assert client.rest(parts) == [b"2", b"3"]
    assert client.rest(parts) == [], "it stays at its end"
    assert not client.connection.session._pending


def test_the_answer_of_a_function_that_does_not_stream_is_the_only_part(broker: StreamBroker, clients: Clients) -> None:
    client = clients(broker.address)
    parts = client.stream("echo", b"whole")
    broker.serve()
    assert client.rest(parts) == [b"whole"]


def test_more_is_asked_for_as_parts_are_taken_and_not_before(broker: StreamBroker, clients: Clients) -> None:
    client = clients(broker.address)
    parts = client.stream("count", credit=4)
    asked = broker.hear()
    broker.parts(asked, 1, 4)
    assert client.next(parts) == b"1"
    other = client.submit("echo")
    broker.serve()  # whatever it had to say before, it has said
    assert other.result(SOON_S) == b""
    assert client.next(parts) == b"2"
    assert broker.hear_credit() == (asked.envelope, 6)
    broker.parts(asked, 5, 6)
    assert [client.next(parts), client.next(parts)] == [b"3", b"4"]
    assert broker.hear_credit() == (asked.envelope, 8)
    assert [client.next(parts), client.next(parts)] == [b"5", b"6"]
    assert broker.hear_credit() == (asked.envelope, 10)
    broker.end(asked, 6)
    assert client.rest(parts) == []


def test_parts_come_before_the_error(broker: StreamBroker, clients: Clients) -> None:
    client = clients(broker.address)
    parts = client.stream("count")
    asked = broker.hear()
    broker.parts(asked, 1, 2)
    broker.end(asked, 2, "ERROR", "broken: no more of it")
    assert [client.next(parts), client.next(parts)] == [b"1", b"2"]
    with pytest.raises(TaskError, match="no more of it") as caught:
        client.next(parts)
    assert (caught.value.service, caught.value.message_id) == ("count", "made-here")
    assert client.rest(parts) == []


def test_one_that_counts_otherwise_is_incomplete(broker: StreamBroker, clients: Clients) -> None:
    client = clients(broker.address)
    parts = client.stream("count")
    asked = broker.hear()
    broker.parts(asked, 1, 2)
    broker.end(asked, 3)
    assert client.next(parts) == b"1"
    with pytest.raises(Unknown, match="incomplete: 2 parts came, and the worker made 3"):
        client.rest(parts)


def test_parts_have_types(broker: StreamBroker, clients: Clients) -> None:
    client = clients(broker.address)
    parts = client.stream(WORDS, 3)
    asked = broker.hear()
    assert (asked.body, asked.fields["content_type"]) == (b"3", "application/json")
    broker.part(asked, 1, b'"one"')
    assert client.next(parts) == "one"
    broker.part(asked, 2, b"2")
    with pytest.raises(BadAnswer, match="words ran, and its answer is not what was expected"):
        client.next(parts)
    assert broker.hear("CANCEL").body == asked.envelope, "whoever gets an error takes no more"


def test_progress_is_told_to_whoever_waits(broker: StreamBroker, clients: Clients) -> None:
    client = clients(broker.address)
    told: list[tuple[float, str]] = []
    parts = client.stream("count", on_progress=lambda done, note: told.append((done, note)))
    asked = broker.hear()
    broker.part(asked, stream.PROGRESS, stream.write_progress(0.5, "half"))
    broker.part(asked, 1)
    broker.part(asked, stream.PROGRESS, stream.write_progress(1.0))
    broker.end(asked, 1)
    wait_until(lambda: not client.connection.session._pending)
    assert told == [], "it is called by nobody else"
    assert client.rest(parts) == [b"1"]
    assert told == [(1.0, "")], "the latest is enough"


@pytest.mark.parametrize("credit", [0, -1, 100_001])
def test_a_wrong_credit_is_told_at_once(broker: StreamBroker, clients: Clients, credit: int) -> None:
    client = clients(broker.address)
    with pytest.raises(ValueError, match="a credit is a number of parts from 1 to 100000"):
        client.stream("count", credit=credit)
    with pytest.raises(ValueError, match="a timeout is"):
        client.stream("count", timeout=0)
    assert not client.connection.session._pending


def test_a_closed_client_gives_no_stream(broker: StreamBroker) -> None:
    client = Client(broker.address)
    client.close()
    with pytest.raises(Closed):
        client.stream("count")


# -- leaving --------------------------------------------------------------------------------------------------------


def begun(broker: StreamBroker, client: Threaded | Looped) -> tuple[Any, Asked]:
    parts = client.stream("count")
    asked = broker.hear()
    broker.parts(asked, 1, 2)
    assert client.next(parts) == b"1"
    return parts, asked


def test_whoever_leaves_early_cancels_the_task(broker: StreamBroker, clients: Clients) -> None:
    client = clients(broker.address)
    parts, asked = begun(broker, client)
    client.leave(parts)
    client.leave(parts)
    assert broker.hear("CANCEL").body == asked.envelope
    broker.parts(asked, 3, 4)
    assert client.rest(parts) == []
    broker.end(asked, 4, "UNKNOWN", "cancelled: it was")
    wait_until(lambda: not client.connection.session._pending)


def test_so_does_whoever_forgets_it(broker: StreamBroker, clients: Clients) -> None:
    client = clients(broker.address)
    parts, asked = begun(broker, client)
    del parts
    gc.collect()
    assert broker.hear("CANCEL").body == asked.envelope


def test_and_whoever_gets_an_error_in_the_middle(broker: StreamBroker) -> None:
    with Client(broker.address) as client:
        parts = client.stream("count")
        asked = broker.hear()
        broker.part(asked, 1)
        with suppress(ZeroDivisionError), parts:
            raise ZeroDivisionError(next(parts))
        assert broker.hear("CANCEL").body == asked.envelope


def test_ctrl_c_while_waiting_cancels_the_task(broker: StreamBroker) -> None:
    with Client(broker.address) as client:
        parts = client.stream("count")
        asked = broker.hear()
        timer = threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            next(parts)
        timer.join()
        assert broker.hear("CANCEL").body == asked.envelope
        assert list(parts) == []


def test_a_cancelled_coroutine_cancels_the_task(broker: StreamBroker) -> None:
    async def main() -> None:
        async with AsyncClient(broker.address) as client:
            parts = client.stream("count")

            async def read() -> list[bytes]:
                return [part async for part in parts]

            reading = asyncio.create_task(read())
            asked = await asyncio.to_thread(broker.hear)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert (await asyncio.to_thread(broker.hear, "CANCEL")).body == asked.envelope

    asyncio.run(main())


def test_a_thread_that_waits_is_woken_when_another_closes_the_stream(broker: StreamBroker) -> None:
    with Client(broker.address) as client:
        parts = client.stream("count")
        broker.hear()
        read: list[list[bytes]] = []
        reader = threading.Thread(target=lambda: read.append(list(parts)))
        reader.start()
        parts.close()
        reader.join(SOON_S)
        assert read == [[]]


def test_nobody_is_told_of_a_stream_that_was_read_to_its_end(broker: StreamBroker, clients: Clients) -> None:
    client = clients(broker.address)
    parts, asked = begun(broker, client)
    broker.end(asked, 2)
    assert client.rest(parts) == [b"2"]
    client.leave(parts)
    del parts
    gc.collect()
    client.submit("echo", b"next")
    heard = []
    while "TASK" not in heard:
        heard.append(broker.hear_any().fields["request"])
    assert "CANCEL" not in heard


# -- what goes wrong ------------------------------------------------------------------------------------------------


def test_a_stream_whose_broker_dies_is_unknown_and_not_sent_again(broker: StreamBroker, clients: Clients) -> None:
    other = StreamBroker()
    try:
        client = clients([broker.address, other.address])
        parts, _ = begun(broker, client)
        broker.die()
        assert client.next(parts) == b"2"
        with pytest.raises(Unknown, match="broker_lost"):
            client.next(parts)
        again = client.submit("echo")
        assert other.serve().fields["service"] == "echo", "the stream was not sent to it"
        assert again.result(SOON_S) == b""
    finally:
        other.die()


def test_one_that_was_refused_without_a_part_goes_to_another_broker(broker: StreamBroker, clients: Clients) -> None:
    other = StreamBroker()
    try:
        client = clients([broker.address, other.address])
        parts = client.stream("count")
        broker.answer(broker.hear(), outcome="REJECTED", reason="disabled: this broker is shutting down")
        asked = other.hear()
        assert asked.fields["credit"] == CREDIT_DEFAULT
        other.part(asked, 1)
        other.end(asked, 1)
        assert client.rest(parts) == [b"1"]
    finally:
        other.die()


def test_closing_the_client_ends_its_streams(broker: StreamBroker) -> None:
    client = Client(broker.address)
    parts = client.stream("count")
    asked = broker.hear()
    broker.parts(asked, 1, 2)
    assert next(parts) == b"1"
    client.close()
    with pytest.raises(Unknown, match="the client was closed"):
        list(parts)


def test_in_a_child_that_was_forked_nobody_waits() -> None:
    told: list[object] = []
    mailbox = ThreadMailbox()
    parts: Stream[bytes] = Stream(mailbox, told.append, told.append, None, None)
    mailbox.orphan(orphan_error())
    with pytest.raises(Unknown, match="this process was forked"):
        next(parts)
