"""Routers die or hang: nobody outside notices, and the log says who it was."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from tests.processes.conftest import Book, BrokerProcess, WorkerProcess, wait_until

from famulus import Client

TASKS = 20_000


def test_kill_of_routers_under_load(broker: BrokerProcess, echo_workers: Callable[..., WorkerProcess]) -> None:
    echo_workers(broker.backend)
    first = set(broker.routers)
    assert len(first) == 2
    killed: list[int] = []
    with Client(broker.frontend) as client:
        bodies = (str(number).encode() for number in range(TASKS))
        for number, answer in enumerate(client.map("echo", bodies, window=500)):
            assert answer == str(number).encode()  # raises if any task fails
            if number in (TASKS // 5, TASKS // 2):
                (victim, *_) = first - set(killed)
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)
        assert number == TASKS - 1
    assert set(killed) == first
    broker.wait_for_line(r"the router-1 died \(signal SIGKILL\); starting it again")
    broker.wait_for_line(r"the router-2 died \(signal SIGKILL\); starting it again")
    wait_until(lambda: len(broker.routers) == 2, 10, "two routers again")
    assert not first & set(broker.routers)


def test_kill_of_the_only_router(
    brokers: Callable[..., BrokerProcess], echo_workers: Callable[..., WorkerProcess]
) -> None:
    broker = brokers("--routers", "1", "--heartbeat-ms", "1000")
    echo_workers(broker.backend)
    with Client(broker.frontend) as client:
        (router,) = broker.routers
        os.kill(router, signal.SIGKILL)
        # What comes while there is no router waits for the next one.
        assert list(client.map("echo", [b"x"] * 1000)) == [b"x"] * 1000
    assert broker.routers != [router]


def test_stop_and_continue_of_a_router(
    brokers: Callable[..., BrokerProcess], echo_workers: Callable[..., WorkerProcess]
) -> None:
    # Missed heartbeats are soon noticed: long before the router is taken for dead, whatever else the machine has to do.
    broker = brokers("--routers", "2", "--heartbeat-ms", "300")
    worker = echo_workers(broker.backend)
    victim = broker.routers[0]
    with Client(broker.frontend) as client:
        stop = threading.Event()
        book = Book(client)

        def load() -> None:
            while not stop.is_set():
                if len(book.open) < 50:
                    book.ask("echo", b"x")
                else:
                    time.sleep(0.001)

        thread = threading.Thread(target=load)
        thread.start()
        try:
            wait_until(lambda: len(book.ended) > 500, 10, "load")
            os.kill(victim, signal.SIGSTOP)
            # What it was asked is asked of the other one after three missed heartbeats.
            owed = set(book.open)
            wait_until(lambda: not owed & set(book.open), 10, "the tasks that the stopped router held")
            before = len(book.ended)
            wait_until(lambda: len(book.ended) > before + 500, 10, "the other router serves")
            os.kill(victim, signal.SIGCONT)
            before = len(book.ended)
            wait_until(lambda: len(book.ended) > before + 500, 10, "both serve")
        finally:
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGCONT)
            stop.set()
            thread.join()
        book.wait_for_all()
        assert book.outcomes() == {("OK", "")}
    assert victim in broker.routers, "it was stopped for less than 5 s, so it still lives"
    assert worker.times_ready() == 1


def test_a_router_that_hangs_is_replaced(broker: BrokerProcess, echo_workers: Callable[..., WorkerProcess]) -> None:
    echo_workers(broker.backend)
    victim = broker.routers[1]
    with Client(broker.frontend) as client:
        os.kill(victim, signal.SIGSTOP)
        broker.wait_for_line("the router-2 says nothing any more; killing it")
        wait_until(lambda: len(broker.routers) == 2 and victim not in broker.routers, 10, "a new router")
        assert list(client.map("echo", [b"x"] * 1000)) == [b"x"] * 1000
