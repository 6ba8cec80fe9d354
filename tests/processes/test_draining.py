"""A broker is told to stop: running tasks may finish, new ones are refused, and a second word stops it at once."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes.conftest import Book, BrokerProcess, WorkerProcess, wait_until

from famulus import Client
from famulus.errors import Rejected

#: A broker that has just started lets tasks of unknown services wait for three heartbeats.
SETTLES_SOON = ("--heartbeat-ms", "200")
#: Far less than the tasks take, or than a broker waits for them.
SOON_S = 20.0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_running_tasks_finish_and_new_ones_are_rejected(
    brokers: Callable[..., BrokerProcess],
    ledger_workers: Callable[..., WorkerProcess],
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    go = tmp_path / "go"
    broker = brokers("--routers", "1", *SETTLES_SOON)
    worker = ledger_workers(broker.backend, "once", slots=4)
    with Client(broker.frontend, retry=None) as client:
        book = Book(client)
        running = [book.ask("once", f"until {go}".encode()) for _ in range(4)]
        wait_until(lambda: len(worker.ledger) == 4, 10, "four are running")
        waiting = [book.ask("once", b"waits in the backlog") for _ in range(4)]
        _wait_until_they_arrived(client)
        broker.signal(number)
        assert _rejection(client) == "disabled"
        assert set(running) <= set(book.open), "the drain began while they ran"
        go.touch()
        book.wait_for_all()
        assert book.outcomes(*running, *waiting) == {("OK", "")}
        assert broker.wait() == 0
    assert "draining" in broker.output


def test_what_the_bound_cuts_off_is_unknown(
    brokers: Callable[..., BrokerProcess], ledger_workers: Callable[..., WorkerProcess]
) -> None:
    broker = brokers("--routers", "1", "--drain-ms", "700", *SETTLES_SOON)
    worker = ledger_workers(broker.backend, "once", slots=2)
    with Client(broker.frontend, retry=None) as client:
        book = Book(client)
        running = [book.ask("once", b"sleep 30", timeout=60) for _ in range(2)]
        wait_until(lambda: len(worker.ledger) == 2, 10, "two are running")
        waiting = [book.ask("once", b"x") for _ in range(5)]
        _wait_until_they_arrived(client)
        broker.signal(signal.SIGTERM)
        told_at = time.monotonic()
        assert broker.wait() == 0
        assert 0.7 <= time.monotonic() - told_at < SOON_S
        book.wait_for_all()
        assert book.outcomes(*running) == {("UNKNOWN", "broker_lost")}
        assert book.outcomes(*waiting) == {("REJECTED", "disabled")}
    assert len(worker.ledger) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_stops_at_once(
    broker: BrokerProcess, ledger_workers: Callable[..., WorkerProcess], number: signal.Signals
) -> None:
    worker = ledger_workers(broker.backend, "once", slots=1)
    with Client(broker.frontend, retry=None) as client:
        book = Book(client)
        book.ask("once", b"sleep 60", timeout=60)
        wait_until(lambda: worker.ledger, 10, "it runs")
        broker.signal(number)
        broker.wait_for_line("draining")
        assert broker.running
        broker.signal(number)
        broker.wait_for_line("stopping at once")
        broker.wait(5)
        book.wait_for_all()
        assert book.outcomes() == {("UNKNOWN", "broker_lost")}
    assert "Traceback" not in broker.output


def test_an_idle_broker_ends_soon(broker: BrokerProcess) -> None:
    told_at = time.monotonic()
    assert broker.stop() == 0
    assert time.monotonic() - told_at < SOON_S
    assert broker.lines[-1].endswith("stopped; there was nothing to do")


def test_a_worker_waits_out_the_restart_of_a_drained_broker(
    brokers: Callable[..., BrokerProcess], ledger_workers: Callable[..., WorkerProcess]
) -> None:
    broker = brokers()
    worker = ledger_workers(broker.backend, "once")
    assert broker.stop() == 0
    ports = [address.rpartition(":")[2] for address in (broker.frontend, broker.backend)]
    again = brokers("--frontend-port", ports[0], "--backend-port", ports[1])
    worker.wait_until_ready_again()
    with Client(again.frontend) as client:
        assert client.request("once", b"x") == b"x"


def _wait_until_they_arrived(client: Client) -> None:
    """With one router the messages of one connection stay in order: this one is refused after all before it."""
    assert _rejection(client, "none") == "no_service"


def _rejection(client: Client, service: str = "once") -> str:
    """Ask until it is refused, and say why."""
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        future = client.submit(service, b"x", timeout=20)
        try:
            future.result(0.2)
        except TimeoutError:
            continue  # it came before the drain, and waits for a slot
        except Rejected as error:
            return error.code
    raise AssertionError("it was not refused")
