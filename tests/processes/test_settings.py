"""A broker that cannot start says why in one line that names the key (exit code 2); and what it is told holds."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.processes import warm
from tests.processes.conftest import Book, BrokerProcess, WorkerProcess, wait_until

from famulus import Client
from famulus.errors import OutcomeError, Rejected, Unknown

ANY_PORTS = ("--frontend-port", "0", "--backend-port", "0")


def broker_says(*flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "famulus", "broker", *flags]
    return warm.run(command, capture_output=True, text=True, timeout=20, check=False)


def complaint(*flags: str) -> str:
    """The one line of a broker that does not start."""
    said = broker_says(*flags)
    assert said.returncode == 2, said
    assert said.stdout == ""
    assert said.stderr.count("\n") == 1, said.stderr
    assert said.stderr.startswith("famulus: ")
    return said.stderr


@pytest.fixture
def taken_port() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield str(server.getsockname()[1])


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("routers = = 2", ["broker.toml", "not TOML", "line 1"]),
        ("heartbeat = 500", ["heartbeat:", "no such setting", "did you mean heartbeat_ms?"]),
        ("[services.echo]\ntimeout = 5", ["services.echo.timeout:", "did you mean timeout_ms?"]),
        ("[bounds]\nopen_task_max = 5", ["open_task_max:", "did you mean open_tasks_max?"]),
        ("zzz = 1", ["zzz:", "no such setting"]),
        ('heartbeat_ms = "fast"', ["heartbeat_ms:", "int"]),
        ("heartbeat_ms = 1", ["heartbeat_ms:", "10"]),
        ("frontend_port = 70000", ["frontend_port:", "65535"]),
        ("frontend_port = 7300\nbackend_port = 7300", ["backend_port:", "7300"]),
        ('[services.echo]\ndelivery = "twice"', ["services.echo.delivery:", "twice"]),
        ("[services.echo]\nmax_attempts = 0", ["services.echo.max_attempts:"]),
        ("services = 3", ["services:"]),
        ('identity = ""', ["identity:"]),
    ],
)
def test_a_bad_file(tmp_path: Path, toml: str, words: list[str]) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(toml)
    said = complaint("--config", str(path))
    for word in words:
        assert word in said


def test_a_missing_file(tmp_path: Path) -> None:
    assert "missing.toml: no such file" in complaint("--config", str(tmp_path / "missing.toml"))


def test_a_folder_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    assert "cannot be read" in complaint("--config", str(tmp_path))
    path = tmp_path / "broker.toml"
    path.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in complaint("--config", str(path))


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (("--routers", "0"), "routers"),
        (("--routers", "many"), "routers"),
        (("--heartbeat-ms", "0"), "heartbeat_ms"),
        (("--frontend-port", "-1"), "frontend_port"),
        (("--drain-ms", "-5"), "drain_ms"),
        (("--log-level", "loud"), "log-level"),
        (("--no-such-flag",), "--no-such-flag"),
        (("--host", "no.such.host.invalid", *ANY_PORTS), "host"),
        (("--host", "203.0.113.7", *ANY_PORTS), "host"),
    ],
)
def test_a_bad_flag(flags: tuple[str, ...], word: str) -> None:
    said = complaint(*flags)
    assert word in said.replace("-", "_") or word in said


@pytest.mark.parametrize("side", ["frontend", "backend"])
def test_a_port_in_use(taken_port: str, side: str) -> None:
    other = "backend" if side == "frontend" else "frontend"
    said = complaint(f"--{side}-port", taken_port, f"--{other}-port", "0")
    assert f"{side}_port: port {taken_port} of 127.0.0.1 is in use" in said


def test_check_shows_the_settings_and_starts_nothing(tmp_path: Path, taken_port: str) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(
        f'identity = "b1"\nfrontend_port = {taken_port}\nheartbeat_ms = 700\n[services.echo]\ntimeout_ms = 5\n'
    )
    said = broker_says("--config", str(path), "--heartbeat-ms", "900", "--check")
    assert said.returncode == 0
    shown = json.loads(said.stdout)
    assert shown["identity"] == "b1"
    assert shown["heartbeat_ms"] == 900, "flags win over the file"
    assert shown["services"]["echo"]["timeout_ms"] == 5
    assert shown["services"]["echo"]["delivery"] == "at_most_once"


def test_a_broker_without_keys_is_not_reached_from_elsewhere(brokers: Callable[..., BrokerProcess]) -> None:
    """Unless somebody says that it is to be, and then it says so itself."""
    refused = broker_says("--host", "0.0.0.0", "--routers", "1")
    assert refused.returncode == 2
    (sentence,) = refused.stderr.splitlines()
    assert "is reached from other machines, and there are no keys" in sentence
    assert "famulus init FOLDER --host 0.0.0.0; or give --plain-on-purpose" in sentence
    broker = brokers("--host", "0.0.0.0", "--routers", "1", "--plain-on-purpose")
    broker.wait_for_line("plain on purpose: whoever reaches 0.0.0.0 may come without a key")


SERVICES = """
[default_service]
timeout_ms = 1200

[services.slow]
timeout_ms = 1000

[services.few]
backlog_tasks_max = 2

[services.light]
backlog_bytes_max = 1000

[services.young]
backlog_age_ms = 200

[services.empty]
backlog_age_ms = 100

[services.again]
delivery = "at_least_once"
max_attempts = 3
"""


@pytest.fixture
def served(
    brokers: Callable[..., BrokerProcess], ledger_workers: Callable[..., WorkerProcess], tmp_path: Path
) -> tuple[BrokerProcess, WorkerProcess]:
    """A broker with some of everything, and a worker with one slot for it."""
    path = tmp_path / "broker.toml"
    path.write_text(SERVICES)
    broker = brokers("--config", str(path), "--routers", "1", "--heartbeat-ms", "500")
    return broker, ledger_workers(broker.backend, "slow", "few", "light", "young", "other", slots=1)


def test_services_are_as_the_file_says(served: tuple[BrokerProcess, WorkerProcess], tmp_path: Path) -> None:
    broker, worker = served
    go = {name: tmp_path / name for name in ("slow", "other", "few")}
    with Client(broker.frontend, retry=None) as client:
        # The service's time-out is the largest one, and where none is declared the default's.
        for service in ("slow", "other"):
            began = time.monotonic()
            with pytest.raises(Unknown) as caught:
                client.request(service, f"until {go[service]}", timeout=60)
            assert caught.value.code == "expired"
            assert 1.0 <= time.monotonic() - began < 20
            go[service].touch()
            client.request("few", b"x", timeout=20)  # the slot is free again

        # Declared and without a worker: it waits for one, here not for long. Not declared: it is not there.
        assert _refusal(client, "empty") == "no_worker"
        assert _refusal(client, "undeclared") == "no_service"

        # Bounds of a backlog in tasks, in bytes, in time.
        book = Book(client)
        held = book.ask("few", f"until {go['few']}".encode())
        wait_until(lambda: worker.ledger[-1].message_id == held, 10, "the slot is taken")
        few = [book.ask("few", b"x") for _ in range(10)]
        light = [book.ask("light", b"x" * 400) for _ in range(10)]
        young = [book.ask("young", b"x") for _ in range(10)]
        wait_until(lambda: len(book.ended) == 8 + 8 + 10, what="the end of those that there is no room for")
        go["few"].touch()
        book.wait_for_all()
        assert Counter(book.ended[each].outcome for each in few) == {"OK": 2, "REJECTED": 8}
        assert Counter(book.ended[each].outcome for each in light) == {"OK": 2, "REJECTED": 8}
        assert book.outcomes(*young) == {("REJECTED", "overload")}
        assert {end.code for end in book.ended.values() if end.outcome == "REJECTED"} == {"overload"}


def _refusal(client: Client, service: str) -> str:
    with pytest.raises(Rejected) as caught:
        client.request(service, b"x", timeout=20)
    error: OutcomeError = caught.value
    return error.code
