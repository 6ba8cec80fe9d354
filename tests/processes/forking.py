"""Programs that fork while they have a client or a worker, one for each name.

python forking.py NAME FRONTEND BACKEND

Each says "well" at the end, or what went wrong. A child that hangs is killed, and that is what went wrong.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial

import pytest

from famulus import AsyncClient, Client, Worker
from famulus.errors import Closed, FamulusError, Rejected, Unknown

CHILD_S = 15.0
TIMEOUT_S = 5.0


def in_child(work: Callable[[], None]) -> None:
    """Fork, let the child do it, and wait for its end."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert _ended(pid) == 0, "the child failed, or hung"


def _ended(pid: int) -> int:
    deadline = time.monotonic() + CHILD_S
    while True:
        gone, status = os.waitpid(pid, os.WNOHANG)
        if gone:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def asks(client: Client, body: bytes = b"hello") -> None:
    assert client.request("echo", body, timeout=TIMEOUT_S) == body


def fails_with(error: type[BaseException], work: Callable[[], object], words: str = "") -> None:
    with pytest.raises(error, match=words):
        work()


# -- clients --------------------------------------------------------------------------------------------------------


def a_client_is_used_on_both_sides(frontend: str, backend: str) -> None:
    with Client(frontend) as client:
        asks(client)
        in_child(lambda: asks(client, b"from the child"))
        asks(client)
        in_child(lambda: in_child(lambda: asks(client, b"from the child's child")))
        asks(client)


def a_child_has_no_copy_of_the_connection(frontend: str, backend: str) -> None:
    """Or else the broker would not see that the parent goes."""

    def descriptors() -> set[str]:
        folder = "/proc/self/fd"
        links = {name: os.readlink(f"{folder}/{name}") for name in os.listdir(folder) if _exists(f"{folder}/{name}")}
        return {name for name, what in links.items() if "socket:" in what or "event" in what}

    before = descriptors()
    client = Client(frontend)
    asks(client)
    assert descriptors() > before

    def look() -> None:
        assert descriptors() == before, "something is left of the parent's"
        asks(client)
        assert descriptors() > before
        client.close()
        assert descriptors() == before

    in_child(look)
    asks(client)
    client.close()


def _exists(path: str) -> bool:
    return os.path.lexists(path)


def what_is_open_is_the_parents(frontend: str, backend: str) -> None:
    with Client(frontend) as client:
        asks(client)
        done = client.submit("echo", b"done")
        assert done.result(TIMEOUT_S) == b"done"
        called: list[int] = []
        futures = [client.submit("once", b"sleep 1", timeout=TIMEOUT_S) for _ in range(3)]
        futures[0].add_done_callback(lambda _: called.append(os.getpid()))
        answers = client.map("once", [b"x", b"sleep 1"], window=2, timeout=TIMEOUT_S)
        assert next(answers) == b"x"

        def look() -> None:
            assert done.result(TIMEOUT_S) == b"done"
            for future in futures:
                fails_with(Unknown, partial(future.result, TIMEOUT_S), "forked")
            fails_with(Unknown, lambda: future_of(answers.__next__).result(TIMEOUT_S), "forked")
            assert not called, "what is to be done at its end is done by the parent"
            asks(client)

        in_child(look)
        assert next(answers) == b"sleep 1"
        for future in futures:
            assert future.result(TIMEOUT_S) == b"sleep 1"
        assert called == [os.getpid()]


def a_stream_is_the_parents(frontend: str, backend: str) -> None:
    worker = Worker(backend, slots=2)

    @worker.service("forked-stream")
    def count(body: bytes) -> Iterator[str]:
        yield from map(str, range(1000))

    with worker.started(), Client(frontend) as client:
        parts = client.stream("forked-stream", credit=4, timeout=2 * TIMEOUT_S)
        assert next(parts) == b"0"

        def look() -> None:
            fails_with(Unknown, lambda: future_of(parts.__next__).result(TIMEOUT_S), "forked")
            parts.close()
            asks(client)

        in_child(look)
        assert len(list(parts)) == 999


def future_of(work: Callable[[], object]) -> Future[object]:
    """In another thread, so that nothing that hangs hangs for ever."""
    future: Future[object] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def closing_in_a_child_closes_nothing_in_the_parent(frontend: str, backend: str) -> None:
    client = Client(frontend)
    asks(client)

    def close() -> None:
        client.close()
        client.close()
        fails_with(Closed, lambda: asks(client))

    in_child(close)
    asks(client)
    client.close()
    in_child(lambda: fails_with(Closed, lambda: asks(client)))


def a_child_ends_as_it_likes(frontend: str, backend: str) -> None:
    """With all that Python does at its end, also with a client that it used and did not close."""
    client = Client(frontend)
    asks(client)
    open_one = client.submit("once", b"sleep 1", timeout=TIMEOUT_S)
    for uses in (True, False):
        pid = os.fork()
        if pid == 0:
            if uses:
                asks(client)
            sys.exit(0)
        assert _ended(pid) == 0
    assert open_one.result(TIMEOUT_S) == b"sleep 1"
    asks(client)
    client.close()


def multiprocessing_forks(frontend: str, backend: str) -> None:
    client = Client(frontend)
    asks(client)
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        asked = pool.map_async(_ask, [(frontend, number) for number in range(20)])
        assert asked.get(CHILD_S) == [b"%d" % number for number in range(20)]
    _clients.append(client)
    with context.Pool(2) as pool:
        asked = pool.map_async(_ask_again, range(20))
        assert asked.get(CHILD_S) == [b"%d" % number for number in range(20)]
    asks(client)
    client.close()


_clients: list[Client] = []


def _ask(given: tuple[str, int]) -> bytes:
    with Client(given[0]) as client:
        return client.request("echo", b"%d" % given[1], timeout=TIMEOUT_S)


def _ask_again(number: int) -> bytes:
    return _clients[0].request("echo", b"%d" % number, timeout=TIMEOUT_S)


def forks_under_load_harm_nobody(frontend: str, backend: str) -> None:
    """Every lock and every queue is in use when the forks come, in whichever state."""
    with Client(frontend) as client:
        asks(client)
        over = threading.Event()
        asked = [0] * 3

        def load(number: int) -> None:
            while not over.is_set():
                bodies = [b"%d-%d" % (number, each) for each in range(200)]
                futures = [client.submit("echo", body, timeout=TIMEOUT_S) for body in bodies]
                assert [future.result(TIMEOUT_S) for future in futures] == bodies
                assert list(client.map("echo", bodies, timeout=TIMEOUT_S)) == bodies
                asked[number] += 400

        loads = [future_of(partial(load, number)) for number in range(3)]
        for turn in range(15):
            futures = [client.submit("echo", b"x", timeout=TIMEOUT_S) for _ in range(50)]

            def look(futures: list[Future[bytes]] = futures) -> None:
                # Ended before the fork, or the parent's; in no case waited for.
                for future in futures:
                    if future.exception(0) is not None:
                        fails_with(Unknown, future.result, "forked")
                asks(client)

            in_child(look if turn % 3 else lambda: None)
            assert {future.result(TIMEOUT_S) for future in futures} == {b"x"}
        over.set()
        for each in loads:
            each.result(CHILD_S)
        assert min(asked) > 0


def a_callback_forks(frontend: str, backend: str) -> None:
    """In the thread that does the I/O; what is left of it in the child ends."""
    with Client(frontend) as client:
        asks(client)
        pids: list[int] = []

        def fork(_: object) -> None:
            pid = os.fork()
            if pid:
                pids.append(pid)

        future = client.submit("echo", b"x")
        others = [client.submit("once", b"sleep 0.5", timeout=TIMEOUT_S) for _ in range(2)]
        future.add_done_callback(fork)
        assert future.result(TIMEOUT_S) == b"x"
        for other in others:
            assert other.result(TIMEOUT_S) == b"sleep 0.5"
        asks(client)
        if pids:  # else it was done before the callback was there, and this thread has forked
            _ended(pids[0])


# -- asyncio --------------------------------------------------------------------------------------------------------


def an_async_client_goes_on_in_another_loop(frontend: str, backend: str) -> None:
    async def ask(client: AsyncClient) -> None:
        assert await client.request("echo", b"hello", timeout=TIMEOUT_S) == b"hello"

    async def parent() -> None:
        async with AsyncClient(frontend) as client:
            await ask(client)
            open_one = client.submit("once", b"sleep 1", timeout=TIMEOUT_S)
            loop = asyncio.get_running_loop()

            def look() -> None:
                fails_with(Unknown, open_one.result, "forked")
                fails_with(FamulusError, lambda: ask(client).send(None), "forked")
                asyncio._set_running_loop(None)
                # In a thread, since this one is in the middle of the parent's loop.
                future_of(lambda: asyncio.run(ask(client))).result(CHILD_S)

            in_child(look)
            assert asyncio.get_running_loop() is loop
            await ask(client)
            assert await open_one == b"sleep 1"

    asyncio.run(parent())


def an_async_client_refuses_its_parents_loop(frontend: str, backend: str) -> None:
    async def ask(client: AsyncClient) -> None:
        assert await client.request("echo", b"hello", timeout=TIMEOUT_S) == b"hello"

    loop = asyncio.new_event_loop()
    client = AsyncClient(frontend)
    loop.run_until_complete(ask(client))
    in_child(lambda: fails_with(FamulusError, lambda: loop.run_until_complete(ask(client)), "new one"))
    in_child(lambda: asyncio.run(ask(client)))
    loop.run_until_complete(ask(client))
    loop.run_until_complete(client.close())
    loop.close()


def children_of_a_server_that_loaded_all_before(frontend: str, backend: str) -> None:
    """As gunicorn --preload does: the master made the client and used it, and a child that dies is replaced."""
    client = Client(frontend)
    asks(client)

    def serve() -> None:
        for number in range(3):
            asks(client, b"%d" % number)

    for _ in range(2):
        for _ in range(3):
            in_child(serve)
        pid = os.fork()
        if pid == 0:
            asks(client)
            os.kill(os.getpid(), signal.SIGKILL)
        assert _ended(pid) == -signal.SIGKILL
        asks(client, b"the master")
    client.close()


def a_child_without_a_broker_waits_no_longer_than_it_may(frontend: str, backend: str) -> None:
    """Also one that uses the client in several threads at once."""
    nowhere = Client("tcp://127.0.0.1:1")

    def ask() -> None:
        for _ in range(2):
            began = time.monotonic()
            futures = [future_of(lambda: nowhere.request("echo", timeout=0.5)) for _ in range(4)]
            for future in futures:
                fails_with(Rejected, lambda future=future: future.result(CHILD_S), "expired")  # type: ignore[misc]
            assert time.monotonic() - began < TIMEOUT_S

    in_child(ask)
    ask()
    in_child(ask)
    nowhere.close()


# -- workers --------------------------------------------------------------------------------------------------------


def functions_in_processes_have_a_client(frontend: str, backend: str) -> None:
    """One of the whole module, made before the worker forks."""
    client = Client(frontend)
    asks(client)
    worker = Worker(backend, processes=1, drain_s=5)

    @worker.service("asks-on")
    def ask_on(body: bytes) -> bytes:
        return client.request("echo", body, timeout=TIMEOUT_S)

    def ask() -> None:
        try:
            for number in range(5):
                body = b"%d" % number
                assert client.request("asks-on", body, timeout=CHILD_S) == body
        finally:
            worker.stop()

    with _started_late(ask) as asked:
        worker.run()
        asked.result(CHILD_S)
    client.close()


class _started_late:
    """Runs it in a thread that begins when the worker is there: the fork is to come first."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._future: Future[bytes] = Future()

    def __enter__(self) -> Future[bytes]:
        def run() -> None:
            try:
                time.sleep(0.3)
                self._work()
                self._future.set_result(b"")
            except BaseException as error:
                self._future.set_exception(error)

        self._timer = threading.Thread(target=run, daemon=True)
        self._timer.start()
        return self._future

    def __exit__(self, *_: object) -> None:
        self._timer.join(CHILD_S)


def a_workers_function_forks(frontend: str, backend: str) -> None:
    """The child has nothing of the worker's, can be ended as any other, and may run the worker as another one."""
    worker = Worker(backend, slots=2, drain_s=5)
    identity = worker.identity
    context = multiprocessing.get_context("fork")

    def elsewhere() -> None:
        assert worker.identity != identity
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        timer = threading.Timer(0.3, worker.stop)
        timer.start()
        assert worker.run()

    @worker.service("forks")
    def fork(body: bytes) -> bytes:
        child = context.Process(target=elsewhere)
        child.start()
        child.join(CHILD_S)
        code = child.exitcode
        child.kill()
        return b"%d" % (1 if code is None else code)

    def ask() -> None:
        try:
            with Client(frontend) as client:
                for _ in range(2):
                    assert client.request("forks", timeout=2 * CHILD_S) == b"0"
        finally:
            worker.stop()

    with _started_late(ask) as asked:
        worker.run()
        asked.result(CHILD_S)


PROGRAMS = {
    work.__name__: work
    for work in (
        a_client_is_used_on_both_sides,
        a_child_has_no_copy_of_the_connection,
        what_is_open_is_the_parents,
        a_stream_is_the_parents,
        closing_in_a_child_closes_nothing_in_the_parent,
        a_child_ends_as_it_likes,
        multiprocessing_forks,
        forks_under_load_harm_nobody,
        a_callback_forks,
        an_async_client_goes_on_in_another_loop,
        an_async_client_refuses_its_parents_loop,
        children_of_a_server_that_loaded_all_before,
        a_child_without_a_broker_waits_no_longer_than_it_may,
        functions_in_processes_have_a_client,
        a_workers_function_forks,
    )
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
    print("well")
