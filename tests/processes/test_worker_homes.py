"""Workers that outlive their broker, with real brokers: one is killed, and its workers serve at another one."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes.conftest import BUSY, Book, BrokerProcess, Process, retry, wait_until
from tests.processes.ports import free_port

from famulus import Client

MODULE = """
import os, time
from famulus import Worker

worker = Worker(slots=8, identity="w1", return_after_s=(0.5, 1.0))

@worker.service("echo")
def echo(body):
    return body

@worker.service("hold")
def hold(body):
    print("holds", flush=True)
    while not os.path.exists(body):
        time.sleep(0.005)
    return "held"
"""

#: 3 s on an idle machine.
SOON_S = 3.0 * BUSY

StartWorker = Callable[..., Process]


@pytest.fixture
def start_worker(processes: Callable[..., Process], tmp_path: Path) -> StartWorker:
    """`famulus worker` with these brokers, the preferred one first."""
    (tmp_path / "shop.py").write_text(MODULE)

    def start(*backends: str, options: tuple[str, ...] = ()) -> Process:
        named = [word for backend in backends for word in ("--broker", backend)]
        return processes(sys.executable, "-m", "famulus", "worker", "shop", *named, *options, cwd=tmp_path)

    return start


def test_a_killed_broker_and_its_worker_serves_at_the_other_soon(
    brokers: Callable[..., BrokerProcess], start_worker: StartWorker
) -> None:
    first, second = brokers("--routers", "1"), brokers("--routers", "1")
    worker = start_worker(first.backend, second.backend)
    worker.wait_for_line(f"worker w1 is ready: echo, hold at {first.backend}")
    with Client(first.frontend) as client:
        assert client.request("echo", b"here") == b"here"
    with Client(second.frontend) as client:
        first.perish()
        killed = time.monotonic()
        served = retry(client, "echo")
    assert served - killed < SOON_S
    worker.wait_for_line(f"worker w1 is ready again: echo, hold at {second.backend}")


def test_the_worker_goes_home_when_its_broker_is_back_and_loses_no_task(
    brokers: Callable[..., BrokerProcess], start_worker: StartWorker, tmp_path: Path
) -> None:
    port = free_port()
    second = brokers("--routers", "1")
    worker = start_worker(f"127.0.0.1:{port}", second.backend)
    worker.wait_for_line(f"worker w1 is ready: echo, hold at {second.backend}")
    with Client(second.frontend) as client:
        book = Book(client)
        held = book.ask("hold", str(tmp_path / "go").encode())
        worker.wait_for_line("holds")
        before = [book.ask("echo", b"before") for _ in range(20)]
        wait_until(lambda: book.open == [held])
        first = brokers("--routers", "1", "--frontend-port", "0", "--backend-port", str(port))
        worker.wait_for_line(f"worker w1 goes back to its broker at tcp://127.0.0.1:{port}")
        after = book.ask("echo", b"nobody is left for this", timeout=1.0)
        wait_until(lambda: after in book.ended)
        assert "ready again" not in worker.output, "it holds a task still"
        (tmp_path / "go").touch()
        worker.wait_for_line(f"worker w1 is ready again: echo, hold at tcp://127.0.0.1:{port}")
        book.wait_for_all()
        with Client(first.frontend) as at_home:
            assert at_home.request("echo", b"home") == b"home"
    assert book.outcomes(held, *before) == {("OK", "")}
    assert book.ended[held].body == b"held"
    assert book.ended[after].outcome == "REJECTED", "it did not run"
    assert "lost" not in worker.output


def test_a_saved_config_leads_to_a_broker_when_the_given_one_is_dead(
    brokers: Callable[..., BrokerProcess], start_worker: StartWorker, tmp_path: Path
) -> None:
    broker = brokers("--routers", "1")
    file = tmp_path / "saved.json"
    keeps = ("--config-file", str(file))
    worker = start_worker(broker.backend, options=keeps)
    worker.wait_for_line("is ready")
    wait_until(file.exists)
    assert file.stat().st_mode & 0o777 == 0o600
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    again = start_worker(f"127.0.0.1:{free_port()}", options=keeps)
    again.wait_for_line(f"is ready: echo, hold at {broker.backend}")
    with Client(broker.frontend) as client:
        assert client.request("echo", b"found") == b"found"


def test_all_addresses_are_named_when_nobody_is_there(start_worker: StartWorker) -> None:
    ports = [free_port(), free_port()]
    worker = start_worker(*(f"127.0.0.1:{port}" for port in ports))
    assert worker.wait() == 7
    assert f"no broker answers at tcp://127.0.0.1:{ports[0]} or tcp://127.0.0.1:{ports[1]} (tried" in worker.output
