"""`famulus status` and its kin at a real broker, and `famulus top` on a terminal of its own."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable

from tests.processes import warm
from tests.processes.conftest import BrokerProcess, WorkerProcess, wait_until
from tests.processes.test_herald import address_of, ask

from famulus import Client


def famulus(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "famulus", *arguments]
    return warm.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_commands_show_what_the_port_tells(
    brokers: Callable[..., BrokerProcess], echo_workers: Callable[..., WorkerProcess]
) -> None:
    broker = brokers("--http-port", "0", "--routers", "1", "--identity", "vienna")
    echo_workers(broker.backend, "echo", slots=8)
    address = address_of(broker)
    with Client(broker.frontend) as client:
        client.request("echo", b"x", timeout=10)
    wait_until(lambda: ask(address, "/api/v1/status")[1].get("tasks", {}).get("ok") == 1, 20, "the task")
    shown = famulus("status", "--address", address)
    assert shown.returncode == 0, shown.stderr
    for word in ("vienna", "active", "echo", "ok 1", "slots"):
        assert word in shown.stdout
    told = json.loads(famulus("status", "--address", address, "--json").stdout)
    assert told["identity"] == "vienna"
    (service,) = json.loads(famulus("services", "ech", "--address", address, "--json").stdout)["services"]
    assert (service["name"], service["free"]) == ("echo", 8)
    assert famulus("services", "nobody", "--address", address).stdout == "no services\n"
    assert famulus("workers", "--busy", "--address", address).stdout == "no workers\n"
    assert "vienna (here)" in famulus("brokers", "--address", address.removeprefix("http://")).stdout
    _look_at_top(address)


def _look_at_top(address: str) -> None:
    """It shows the services, and q ends it with the terminal as it was."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm", COLUMNS="100", LINES="30")
        os.execv(sys.executable, [sys.executable, "-m", "famulus", "top", "--address", address])
    shown = b""
    deadline = time.monotonic() + 30
    while b"quit" not in shown or b"echo" not in shown:
        assert time.monotonic() < deadline, shown
        shown += os.read(terminal, 65536)
    os.write(terminal, b"nvq")
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        pass  # the other side is closed
    assert os.waitpid(pid, 0)[1] == 0
    os.close(terminal)


def test_nobody_there_is_one_sentence_and_a_code() -> None:
    said = famulus("status", "--address", "127.0.0.1:1")
    assert said.returncode == 7
    assert said.stderr.startswith("famulus: nobody answers at http://127.0.0.1:1 (")
    assert said.stderr.count("\n") == 1
    assert famulus("status", "--address", "what://is this").returncode == 2
