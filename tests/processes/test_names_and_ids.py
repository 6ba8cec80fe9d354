"""What belongs to one worker or client: its name, its results, its share of the routers. Others cannot take it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.processes.conftest import BrokerProcess, Process, Raw

from famulus import Client

COSTLY = b'{"request":"TASK","type":"REQUEST","service":"nobody","x":[' + b",".join([b"[]"] * 5200) + b"]}"


WORKER = """
from famulus import Worker

worker = Worker(slots=4)


@worker.service("echo")
def echo(body: bytes) -> bytes:
    return body
"""


def start_worker(processes: Callable[..., Process], broker: BrokerProcess, folder: Path) -> Process:
    (folder / "bobs.py").write_text(WORKER)
    command = ("worker", "bobs", "--broker", broker.backend, "--identity", "bob")
    return processes(sys.executable, "-m", "famulus", *command, cwd=folder)


def test_a_thief_of_a_name_is_refused_and_the_worker_works_on(
    broker: BrokerProcess, processes: Callable[..., Process], raw: Callable[..., Raw], tmp_path: Path
) -> None:
    worker = start_worker(processes, broker, tmp_path)
    worker.wait_for_line("is ready")
    with Client(broker.frontend) as client:
        for _ in range(5):
            thief = raw(broker.backend)
            thief.tell("CONNECT", identity="bob", services=["echo"])
            assert thief.hear()["reason"].startswith("conflict: ")
            assert client.request("echo", b"x", timeout=10) == b"x"
    assert worker.running
    assert "lost" not in worker.output
    second = start_worker(processes, broker, tmp_path)
    assert second.wait() == 1
    assert "bob" in second.output
    assert "another identity" in second.output
    assert "Traceback" not in second.output
    assert worker.running


def test_a_worker_that_was_killed_has_its_name_again_at_once(
    broker: BrokerProcess, processes: Callable[..., Process], tmp_path: Path
) -> None:
    first = start_worker(processes, broker, tmp_path)
    first.wait_for_line("is ready")
    os.kill(first.pid, signal.SIGKILL)
    second = start_worker(processes, broker, tmp_path)
    second.wait_for_line("is ready")
    with Client(broker.frontend) as client:
        assert client.request("echo", b"x", timeout=10) == b"x"


def test_another_clients_id_brings_no_answer_of_its(served: BrokerProcess) -> None:
    with Client(served.frontend) as ann, Client(served.frontend) as eve:
        assert ann.request("echo", b"hers", message_id="same") == b"hers"
        assert eve.request("echo", b"his", message_id="same") == b"his"
        assert ann.request("echo", b"again", message_id="same") == b"hers"


def test_a_client_that_comes_back_with_its_token_has_its_answers(served: BrokerProcess) -> None:
    with Client(served.frontend, token="t" * 16) as tom:
        assert tom.request("echo", b"first", message_id="same") == b"first"
    with Client(served.frontend, token="t" * 16) as tom:
        assert tom.request("echo", b"second", message_id="same") == b"first"


def test_a_burst_of_costly_headers_delays_neither_heartbeats_nor_others(
    served: BrokerProcess, raw: Callable[..., Raw]
) -> None:
    worker, greedy = raw(served.backend), raw(served.frontend)
    worker.become_worker("idle", "idle", heartbeat_ms=10_000)
    burst = 1000
    waited = []
    with Client(served.frontend) as client:
        client.request("echo", b"x", message_id="before")
        # The best of three: whatever else the machine has to do may be in the way of some.
        for attempt in range(3):
            for number in range(burst):
                greedy.send(b"%d" % number, COSTLY, b"")
            began = time.monotonic()
            worker.tell("PING")
            assert worker.hear()["request"] == "PONG"
            assert client.request("echo", b"x", message_id=f"{attempt}") == b"x"
            waited.append(time.monotonic() - began)
            for _ in range(burst):
                assert b"values" in greedy.recv()[1]
    # Before, each of them took a router milliseconds, and everybody waited for all.
    assert min(waited) < 1.5


def test_a_worker_that_is_cut_off_comes_back_before_the_broker_has_noticed(
    broker: BrokerProcess, raw: Callable[..., Raw]
) -> None:
    before, after = raw(broker.backend), raw(broker.backend)
    who: dict[str, Any] = {"identity": "bob", "services": ["echo"], "heartbeat_ms": 60_000, "worker_token": "w" * 16}
    before.tell("CONNECT", **who)
    assert before.hear()["request"] == "CONFIG"
    after.tell("CONNECT", **who)
    assert after.hear()["request"] == "CONFIG"
