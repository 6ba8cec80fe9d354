"""The processes of a side. None of them outlives it, wherever Ctrl-C comes."""

from __future__ import annotations

import re
import signal
import socket
import threading
import time
from pathlib import Path

from famulus.errors import BenchFailed
from famulus.lab.bench import fleet

Crew = list[fleet.Member]
#: Between two looks at a port.
LOOK_S = 0.02


class Recruit(fleet.Member):
    """A member that belongs to its crew before it is ready, so that it is stopped even if that never happens."""

    def __init__(self, crew: Crew, name: str, command: list[str], *, stderr: bool = False) -> None:
        super().__init__(name, command, None, stderr=stderr)
        crew.append(self)

    def wait_until(self, pattern: str) -> re.Match[str]:
        """Wait for a line that says so. Who does not say it in time is ended; what it said instead is the error."""
        assert self._process.stdout is not None
        last = "it said nothing"
        alarm = threading.Timer(fleet.START_S, self.signal, (signal.SIGKILL,))
        alarm.start()
        try:
            for line in self._process.stdout:
                if match := re.search(pattern, line):
                    return match
                last = line.strip() or last
        finally:
            alarm.cancel()
        raise BenchFailed(f"the {self.name} ended with {self._process.wait()} before it was ready: {last}")

    def wait_for_port(self, port: int) -> None:
        """Wait until somebody can connect, for those who do not say when they are ready."""
        until = time.monotonic() + fleet.START_S
        while not is_open(port):
            if (code := self._process.poll()) is not None:
                raise BenchFailed(f"the {self.name} ended with {code} before it was ready")
            if time.monotonic() > until:
                raise BenchFailed(f"nobody can connect to the {self.name} after {fleet.START_S:.0f} s")
            time.sleep(LOOK_S)


def server(crew: Crew, command: list[str], ready: str, *, stderr: bool = False) -> re.Match[str]:
    return Recruit(crew, "server", command, stderr=stderr).wait_until(ready)


def silent_server(crew: Crew, command: list[str], port: int) -> None:
    Recruit(crew, "server", command, stderr=True).wait_for_port(port)


def worker(crew: Crew, command: list[str]) -> None:
    Recruit(crew, "worker", command, stderr=True).wait_until("is ready")


def pids_of(crew: Crew) -> dict[str, list[int]]:
    """All processes by the name of their member: some servers are several."""
    pids: dict[str, list[int]] = {}
    for member in crew:
        pids.setdefault(member.name, []).extend(family(member.pid))
    return pids


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid, *(each for child in children for each in family(int(child)))]


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """For servers that cannot choose one themselves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
