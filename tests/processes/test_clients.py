"""`Client` and `AsyncClient` against a real broker: many callers, many tasks, time-outs, ends and new beginnings."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest
import zmq
from tests.processes.conftest import BrokerProcess, Raw, WorkerProcess, retry, wait_until

from famulus import AsyncClient, Client, Worker
from famulus.errors import Closed, OutcomeError, Rejected, SettingsError, TaskError, Unknown

#: Less than the time-out of a task, if nobody says another one.
SOON_S = 20.0

# -- many at once ---------------------------------------------------------------------------------------------------


def test_sixteen_threads_on_one_client(served: BrokerProcess) -> None:
    with Client(served.frontend) as client, ThreadPoolExecutor(16) as pool:

        def ask(thread: int) -> list[bytes]:
            return [client.request("echo", f"{thread} {number}".encode()) for number in range(100)]

        for thread, answers in enumerate(pool.map(ask, range(16))):
            assert answers == [f"{thread} {number}".encode() for number in range(100)]


def test_two_hundred_asyncio_tasks_on_one_client(served: BrokerProcess) -> None:
    async def main() -> None:
        async with AsyncClient(served.frontend) as client:

            async def ask(task: int) -> list[bytes]:
                return [await client.request("echo", f"{task} {number}".encode()) for number in range(20)]

            for task, answers in enumerate(await asyncio.gather(*map(ask, range(200)))):
                assert answers == [f"{task} {number}".encode() for number in range(20)]

    asyncio.run(main())


def test_thousands_in_flight(served: BrokerProcess) -> None:
    with Client(served.frontend) as client:
        futures = [client.submit("echo", str(number)) for number in range(8000)]
        assert [future.result(30) for future in futures] == [str(number).encode() for number in range(8000)]


def test_bodies_of_all_kinds_and_sizes(served: BrokerProcess) -> None:
    with Client(served.frontend) as client:
        assert client.request("echo") == b""
        assert client.request("echo", "ü") == "ü".encode()
        assert client.request("echo", bytearray(b"x")) == b"x"
        assert client.request("echo", memoryview(b"xyz")[1:]) == b"yz"
        big = os.urandom(16 * 1024 * 1024)
        assert client.request("echo", big) == big
        with pytest.raises(Rejected) as caught:
            client.request("echo", big + b"x")
        assert caught.value.code == "too_large"
        assert client.request("echo", b"and on it goes") == b"and on it goes"


# -- map ------------------------------------------------------------------------------------------------------------


def map_threads(
    frontend: str, *arguments: object, token: str | None = None, **options: object
) -> list[bytes | OutcomeError]:
    with Client(frontend, token=token) as client:
        return list(client.map(*arguments, **options))  # type: ignore[call-overload]


def map_asyncio(
    frontend: str, *arguments: object, token: str | None = None, **options: object
) -> list[bytes | OutcomeError]:
    async def main() -> list[bytes | OutcomeError]:
        async with AsyncClient(frontend, token=token) as client:
            return [answer async for answer in client.map(*arguments, **options)]  # type: ignore[call-overload]

    return asyncio.run(main())


both = pytest.mark.parametrize("run", [map_threads, map_asyncio])
Map = Callable[..., list[bytes | OutcomeError]]


@both
def test_map_keeps_the_order(served: BrokerProcess, run: Map) -> None:
    bodies = [f"sleep {0.2 if number % 4 == 0 else 0} {number}" for number in range(12)]
    assert run(served.frontend, "once", bodies) == [body.encode() for body in bodies]
    assert run(served.frontend, "echo", []) == []


@both
def test_map_as_they_come(served: BrokerProcess, run: Map) -> None:
    bodies = ["sleep 1.5 last", "first"]
    assert run(served.frontend, "once", bodies, ordered=False) == [b"first", b"sleep 1.5 last"]


@both
def test_map_gives_errors_in_their_place(served: BrokerProcess, run: Map) -> None:
    answers = run(served.frontend, "once", ["a", "fail", "b"], errors="return")
    assert (answers[0], answers[2]) == (b"a", b"b")
    assert isinstance(answers[1], TaskError)
    assert answers[1].reason == "ValueError: as you wish"
    assert answers[1].message_id
    with pytest.raises(TaskError):
        run(served.frontend, "once", ["a", "fail", "b"])


@both
def test_map_with_ids_runs_nothing_twice(served: BrokerProcess, run: Map) -> None:
    ids = [f"{run.__name__} {number}" for number in range(20)]
    asked = {"message_ids": ids, "errors": "return", "token": f"the one of {run.__name__}"}
    bodies = ["fail" if number % 4 == 0 else str(number) for number in range(20)]
    first = run(served.frontend, "once", bodies, **asked)
    assert [each.message_id for each in first if isinstance(each, TaskError)] == ids[::4]
    # Whatever is asked now, it is answered from memory.
    again = run(served.frontend, "once", ["something else"] * 20, **asked)
    assert [getattr(each, "message_id", each) for each in again] == [
        getattr(each, "message_id", each) for each in first
    ]


@both
def test_map_raises_what_the_generator_raises(served: BrokerProcess, run: Map) -> None:
    def bodies() -> Iterator[bytes]:
        yield b"x"
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(served.frontend, "echo", bodies())


INTERRUPTED = """
import asyncio, sys
from famulus import AsyncClient, Client

bodies = ["now", *["never"] * 20]

def threads(address):
    with Client(address, timeout=60) as client:
        for answer in client.map("some-day", bodies, progress=True):
            print("first answer", flush=True)

async def asyncio_(address):
    async with AsyncClient(address, timeout=60) as client:
        async for answer in client.map("some-day", bodies, progress=True):
            print("first answer", flush=True)

try:
    threads(sys.argv[2]) if sys.argv[1] == "threads" else asyncio.run(asyncio_(sys.argv[2]))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.fixture(scope="module")
def endless(served: BrokerProcess) -> Iterator[Worker]:
    """A worker that some tasks wait for in vain."""
    worker = Worker(slots=200, drain_s=0.1)

    @worker.service("some-day")
    async def some_day(body: bytes) -> bytes:
        if body == b"never":
            await asyncio.Event().wait()
        return body

    with worker.started(served.backend):
        yield worker


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["threads", "asyncio"])
@pytest.mark.parametrize("terminal", [False, True])
def test_ctrl_c_in_the_middle_of_a_map(served: BrokerProcess, endless: Worker, kind: str, terminal: bool) -> None:
    command = [sys.executable, "-c", INTERRUPTED, kind, served.frontend]
    leader, follower = pty.openpty()
    program = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=follower if terminal else subprocess.PIPE,
        text=True,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(follower)
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == "first answer\n"
        program.send_signal(signal.SIGINT)
        told, complaints = program.communicate(timeout=40)
        assert (told, program.returncode) == ("interrupted\n", 0)
        seen = os.read(leader, 100_000).decode() if terminal else complaints
        assert "Traceback" not in seen
        assert "ignored" not in seen
        assert seen.rpartition("\x1b[?25")[2].startswith("h") if terminal else seen == ""
    finally:
        program.kill()
        program.communicate()
        os.close(leader)


class Pulled:
    """Bodies without end that know how many of them were taken."""

    def __init__(self) -> None:
        self.count = 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self.count += 1
            yield str(self.count - 1).encode()


def test_map_pulls_no_further_than_its_window(served: BrokerProcess) -> None:
    bodies = Pulled()
    with Client(served.frontend) as client:
        answers = client.map("echo", bodies, window=50)
        assert bodies.count == 0
        for given, answer in enumerate(itertools.islice(answers, 2000)):
            assert answer == str(given).encode()
            assert bodies.count <= given + 50
        # Nobody asks for more, so nothing more is taken.
        before = bodies.count
        assert client.request("echo", b"x") == b"x"
        assert bodies.count == before
        answers.close()  # type: ignore[attr-defined]


def test_asyncio_map_pulls_no_further_than_its_window(served: BrokerProcess) -> None:
    async def main() -> None:
        bodies = Pulled()
        async with AsyncClient(served.frontend) as client:
            given = 0
            answers: AsyncIterator[bytes] = client.map("echo", bodies, window=50)
            async for answer in answers:
                assert answer == str(given).encode()
                assert bodies.count <= given + 50
                given += 1
                if given == 2000:
                    break
            await answers.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())


# -- time and ends --------------------------------------------------------------------------------------------------


def test_a_request_that_no_worker_takes_in_time(
    broker: BrokerProcess, ledger_workers: Callable[..., WorkerProcess]
) -> None:
    worker = ledger_workers(broker.backend, "once", slots=1)
    worker.signal(signal.SIGTERM)
    worker.wait()
    with Client(broker.frontend) as client:
        began = time.monotonic()
        with pytest.raises(Rejected) as caught:
            client.request("once", b"x", timeout=0.5)
        assert caught.value.code in ("expired", "no_worker")
        assert 0.5 <= time.monotonic() - began < SOON_S
        assert caught.value.message_id


def test_a_running_task_that_times_out(served: BrokerProcess, endless: Worker) -> None:
    with Client(served.frontend, timeout=1.0) as client:
        began = time.monotonic()
        with pytest.raises(Unknown) as caught:
            client.request("some-day", b"never", message_id="mine")
        assert (caught.value.code, caught.value.message_id) == ("expired", "mine")
        assert 1.0 <= time.monotonic() - began < SOON_S
        assert client.request("echo", b"x", timeout=20) == b"x"


def test_close_ends_what_is_open(served: BrokerProcess, endless: Worker) -> None:
    client = Client(served.frontend)
    assert client.request("once", b"x") == b"x"
    futures = [client.submit("some-day", b"never") for _ in range(4)]
    retry(client, "echo")  # by now they are sent
    client.close()
    for future in futures:
        error = future.exception(0)
        assert isinstance(error, Unknown)
        assert error.code == "broker_lost"
    client.close()
    for use in (
        lambda: client.request("echo", b"x"),
        lambda: client.submit("echo", b"x"),
        lambda: next(client.map("echo", [b"x"])),
    ):
        with pytest.raises(Closed):
            use()


def test_close_rejects_what_never_left() -> None:
    client = Client("tcp://127.0.0.1:1")
    future = client.submit("echo", b"x")
    client.close()
    error = future.exception(0)
    assert isinstance(error, Rejected)


def test_close_from_another_thread_frees_the_caller(served: BrokerProcess, endless: Worker) -> None:
    client = Client(served.frontend)
    caught: list[BaseException] = []

    def ask() -> None:
        try:
            client.request("some-day", b"never")
        except OutcomeError as error:
            caught.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_until(lambda: len(client._connection.session) == 1, 5, "it is open")
    client.close()
    thread.join(20)
    assert not thread.is_alive()
    assert isinstance(caught[0], OutcomeError)


def test_asyncio_close_and_cancel(served: BrokerProcess, endless: Worker) -> None:
    async def main() -> None:
        client = AsyncClient(served.frontend)
        assert await client.request("echo", b"x") == b"x"
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(client.request("some-day", b"never"), 0.1)
        assert await client.request("echo", b"y") == b"y"
        future = client.submit("some-day", b"never")
        assert await client.request("echo", b"z") == b"z"
        await client.close()
        with pytest.raises(Unknown):
            await future
        await client.close()
        with pytest.raises(Closed):
            await client.request("echo", b"x")

    asyncio.run(main())


def test_the_same_client_after_a_restart_of_the_broker(
    brokers: Callable[..., BrokerProcess], echo_workers: Callable[..., WorkerProcess]
) -> None:
    first = brokers("--routers", "1")
    ports = [address.rpartition(":")[2] for address in (first.frontend, first.backend)]
    worker = echo_workers(first.backend)
    with Client(first.frontend) as client:
        assert client.request("echo", b"1") == b"1"
        assert first.stop() == 0
        waiting = client.submit("echo", b"2", timeout=30)  # never left, so it goes to the next broker
        brokers("--routers", "1", "--frontend-port", ports[0], "--backend-port", ports[1])
        worker.wait_until_ready_again()
        # It may come before the worker: then the new broker does not know the service yet.
        error = waiting.exception(30)
        assert error is None or (isinstance(error, Rejected) and error.code == "no_service")
        assert client.request("echo", b"3") == b"3"


# -- mistakes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"service": ""}, ValueError),
        ({"service": "x" * 256}, ValueError),
        ({"service": None}, (TypeError, ValueError)),
        ({"body": 5}, TypeError),
        ({"body": {"a": 1}}, TypeError),
        ({"timeout": 0}, ValueError),
        ({"timeout": -1}, ValueError),
        ({"timeout": float("nan")}, ValueError),
        ({"timeout": float("inf")}, ValueError),
        ({"timeout": 1e9}, ValueError),
        ({"timeout": "1"}, TypeError),
        ({"priority": 10}, ValueError),
        ({"priority": -1}, ValueError),
        ({"message_id": ""}, ValueError),
        ({"message_id": "x" * 129}, ValueError),
        ({"service": b"echo"}, TypeError),
        ({"priority": 5.5}, TypeError),
        ({"priority": "5"}, TypeError),
        ({"message_id": 5}, TypeError),
        ({"at_least_once": "yes"}, TypeError),
        ({"idempotent": "yes"}, TypeError),
        ({"idempotent": True, "hedge_after_s": "soon"}, TypeError),
        ({"retry": 3}, TypeError),
        ({"headers": "language=en"}, TypeError),
        ({"key": 7}, TypeError),
        ({"delay_s": "1"}, TypeError),
        ({"at": "noon"}, TypeError),
    ],
)
def test_mistakes_are_raised_at_the_call(options: dict[str, object], kind: type[Exception]) -> None:
    asked = {"service": "echo", "body": b"", **options}
    of_many = {"bodies" if name == "body" else name: [it] if name == "body" else it for name, it in asked.items()}

    def check(ask: Callable[..., object], given: dict[str, object]) -> None:
        with pytest.raises(kind) as caught:
            ask(**given)
        # In our words, and not in those of a compiler.
        assert "object expected" not in str(caught.value)

    async def main() -> None:
        async with AsyncClient("tcp://127.0.0.1:1") as client:
            check(client.submit, asked)
            if not {"body", "message_id"} & set(options):
                check(client.map, of_many)

    with Client("tcp://127.0.0.1:1") as client:
        check(client.submit, asked)
        check(client.request, asked)
        if not {"body", "message_id"} & set(options):
            check(client.map, of_many)  # and not when the first answer is taken
    asyncio.run(main())


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_mistakes_in_a_map(kind: type[Client | AsyncClient]) -> None:
    client = kind("tcp://127.0.0.1:1")
    for wrong, words in (({"window": 0}, "window"), ({"window": "9"}, "window"), ({"errors": "retrun"}, "errors is")):
        with pytest.raises((ValueError, TypeError), match=words):
            client.map("echo", [b"x"], **wrong)
    with pytest.raises(TypeError, match="go by their names"):
        client.call("add", 5).send(None)  # type: ignore[call-overload]
    closing = client.close()
    if closing is not None:
        asyncio.run(closing)
    # A mistake is in the program, whatever has become of the client.
    with pytest.raises(ValueError, match="priority"):
        client.map("echo", [b"x"], priority=10)


def test_mistakes_in_a_body_and_in_an_address() -> None:
    with Client("tcp://127.0.0.1:1") as client, pytest.raises(TypeError, match="a body is"):
        next(client.map("echo", [5]))  # type: ignore[list-item]
    for address in ("nonsense", "tcp://", "tcp://127.0.0.1", "http://127.0.0.1:7100", "tcp://127.0.0.1:99999"):
        with pytest.raises(SettingsError):
            Client(address)
    with pytest.raises(ValueError, match="timeout"):
        Client("tcp://127.0.0.1:1", timeout=0)


# -- by raw socket --------------------------------------------------------------------------------------------------


def test_needbroker(served: BrokerProcess, raw: Callable[..., Raw]) -> None:
    for address, role in ((served.frontend, "client"), (served.backend, "worker")):
        asker = raw(address)
        asker.tell("NEEDBROKER", envelope=b"mine", services=["echo"], role=role)
        envelope, header, body = asker.recv()
        assert envelope == b"mine"
        assert json.loads(header) == {"request": "NEEDBROKER", "type": "RESPONSE"}
        (broker,) = json.loads(body)["brokers"]
        assert (broker["frontend"], broker["backend"]) == (served.frontend, served.backend)
        assert set(broker) == {"identity", "frontend", "backend", "family", "load"}


def test_checkconfig(served: BrokerProcess, raw: Callable[..., Raw]) -> None:
    worker = raw(served.backend)
    worker.tell("CHECKCONFIG", identity="w", services=["mine"], version=0, digest="")
    assert worker.hear()["reason"].startswith("not_connected: ")
    worker.become_worker("w", "mine", heartbeat_ms=5000)
    worker.tell("CHECKCONFIG", identity="w", services=["mine"], version=0, digest="other", heartbeat_ms=5000)
    _, header, body = worker.recv()
    facts = json.loads(header)
    assert (facts["request"], facts["identity"], facts["heartbeat_ms"]) == ("CONFIG", "w", 5000)
    assert json.loads(body)["services"] == ["mine"]
    known = {"version": facts["version"], "digest": facts["digest"], "body_digest": sha256(body).hexdigest()}
    worker.tell("CHECKCONFIG", identity="w", services=["mine"], **known)
    _, header, body = worker.recv()
    assert json.loads(header)["current"] is True
    assert body == b""


def test_a_task_by_raw_sockets(served: BrokerProcess, raw: Callable[..., Raw]) -> None:
    """Both sides of a task, as docs/protocol.md has it: unknown fields pass through untouched."""
    worker, client = raw(served.backend), raw(served.frontend, zmq.DEALER)
    worker.become_worker("raw", "raw.service")
    client.tell("TASK", envelope=b"E", body=b"B", service="raw.service", timeout_ms=5000, colour="blue", priority=7)
    ticket, header, body = worker.recv()
    task = json.loads(header)
    assert (task["request"], task["type"], task["service"]) == ("TASK", "REQUEST", "raw.service")
    assert (task["colour"], task["priority"], task["attempt"]) == ("blue", 7, 1)
    assert 0 < task["timeout_ms"] <= 5000
    assert len(task["message_id"]) == 36
    assert body == b"B"
    ids = {"message_id": task["message_id"], "service": "raw.service"}
    worker.tell("TASK", "RESPONSE", envelope=ticket, body=b"A", **ids, mood="fine")
    envelope, header, body = client.recv()
    assert (envelope, body) == (b"E", b"A")
    assert json.loads(header) == {"request": "TASK", "type": "RESPONSE", "outcome": "OK", "mood": "fine", **ids}

    # The same answer once more is late, and changes nothing.
    worker.tell("TASK", "RESPONSE", envelope=ticket, body=b"A", **ids)
    worker.tell("DISCONNECT", envelope=b"bye")
    envelope, header, _ = worker.recv()
    assert (envelope, json.loads(header)["request"]) == (b"bye", "DISCONNECT")
    assert client.silent(0.2)


def test_a_burst_of_outcomes_larger_than_the_pipe_reaches_the_client_whole(
    brokers: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    """A broker that stops ends all tasks in one instant; what the client's pipe does not take then, it gets later."""
    config = tmp_path / "broker.toml"
    config.write_text("drain_ms = 500\n[services.never]\nbacklog_tasks_max = 50000\n")
    broker = brokers("--config", str(config))
    with Client(broker.frontend, timeout=25.0) as client:
        futures = [client.submit("never", retry=None) for _ in range(40_000)]
        # Answered behind all the others, on the same connection: so the broker has them all.
        with pytest.raises(Rejected, match="no_service"):
            client.request("nobody")
        assert broker.stop() == 0
        codes = Counter(getattr(future.exception(40), "code", "OK") for future in futures)
    assert codes == {"disabled": 40_000}
