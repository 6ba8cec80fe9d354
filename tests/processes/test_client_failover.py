"""Two brokers, each with a worker of the same service; one of them is killed or drained, and the client goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest
from tests.processes import warm
from tests.processes.conftest import BrokerProcess, WorkerProcess, wait_until

from famulus import Client
from famulus.errors import OutcomeError

#: From the death of a broker to the next success, on a busy machine. The time-out of a task is far longer.
BACK_WITHIN_S = 8.0

Pair = tuple[list[BrokerProcess], list[WorkerProcess]]


@pytest.fixture
def pair(brokers: Callable[..., BrokerProcess], ledger_workers: Callable[..., WorkerProcess]) -> Pair:
    both = [brokers("--routers", "1", "--heartbeat-ms", "500") for _ in range(2)]
    return both, [ledger_workers(broker.backend, "once", slots=8) for broker in both]


def outcome(future: Future[bytes]) -> str:
    error = future.exception(30)
    if error is None:
        return "OK"
    assert isinstance(error, OutcomeError)
    return f"{error.outcome} {error.code}"


def runs(workers: list[WorkerProcess]) -> Counter[str]:
    """How often each task ran, over all workers."""
    return Counter(entry.message_id for worker in workers for entry in worker.ledger)


def addresses(pair: Pair) -> list[str]:
    return [broker.frontend for broker in pair[0]]


def test_kill_of_the_broker_under_load(pair: Pair) -> None:
    both, workers = pair
    plain: dict[str, Future[bytes]] = {}
    again: dict[str, Future[bytes]] = {}
    with Client(addresses(pair), timeout=20) as client:

        def ask(number: int) -> None:
            """A little of everything: what runs for a while, what waits, what is about to be sent."""
            body = b"sleep 0.3" if number % 3 == 0 else b"x"
            for kind, asked in (("plain", plain), ("again", again)):
                name = f"{kind}-{number}"
                asked[name] = client.submit("once", body, message_id=name, at_least_once=kind == "again")

        assert client.request("once", b"x") == b"x"
        assert client.address == both[0].frontend
        for number in range(100):
            ask(number)
        wait_until(lambda: sum(future.done() for future in plain.values()) >= 5, 20, "some have ended")
        both[0].signal(signal.SIGKILL)
        killed_at = time.monotonic()
        wait_until(lambda: both[0].wait() and _asks(client), 20, "a success")
        assert time.monotonic() - killed_at < BACK_WITHIN_S
        for number in range(100, 200):
            ask(number)
        ends = {name: outcome(future) for name, future in plain.items()}
        assert Counter(map(outcome, again.values())) == {"OK": 200}
        assert client.address == both[1].frontend
    assert set(ends.values()) == {"OK", "UNKNOWN broker_lost"}, "some were at the dead broker"
    assert {ends[f"plain-{number}"] for number in range(100, 200)} == {"OK"}
    ran = runs(workers)
    assert max(ran[name] for name in plain) == 1
    assert all(ran[name] == 1 for name, end in ends.items() if end == "OK")
    assert {ran[name] for name in again} <= {1, 2}


def test_a_broker_that_drains_loses_nothing(pair: Pair, tmp_path: Path) -> None:
    both, workers = pair
    go = tmp_path / "go"
    with Client(addresses(pair), timeout=100) as client:
        assert client.request("once", b"x") == b"x"
        running = [
            client.submit("once", b"until %b" % bytes(go), message_id=f"running-{number}") for number in range(7)
        ]
        wait_until(lambda: len(workers[0].ledger) == 8, 10, "seven are running")
        both[0].signal(signal.SIGTERM)
        # What it takes before it hears of this still runs there: one of its worker's slots is free.
        wait_until(lambda: _asks(client) and client.address == both[1].frontend, 20, "the client has left it")
        later = [client.submit("once", b"x", message_id=f"later-{number}") for number in range(200)]
        assert {outcome(future) for future in later} == {"OK"}
        assert not any(future.done() for future in running), "they went on at the other one meanwhile"
        go.touch()
        assert {outcome(future) for future in running} == {"OK"}
        assert client.address == both[1].frontend
        assert both[0].wait() == 0
    assert max(runs(workers).values()) == 1
    assert len(workers[1].ledger) >= 200


def test_back_and_forth(pair: Pair, brokers: Callable[..., BrokerProcess]) -> None:
    """Whichever broker the client is with dies and comes back, again and again."""
    both, workers = pair
    with Client(addresses(pair), timeout=20) as client:
        assert client.request("once", b"x") == b"x"
        for turn in range(4):
            dying = turn % 2
            assert client.address == both[dying].frontend
            both[dying].signal(signal.SIGKILL)
            both[dying].wait()
            assert client.request("once", b"again", at_least_once=True) == b"again"
            ports = [each.rpartition(":")[2] for each in (both[dying].frontend, both[dying].backend)]
            both[dying] = brokers("--frontend-port", ports[0], "--backend-port", ports[1], "--routers", "1")
            workers[dying].wait_until_ready_again(2 + turn // 2)


def _asks(client: Client) -> bool:
    try:
        return client.request("once", b"x", timeout=2, priority=9) == b"x"
    except OutcomeError:
        return False


def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "famulus", "call", *arguments]
    return warm.run(command, capture_output=True, env={**os.environ, **environment}, timeout=60, check=False, input=b"")


def test_call_takes_several_brokers(served: BrokerProcess) -> None:
    dead = ("127.0.0.1:1", "127.0.0.1:2")
    said = call("once", "hello", "--broker", dead[0], "--broker", served.frontend, "--at-least-once")
    assert (said.returncode, said.stdout, said.stderr) == (0, b"hello", b"")
    said = call("once", "x", "--count", "20", "--at-least-once", FAMULUS_FRONTEND=f"{dead[0]},{served.frontend}")
    assert (said.returncode, said.stdout, said.stderr) == (0, b"x" * 20, b"")
    said = call("once", "x", "--timeout", "3", "--broker", dead[0], "--broker", dead[1])
    assert (said.returncode, said.stdout) == (3, b"")
    first, hint = said.stderr.decode().splitlines()
    assert first.startswith("REJECTED: expired: no broker took it within the time-out; tried tcp://127.0.0.1:1, ")
    assert hint == "is a broker running at tcp://127.0.0.1:1 or tcp://127.0.0.1:2?"
