"""The HTTP port of a real broker: it shows what happens, and what becomes of it is no task's affair."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.processes import warm
from tests.processes.conftest import BrokerProcess, Process, WorkerProcess, alive, wait_until
from tests.processes.ports import free_ports
from tests.unit.tables.conftest import finding, write

from famulus import Client, Rejected

HERE = Path(__file__).parent


def address_of(broker: BrokerProcess) -> str:
    return broker.wait_for_line(r"dashboard: (https?://\S+)/$")[1]


def ask(address: str, path: str, trust: ssl.SSLContext | None = None) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(address + path, timeout=10, context=trust) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())
    except (OSError, ValueError):
        return 0, {}


def herald_of(broker: BrokerProcess) -> int:
    """0 while there is none."""
    return next(iter(broker.children("herald", "web")), 0)


@pytest.fixture
def watched(brokers: Callable[..., BrokerProcess], echo_workers: Callable[..., WorkerProcess]) -> BrokerProcess:
    """A broker with an HTTP port and a worker."""
    broker = brokers("--http-port", "0", "--routers", "1", "--heartbeat-ms", "500")
    echo_workers(broker.backend, "echo", slots=8)
    return broker


def test_the_status_moves_when_tasks_flow(watched: BrokerProcess) -> None:
    address = address_of(watched)
    wait_until(lambda: ask(address, "/readyz") == (200, {"ready": True, "reasons": []}), 20, "ready")
    with Client(watched.frontend) as client:
        for _ in range(50):
            client.request("echo", b"x", timeout=10)

    def counted() -> bool:
        _, told = ask(address, "/api/v1/services/echo")
        return bool(told.get("service", {}).get("ok") == 50 and told["service"]["p50_ms"])

    def processes() -> set[str]:
        # The supervisor tells of itself when it is its turn, which may be later than the dispatcher.
        return {each["name"] for each in ask(address, "/api/v1/status")[1].get("processes", ())}

    wait_until(counted, 20, "the count of all tasks")
    wait_until(lambda: processes() == {"dispatcher", "router-1", "herald"}, 20, "the supervisor's own word")
    _, status = ask(address, "/api/v1/status")
    assert status["tasks"]["ok"] == 50
    assert [(worker["slots"], worker["state"]) for worker in status["workers"]] == [(8, "ready")]
    with urllib.request.urlopen(address + "/metrics", timeout=10) as answer:
        assert 'famulus_tasks_total{outcome="ok",service="echo"} 50.0' in answer.read().decode()


def test_tasks_are_followed_as_they_get_on_and_end(
    watched: BrokerProcess, processes: Callable[..., Process], tmp_path: Path
) -> None:
    go = tmp_path / "go"
    processes(sys.executable, str(HERE / "getting_on.py"), watched.backend, str(go)).wait_for_line("is ready: ")
    address = address_of(watched)
    wait_until(lambda: ask(address, "/readyz")[0] == 200, 20, "ready")
    following = processes(sys.executable, "-m", "famulus", "tasks", "--follow", "--json", "--address", address)
    with Client(watched.frontend) as client:
        # Shown once it asks: what ended before that is none of its business.
        first = client.submit("get_on", b"", timeout=30, message_id="first")
        following.wait_for_line(r'"message_id": "first".*"done": 0.4, "note": "page 2".*"outcome": null')
        (told,) = ask(address, "/api/v1/tasks")[1]["running"]
        assert (told["message_id"], told["service"], told["done"]) == ("first", "get_on", 0.4)
        go.touch()
        assert first.result() == b"done"
        following.wait_for_line(r'"message_id": "first".*"outcome": "OK"')
    wait_until(lambda: ask(address, "/api/v1/tasks")[1]["running"] == [], 10, "that nothing runs any more")
    watched.stop()
    following.wait_for_line("nobody answers")


def test_the_stream_of_events_goes_on(watched: BrokerProcess) -> None:
    with urllib.request.urlopen(address_of(watched) + "/api/v1/events", timeout=10) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        numbers: list[int] = []
        while len(numbers) < 3:
            line = stream.readline()
            if line.startswith(b"id: "):
                numbers.append(int(line[4:]))
    assert numbers == sorted(set(numbers))


def test_tasks_go_on_without_a_herald_and_it_comes_back_at_its_port(watched: BrokerProcess) -> None:
    address = address_of(watched)
    wait_until(lambda: ask(address, "/healthz")[0] == 200, 20, "the port")
    first = herald_of(watched)
    os.kill(first, signal.SIGKILL)
    with Client(watched.frontend) as client:
        while alive(first):
            assert client.request("echo", b"x", timeout=10) == b"x"
        assert client.request("echo", b"x", timeout=10) == b"x"
    wait_until(lambda: ask(address, "/readyz")[0] == 200, 30, "the same port again")
    assert herald_of(watched) not in (0, first)

    def restarts() -> list[int]:
        # The supervisor tells of itself when it is its turn, which may be later than the dispatcher.
        _, status = ask(address, "/api/v1/status")
        return [each["restarts"] for each in status.get("processes", ()) if each["name"] == "herald"]

    wait_until(lambda: restarts() == [1], 10, "that it was started once more")


def test_a_herald_that_hangs_costs_no_task(watched: BrokerProcess) -> None:
    address = address_of(watched)
    wait_until(lambda: ask(address, "/healthz")[0] == 200, 20, "the port")
    first = herald_of(watched)
    os.kill(first, signal.SIGSTOP)
    with Client(watched.frontend) as client:
        for _ in range(100):
            assert client.request("echo", b"x", timeout=10) == b"x"
    wait_until(lambda: herald_of(watched) not in (0, first), 30, "a new herald")


def test_a_dispatcher_that_hangs_is_told_and_its_return_too(watched: BrokerProcess) -> None:
    address = address_of(watched)
    wait_until(lambda: ask(address, "/readyz")[0] == 200, 20, "ready")
    # Its supervisor, too: it would soon start another one.
    with watched.asleep():
        wait_until(lambda: ask(address, "/readyz")[0] == 503, 20, "not ready")
        wait_until(lambda: ask(address, "/healthz")[0] == 200, 20, "the port")
    wait_until(lambda: ask(address, "/readyz")[0] == 200, 30, "ready again")


def test_a_port_in_use_is_a_warning_and_the_broker_runs(brokers: Callable[..., BrokerProcess]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        broker = brokers("--http-port", str(taken.getsockname()[1]))
        said = broker.wait_for_line(r"there is no HTTP port: (.*)")[1]
    assert re.fullmatch(r"http_port: port \d+ of 127.0.0.1 is in use; tasks go on without", said)
    assert broker.running
    assert broker.stop() == 0


def test_a_broker_of_a_network_shows_its_config_but_no_admin(
    brokers: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    folder = str(tmp_path / "b1")
    command = [sys.executable, "-m", "famulus", "init", folder, "--identity", "b1", "--admin", "adalovelace"]
    ports = free_ports(4)
    for flag, port in zip(
        ("--frontend-port", "--backend-port", "--config-pub-port", "--peer-port"), ports, strict=True
    ):
        command += [flag, str(port)]
    env = {**os.environ, "FAMULUS_ADMIN_PASSWORD": "only for this test"}
    warm.run(command, env=env, check=True, capture_output=True, timeout=60)
    address = address_of(brokers("--folder", folder, "--http-port", "0", "--routers", "1"))
    wait_until(lambda: ask(address, "/api/v1/config")[1].get("network"), 20, "the config")
    wait_until(lambda: ask(address, "/readyz")[0] == 200, 20, "ready")
    _, told = ask(address, "/api/v1/config")
    assert list(told["config"]["brokers"]) == ["b1"]
    assert "broker/b1" in [edit["key"] for edit in told["history"]]
    _, status = ask(address, "/api/v1/status")
    assert status["config"]["version"] == told["config"]["version"] > 0
    with urllib.request.urlopen(address + "/metrics", timeout=10) as answer:
        everything = json.dumps([told, status]) + answer.read().decode()
    for secret in ("adalovelace", "admin/", '"hash"'):
        assert secret not in everything


def test_findings_and_the_journal_are_told(brokers: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    address = address_of(brokers("--http-port", "0", "--routers", "1", "--journal-folder", str(journal)))
    wait_until(lambda: ask(address, "/api/v1/status")[1].get("journal", {}).get("open_rows"), 20, "the first rows")
    told = ask(address, "/api/v1/status")[1]["journal"]
    assert (told["on"], told["state"], told["lost"]) == (True, "ready", 0)
    code, told = ask(address, "/api/v1/findings")
    assert (code, told["there"], told["command"]) == (200, False, f"famulus pipeline run --journal {journal}")
    write(tmp_path / "tables", finding(1))
    wait_until(lambda: ask(address, "/api/v1/findings")[1].get("total") == 1, 20, "the finding")


def test_the_herald_ends_with_its_broker(watched: BrokerProcess) -> None:
    address_of(watched)
    herald = herald_of(watched)
    watched.signal(signal.SIGKILL)
    watched.wait()
    wait_until(lambda: not alive(herald), 20, "its end")


def test_the_last_tasks_are_there_a_second_later_also_without_a_journal(watched: BrokerProcess) -> None:
    address = address_of(watched)
    wait_until(lambda: ask(address, "/readyz")[0] == 200, 20, "ready")
    with Client(watched.frontend) as client:
        client.request("echo", b"x", message_id="order-1", timeout=10)
        with pytest.raises(Rejected):
            client.request("nobody", b"x", message_id="order-2", timeout=10)

    def ended() -> list[str]:
        return [task["message_id"] for task in ask(address, "/api/v1/tasks")[1].get("tasks", ())]

    wait_until(lambda: ended() == ["order-2", "order-1"], 20, "both tasks")
    _, told = ask(address, "/api/v1/tasks/order-2")
    assert (told["source"], told["story"]["reason"], told["story"]["try_again"]) == (
        "memory",
        "no_service",
        "Yes, it is safe.",
    )
    assert ask(address, "/api/v1/tasks/order-3")[0] == 404
    (kind,) = ask(address, "/api/v1/failures")[1]["failures"]
    assert (kind["service"], kind["outcome"], kind["times"]) == ("nobody", "REJECTED", 1)
