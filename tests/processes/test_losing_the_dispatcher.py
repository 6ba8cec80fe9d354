"""The dispatcher dies or hangs. It owns the state, so what it held is lost, but soon everything flows again."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.processes.conftest import Book, BrokerProcess, Process, Raw, WorkerProcess, retry, wait_until

from famulus import Client

#: On a busy machine; the time-out of a task is far longer.
BACK_WITHIN_S = 8.0


def test_kill_of_the_dispatcher_under_load(
    brokers: Callable[..., BrokerProcess], ledger_workers: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    settings = tmp_path / "broker.toml"
    settings.write_text("[services.once]\nbacklog_tasks_max = 100\n")
    broker = brokers("--config", str(settings), "--routers", "2", "--heartbeat-ms", "500")
    busy = [ledger_workers(broker.backend, "once", slots=8) for _ in range(2)]
    idle = ledger_workers(broker.backend, "free", slots=8)
    go = tmp_path / "go"
    with Client(broker.frontend) as client, Client(broker.frontend, retry=None) as loader:
        book = Book(loader)
        running = [book.ask("once", f"until {go}".encode()) for _ in range(16)]
        wait_until(lambda: sum(len(worker.ledger) for worker in busy) == 16, 10, "sixteen are running")
        waiting = {book.ask("once", b"x") for _ in range(101)}
        wait_until(lambda: book.ended, 10, "the dispatcher has them all, since it refuses one")
        (one_too_many,) = book.ended
        assert book.outcomes(one_too_many) == {("REJECTED", "overload")}
        waiting.remove(one_too_many)
        old = broker.dispatcher
        os.kill(old, signal.SIGKILL)
        killed_at = time.monotonic()
        back_at = retry(client, "free")
        book.wait_for_all()
        assert book.outcomes(*running, *waiting) == {("UNKNOWN", "broker_lost")}
        for each in (*running, *waiting):
            assert book.ended[each].at - killed_at < BACK_WITHIN_S
        assert back_at - killed_at < BACK_WITHIN_S
        go.touch()
        for worker in (*busy, idle):
            worker.wait_until_ready_again()
        assert set(client.map("once", [b"x"] * 500, window=50)) == {b"x"}
    assert broker.dispatcher != old
    broker.wait_for_line(r"the dispatcher died \(signal SIGKILL\); starting it again")
    ran = Counter(each.message_id for worker in (*busy, idle) for each in worker.ledger)
    assert max(ran.values()) == 1
    assert not ran.keys() & waiting, "what waited in the backlog of the dead one never ran"


def test_a_short_stop_of_the_dispatcher_loses_nobody(
    brokers: Callable[..., BrokerProcess], ledger_workers: Callable[..., WorkerProcess]
) -> None:
    broker = brokers("--routers", "2", "--heartbeat-ms", "1000")
    workers = [ledger_workers(broker.backend, "once", slots=8) for _ in range(2)]
    with Client(broker.frontend) as client:
        book = Book(client)
        for _ in range(16):
            book.ask("once", b"sleep 2.5")
        wait_until(lambda: sum(len(worker.ledger) for worker in workers) == 16, 10, "sixteen are running")
        dispatcher = broker.dispatcher
        with broker.asleep():
            time.sleep(0.8)  # the length of the pause is what is tested
            for _ in range(100):
                book.ask("once", b"x")
        book.wait_for_all()
        assert book.outcomes() == {("OK", "")}
    assert [worker.times_ready() for worker in workers] == [1, 1]
    assert broker.dispatcher == dispatcher
    assert broker.stop() == 0
    assert "ok 116" in broker.output
    assert "workers_lost" not in broker.output


def test_a_silence_that_the_dispatcher_slept_through_is_forgiven(
    brokers: Callable[..., BrokerProcess], raw: Callable[..., Raw]
) -> None:
    broker = brokers("--routers", "1", "--heartbeat-ms", "1000")
    worker, client = raw(broker.backend), raw(broker.frontend)
    worker.become_worker("quiet", "quiet")
    client.tell("TASK", service="quiet", timeout_ms=20_000)
    ticket, _, _ = worker.recv()
    with broker.asleep():
        time.sleep(3.5)  # more than three heartbeats
    client.tell("TASK", service="none")
    assert client.hear()["reason"].startswith("no_service"), "awake; the quiet worker would be lost by now"
    worker.tell("TASK", "RESPONSE", envelope=ticket)
    assert client.hear()["outcome"] == "OK"


def test_a_dispatcher_that_hangs_is_replaced(
    broker: BrokerProcess, ledger_workers: Callable[..., WorkerProcess]
) -> None:
    worker = ledger_workers(broker.backend, "once", slots=8)
    with Client(broker.frontend) as client:
        book = Book(client)
        book.ask("once", b"sleep 60", timeout=60)
        wait_until(lambda: worker.ledger, 10, "it runs")
        dispatcher = broker.dispatcher
        os.kill(dispatcher, signal.SIGSTOP)
        broker.wait_for_line("the dispatcher says nothing any more; killing it", 15)
        book.wait_for_all()
        assert book.outcomes() == {("UNKNOWN", "broker_lost")}
        wait_until(lambda: broker.children("dispatcher") not in ([], [dispatcher]), 10, "a new dispatcher")
        worker.wait_until_ready_again()
        retry(client, "once")


STOPPED_CLIENT = """
import sys
from famulus import Client
with Client(sys.argv[1]) as client:
    for number, answer in enumerate(client.map("echo", (b"x" * 1000 for _ in range(200_000)), window=1000)):
        if number == 2000:
            print("going", flush=True)
        if number == 10_000:
            break
print("done", flush=True)
"""


def test_a_stopped_client_stops_nobody_else(
    broker: BrokerProcess, echo_workers: Callable[..., WorkerProcess], processes: Callable[..., Process]
) -> None:
    echo_workers(broker.backend)
    stopped = processes(sys.executable, "-c", STOPPED_CLIENT, broker.frontend)
    stopped.wait_for_line("going")
    stopped.signal(signal.SIGSTOP)
    with Client(broker.frontend) as client:
        assert list(client.map("echo", [b"y"] * 5000)) == [b"y"] * 5000
    stopped.signal(signal.SIGCONT)
    stopped.wait_for_line("done")
    assert stopped.wait() == 0
