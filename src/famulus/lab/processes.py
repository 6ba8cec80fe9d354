"""Processes of this machine as the laboratory sees them: who belongs to whom, what they use, how they are signalled."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def found_network(folder: Path, password: str, *arguments: str) -> str | None:
    """Make a network with its first broker (`famulus init`); what went wrong, or None."""
    done = subprocess.run(
        python("famulus", "init", str(folder), *arguments),
        env={**os.environ, "FAMULUS_ADMIN_PASSWORD": password},
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stderr.strip()[-500:] or f"exit code {done.returncode}") if done.returncode else None


def children(pid: int) -> list[int]:
    """Of all its threads; a process or a thread may end while it is looked at."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    return [pid, *(each for child in children(pid) for each in family(child))]


def broker_parts(pid: int) -> dict[int, str]:
    """The children of a broker by process id: `dispatcher`, `router`, `steward`, `scribe`, `herald`; "" for others."""
    found = {}
    for child in children(pid):
        with suppress(OSError):
            module = re.search(rb"famulus\.(?:broker|web)\.(\w+)", Path(f"/proc/{child}/cmdline").read_bytes())
            found[child] = module[1].decode() if module else ""
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def cpu_s(pid: int) -> float:
    """User and system time of a process with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def rss_kib(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def send_signal(pids: Iterable[int], number: int) -> None:
    """To all of them that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def free_ports(count: int) -> list[int]:
    """For servers that cannot choose one themselves. All different, since all are taken at once for a moment."""
    with ExitStack() as probes:
        sockets = [probes.enter_context(socket.socket()) for _ in range(count)]
        for probe in sockets:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in sockets]


def free_port() -> int:
    return free_ports(1)[0]
