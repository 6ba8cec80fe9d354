"""Real processes on real sockets: brokers that a test starts, looks into, kills, and that end with it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def wait_until(holds: Callable[[], object], within_s: float = 10.0, what: str = "it") -> None:
    """Wait for a condition, and fail in its own words when it does not come true."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come true within {within_s} s"
        time.sleep(0.005)


class Process:
    """A child whose lines can be waited for."""

    def __init__(self, *command: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> None:
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
            cwd=cwd,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_for_line(self, pattern: str, within_s: float = 20.0) -> re.Match[str]:
        deadline = time.monotonic() + within_s
        while True:
            ended = self._process.poll() is not None
            for line in list(self.lines):
                if match := re.search(pattern, line):
                    return match
            assert not ended, f"it ended ({self._process.returncode}) without {pattern!r}:\n{self.output}"
            assert time.monotonic() < deadline, f"no {pattern!r} within {within_s} s:\n{self.output}"
            time.sleep(0.005)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self, within_s: float = 20.0) -> int:
        code = self._process.wait(within_s)
        self._reader.join(within_s)
        return code

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        self._process.wait()
        self._reader.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()


class BrokerProcess(Process):
    """A `famulus broker` on free ports of loopback."""

    def __init__(self, *flags: str) -> None:
        ports = [] if "--frontend-port" in flags else ["--frontend-port", "0", "--backend-port", "0"]
        super().__init__(sys.executable, "-m", "famulus", "broker", *ports, *flags)
        try:
            ready = self.wait_for_line(r"is ready: clients (\S+), workers (\S+) ")
        except BaseException:
            self.close()
            raise
        self.frontend, self.backend = ready[1], ready[2]

    def children(self, module: str) -> list[int]:
        """The pids of its dispatcher or its routers that live now."""
        tasks = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(pid) for pid in tasks if f"famulus.broker.{module}".encode() in _command(pid)]

    @property
    def dispatcher(self) -> int:
        (pid,) = self.children("dispatcher")
        return pid

    @property
    def routers(self) -> list[int]:
        return self.children("router")

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    def close(self) -> None:
        for pid in (*self.children("dispatcher"), *self.routers) if self._process.poll() is None else ():
            os.kill(pid, signal.SIGCONT)  # a stopped one could not see that we end
        super().close()


def _command(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def memory_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


@pytest.fixture
def processes() -> Iterator[Callable[..., Process]]:
    """Start processes that end with the test."""
    started: list[Process] = []

    def start(*command: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> Process:
        started.append(Process(*command, env=env, cwd=cwd))
        return started[-1]

    yield start
    for process in reversed(started):
        process.close()


@pytest.fixture
def brokers() -> Iterator[Callable[..., BrokerProcess]]:
    """Start brokers with flags; they end with the test."""
    started: list[BrokerProcess] = []

    def start(*flags: str) -> BrokerProcess:
        started.append(BrokerProcess(*flags))
        return started[-1]

    yield start
    for broker in reversed(started):
        broker.close()


@pytest.fixture
def broker(brokers: Callable[..., BrokerProcess]) -> BrokerProcess:
    """One broker with two routers and short heartbeats."""
    return brokers("--routers", "2", "--heartbeat-ms", "500")
