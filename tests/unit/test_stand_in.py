"""The stand-in for unit tests: the same outcomes as with a real broker, without any process."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial

import pytest

from famulus import Rejected, Service, Task, TaskError, Unknown, Worker
from famulus.core.routing.router import Router
from famulus.errors import Closed
from famulus.testing import StandIn

TOTAL = Service("total", takes=list[int], gives=int, codec="msgpack")


@pytest.fixture
def worker() -> Worker:
    worker = Worker(slots=2)

    @worker.service("upper")
    def upper(body: bytes, task: Task) -> bytes:
        return body.upper() + task.headers.get("end", "").encode()

    @worker.service("add")
    def add(a: int, b: int = 0) -> int:
        return a + b

    @worker.serves(TOTAL)
    async def total(numbers: list[int]) -> int:
        await asyncio.sleep(0)
        return sum(numbers)

    @worker.service("key")
    def key(body: bytes, task: Task) -> str:
        return str(task.header.get("key"))

    @worker.service("nap")
    def nap(seconds: float) -> None:
        time.sleep(seconds)

    @worker.service("fail")
    def fail(body: bytes) -> None:
        raise ValueError("no")

    return worker


def test_everything_that_a_client_can_ask(worker: Worker) -> None:
    before = set(threading.enumerate())
    with StandIn(worker) as broker, broker.client() as client:
        assert client.request("upper", b"a") == b"A"
        assert client.request("upper", b"a", headers={"end": "!"}) == b"A!"
        assert client.submit("upper", b"b", message_id="mine", at_least_once=True).result(0) == b"B"
        assert list(client.map("upper", (b"%d" % n for n in range(300)), window=7)) == [b"%d" % n for n in range(300)]
        assert client.call("add", a=1, b=2) == 3
        assert client.call(TOTAL, [1, 2]) == 3
        assert (client.address, client.was_connected) == ("in-process", True)
    with pytest.raises(Closed):
        client.request("upper")
    assert not set(threading.enumerate()) - before


def test_all_tasks_of_a_map_have_its_key(worker: Worker) -> None:
    async def main() -> list[bytes]:
        async with StandIn(worker).async_client() as client:
            return [answer async for answer in client.map("key", [b"", b""], key="customer 7")]

    with StandIn(worker) as broker, broker.client() as client:
        assert list(client.map("key", [b"", b""], key="customer 7")) == [b"customer 7"] * 2
        with pytest.raises(ValueError, match="a key has at most 255"):
            list(client.map("key", [b""], key="x" * 256))
    assert asyncio.run(main()) == [b"customer 7"] * 2


def test_the_outcomes_are_those_of_a_broker(worker: Worker, caplog: pytest.LogCaptureFixture) -> None:
    with StandIn(worker) as broker, broker.client() as client:
        with pytest.raises(TaskError, match=r"ValueError: no \(service fail, task .+, broker in-process") as failed:
            client.request("fail")
        assert failed.value.message_id
        assert "in fail" in caplog.text
        with pytest.raises(TaskError, match="bad_arguments: a: missing"):
            client.call("add")
        with pytest.raises(Rejected, match="no_service"):
            client.request("nobody-offers-this", timeout=30)
        with pytest.raises(Unknown, match="expired"):
            client.call("nap", seconds=0.2, timeout=0.05)
        errors = list(client.map("fail", [b"", b""], errors="return"))
        assert [isinstance(error, TaskError) for error in errors] == [True, True]


def test_tasks_of_a_typed_service_are_known_to_the_dispatcher(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their headers are the same each time and their answers are plain, so a router is asked about the first alone."""
    asked: list[object] = []
    decide = Router.decide

    def counting(router: Router, questions: list[list[bytes]]) -> list[list[bytes]]:
        asked.extend(questions)
        return decide(router, questions)

    monkeypatch.setattr(Router, "decide", counting)
    with StandIn(worker) as broker, broker.client() as client:
        for call in (partial(client.call, "add", a=1), partial(client.call, TOTAL, [1])):
            call()
            asked.clear()
            for _ in range(5):
                call()
            assert not asked
            call(headers={"number": "1"})
            assert len(asked) == 1


def test_asyncio(worker: Worker) -> None:
    async def main() -> None:
        async with StandIn(worker).async_client() as client:
            assert await client.request("upper", b"a") == b"A"
            assert await client.call(TOTAL, [1, 2]) == 3
            assert [answer async for answer in client.map("upper", [b"a", b"b"])] == [b"A", b"B"]
            with pytest.raises(TaskError, match="ValueError: no"):
                await client.request("fail")
        with pytest.raises(Closed):
            await client.request("upper")

    asyncio.run(main())


def test_functions_may_ask_for_others() -> None:
    """Also async ones, which run in another thread; and one that asks for itself waits no longer than it may."""
    worker, other = Worker(slots=1), Worker(slots=1)
    broker = StandIn()
    client = broker.client()

    @worker.service("double")
    async def double(number: int) -> int:
        return 2 * int(client.call("next", number=number))

    @worker.service("again")
    def again(depth: int) -> int:
        return 1 + int(client.call("again", depth=depth - 1, timeout=0.1)) if depth else 0

    @other.service("next")
    def following(number: int) -> int:
        return number + 1

    broker.add(worker)
    broker.add(other)
    assert client.call("double", number=4) == 10
    assert client.call("again", depth=0) == 0
    with pytest.raises(TaskError, match="Rejected: "):
        client.call("again", depth=1, timeout=20)


def test_workers_come_and_go(worker: Worker) -> None:
    broker = StandIn()
    client = broker.client(timeout=0.2)
    with pytest.raises(Rejected, match="no_service"):
        client.request("upper")
    broker.add(worker)
    assert client.request("upper", b"a") == b"A"
    broker.remove(worker)
    with pytest.raises(Rejected):
        client.request("upper")


def test_several_threads_at_once(worker: Worker) -> None:
    with StandIn(worker) as broker, broker.client() as client:
        together = threading.Barrier(3, timeout=10)
        other = Worker(slots=3)

        @other.service("meet")
        def meet(body: bytes) -> bytes:
            together.wait()
            return body

        broker.add(other)
        answers: list[bytes] = []
        threads = [
            threading.Thread(target=lambda n=n: answers.append(client.request("meet", b"%d" % n))) for n in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert sorted(answers) == [b"0", b"1", b"2"]


def test_batches_take_what_is_there(worker: Worker) -> None:
    batches = Worker()
    sizes: list[int] = []

    @batches.service("lengths", batch=4, wait_ms=60_000)
    async def lengths(bodies: list[bytes]) -> list[str | Exception]:
        sizes.append(len(bodies))
        return [str(len(body)) if body else ValueError("empty") for body in bodies]

    @batches.service("squares", batch=4)
    def squares(numbers: list[int]) -> list[int]:
        return [number * number for number in numbers]

    squared = Service("squares", takes=int, gives=int)
    with StandIn(worker, batches) as broker, broker.client() as client:
        assert client.request("lengths", b"abc") == b"3", "nobody is waited for"
        assert list(client.map("lengths", [b"a"] * 6)) == [b"1"] * 6
        with pytest.raises(TaskError, match="ValueError: empty"):
            client.request("lengths")
        assert client.call(squared, 5) == 25
        with pytest.raises(TaskError, match="bad_arguments: expected int, got str"):
            client.request("squares", b'"x"', headers={})
    assert sizes == [1, *sizes[1:-1], 1]
    assert sum(sizes) == 8


def test_a_task_with_a_delay_is_waited_for(worker: Worker) -> None:
    async def main() -> None:
        async with StandIn(worker).async_client() as client:
            began = time.monotonic()
            assert await client.request("upper", b"a", delay_s=0.05) == b"A"
            assert time.monotonic() - began >= 0.05

    with StandIn(worker) as broker, broker.client() as client:
        began = time.monotonic()
        assert client.request("upper", b"a", delay_s=0.05) == b"A"
        assert client.call("add", a=1, at=time.time() + 0.05) == 1
        assert time.monotonic() - began >= 0.09
        with pytest.raises(ValueError, match="delay_s is 0 to 3600"):
            client.submit("upper", b"a", delay_s=-1)
        with pytest.raises(ValueError, match="not both"):
            client.map("upper", [], delay_s=1, at=1)
    asyncio.run(main())
