"""Streams of the stand-in for a broker: the function goes on when its reader waits, and no further."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from itertools import islice

import pytest

from famulus import AsyncClient, Client, Rejected, Service, Task, TaskError, Unknown, Worker
from famulus.testing import StandIn

SQUARES = Service("squares", takes=int, gives=int)
SHORT_S = 0.05


class Told(list[str]):
    """What the functions did."""


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def worker(told: Told) -> Worker:
    worker = Worker(slots=4)

    @worker.service("count")
    def count(body: bytes) -> Iterator[str]:
        try:
            for number in range(int(body)):
                told.append(f"made {number} in {threading.current_thread().name}")
                yield str(number)
        finally:
            told.append("closed")

    @worker.service("later")
    async def later(body: bytes, task: Task) -> AsyncIterator[str]:
        try:
            async with asyncio.timeout(10):
                for number in range(int(body)):
                    await asyncio.sleep(0)
                    task.progress(number / int(body), "counting")
                    yield str(number)
        except (asyncio.CancelledError, GeneratorExit):
            told.append("stopped")
            raise

    @worker.service("break")
    def broken(body: bytes) -> Iterator[bytes]:
        yield b"1"
        raise ValueError("no more of it")

    @worker.service("plain")
    def plain(body: bytes) -> bytes:
        return body

    @worker.serves(SQUARES)
    def squares(last: int) -> Iterator[int]:
        yield from (number * number for number in range(last))

    return worker


@pytest.fixture
def broker(worker: Worker) -> Iterator[StandIn]:
    with StandIn(worker) as broker:
        yield broker
    assert not broker._clients, "nothing is left of any stream"


@pytest.fixture
def client(broker: StandIn) -> Client:
    return broker.client()


@pytest.mark.parametrize("service", ["count", "later"])
@pytest.mark.parametrize("credit", [1, 3, 64])
def test_parts_come_in_order(client: Client, service: str, credit: int) -> None:
    assert list(client.stream(service, b"10", credit=credit)) == [b"%d" % number for number in range(10)]
    assert list(client.stream(service, b"0", credit=credit)) == []
    assert list(client.stream("plain", b"whole", credit=credit)) == [b"whole"]


def test_parts_have_types(client: Client) -> None:
    assert list(client.stream(SQUARES, 4)) == [0, 1, 4, 9]
    with pytest.raises(TaskError, match="bad_arguments"):
        list(client.stream("squares", b'"four"'))
    with pytest.raises(TaskError, match=r"ask for it with stream\(\)"):
        client.call(SQUARES, 4)
    with pytest.raises(Rejected, match="no_service"):
        next(client.stream("nobody"))


def test_a_function_makes_what_its_reader_waits_for_in_the_readers_thread(client: Client, told: Told) -> None:
    parts = client.stream("count", b"1000")
    assert told == []
    assert list(islice(parts, 2)) == [b"0", b"1"]
    here = threading.current_thread().name
    assert told == [f"made 0 in {here}", f"made 1 in {here}"]
    parts.close()
    assert told[2:] == ["closed"]
    assert list(parts) == []


def test_two_at_the_same_time_and_a_task_between(client: Client) -> None:
    pairs = list(zip(client.stream("count", b"3"), client.stream("later", b"3"), strict=True))
    assert pairs == [(b"0", b"0"), (b"1", b"1"), (b"2", b"2")]
    with client.stream("count", b"3") as parts:
        assert next(parts) == b"0"
        assert client.request("plain", b"x") == b"x"
        assert next(parts) == b"1"


def test_whoever_forgets_a_stream_leaves_it(client: Client, told: Told) -> None:
    for _ in client.stream("count", b"5"):
        break
    assert told[-1] == "closed"
    for _ in client.stream("later", b"5"):
        break
    assert told[-1] == "stopped"


def test_a_function_that_raises_in_the_middle(client: Client) -> None:
    parts = client.stream("break")
    assert next(parts) == b"1"
    with pytest.raises(TaskError, match="ValueError: no more of it"):
        next(parts)


def test_its_time_may_be_over_in_the_middle(client: Client) -> None:
    parts = client.stream("count", b"5", timeout=SHORT_S)
    assert next(parts) == b"0"
    threading.Event().wait(2 * SHORT_S)
    with pytest.raises((Unknown, TaskError), match="expired"):
        list(parts)


def test_progress(client: Client) -> None:
    heard: list[tuple[float, str]] = []
    parts = client.stream("later", b"4", on_progress=lambda done, note: heard.append((done, note)))
    assert len(list(parts)) == 4
    assert heard == [(0.0, "counting"), (0.25, "counting"), (0.5, "counting"), (0.75, "counting")]


def test_with_asyncio(broker: StandIn, told: Told) -> None:
    async def read(client: AsyncClient, service: str) -> list[bytes]:
        return [part async for part in client.stream(service, b"3")]

    async def main() -> None:
        async with broker.async_client() as client:
            both = await asyncio.gather(read(client, "count"), read(client, "later"))
            assert list(both) == [[b"0", b"1", b"2"]] * 2
            assert [number async for number in client.stream(SQUARES, 3)] == [0, 1, 4]
            async with client.stream("count", b"3") as parts:
                assert await anext(parts) == b"0"
            assert told[-1] == "closed"

    asyncio.run(main())
