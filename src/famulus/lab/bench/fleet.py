"""The processes of a measurement: started, waited for, weighed by their CPU time, stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from famulus.errors import BenchFailed

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
START_S = 20.0


class Member:
    """One process, which prints a line once it is ready."""

    def __init__(self, name: str, command: list[str], ready: str | None, *, stderr: bool = False) -> None:
        """`ready` is what its line says then; with `stderr` it may say so there."""
        self.name = name
        elsewhere = subprocess.STDOUT if stderr else subprocess.DEVNULL
        # In a session of its own, so that Ctrl-C reaches only us, and we stop it in order.
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=elsewhere, text=True, start_new_session=True
        )
        self.pid = self._process.pid
        try:
            self.ready = self._wait_for(ready) if ready is not None else None
        except BaseException:
            self.stop()  # nobody else knows of it yet
            raise

    def _wait_for(self, pattern: str) -> re.Match[str]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if match := re.search(pattern, line):
                return match
        raise BenchFailed(f"the {self.name} ended with {self._process.wait()} before it was ready")

    def output(self, within_s: float) -> str:
        """What it printed until it ended by itself."""
        try:
            text, _ = self._process.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            raise BenchFailed(f"the {self.name} did not end within {within_s:.0f} s") from None
        if self._process.returncode:
            raise BenchFailed(f"the {self.name} ended with {self._process.returncode}: {text[-500:]}")
        return text

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def stop(self) -> None:
        if self._process.poll() is None:
            self.signal(signal.SIGTERM)
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


@contextmanager
def crew() -> Iterator[list[Member]]:
    """Whoever is put into this list is stopped at the end, the last one first."""
    members: list[Member] = []
    try:
        yield members
    finally:
        for member in reversed(members):
            member.stop()


def broker(members: list[Member], *flags: str) -> tuple[str, str]:
    """Start a broker, without a journal and an HTTP port unless told otherwise; its frontend and backend addresses."""
    if not any(flag in ("--journal", "--no-journal", "--journal-folder") for flag in flags):
        flags = (*flags, "--no-journal")
    if "--http" not in flags:
        flags = (*flags, "--no-http")
    command = python("famulus", "broker", "--frontend-port", "0", "--backend-port", "0", "--drain-ms", "500", *flags)
    member = Member("broker", command, r"clients (\S+), workers (\S+) ")
    members.append(member)
    assert member.ready is not None
    return member.ready[1], member.ready[2]


def cpu_s(pid: int) -> float:
    """User and system time of a process with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def rss_kib(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def parts_of(member: Member) -> dict[str, int]:
    """A member and its children by name: a broker is several processes."""
    parts = {member.name: member.pid}
    try:
        children = Path(f"/proc/{member.pid}/task/{member.pid}/children").read_text().split()
    except OSError:
        return parts
    for pid in children:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        module = next((word for word in command if word.startswith((b"famulus.broker.", b"famulus.web."))), b"")
        name = module.rpartition(b".")[2].decode() or f"{member.name}-child"
        while name in parts:
            name += "'"
        parts[name] = int(pid)
    return parts


class Scales:
    """CPU time of everybody between two moments."""

    def __init__(self, members: list[Member]) -> None:
        self._pids: dict[str, int] = {}
        for member in members:
            self._pids |= parts_of(member)
        self._before = {name: cpu_s(pid) for name, pid in self._pids.items()}
        self._since = time.monotonic()

    def weigh(self) -> dict[str, float]:
        return {name: cpu_s(pid) - self._before[name] for name, pid in self._pids.items()}
