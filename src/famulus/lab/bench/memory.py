"""Resident memory of processes, looked at several times a second."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from famulus.lab.processes import children, rss_kib


def children_kib(pid: int | None = None) -> int:
    """Of all descendants of this process: for Spark, the JVM and the Python processes that it starts."""
    above = os.getpid() if pid is None else pid
    total = 0
    for child in children(above):
        if not _is_same_program(child, above):
            with suppress(OSError):
                total += rss_kib(child)
            total += children_kib(child)
    return total


def _is_same_program(child: int, pid: int) -> bool:
    """A JVM that is about to start a program exists twice for a moment, with the same memory."""
    try:
        commands = [Path(f"/proc/{each}/cmdline").read_bytes() for each in (child, pid)]
    except OSError:
        return True  # it ended
    return commands[0] == commands[1] and b"java" in commands[0].split(b"\0")[0]


class MemoryWatch:
    """Samples in a thread of its own, once at the beginning and then at intervals, until the process is gone."""

    def __init__(self, look: Callable[[], int] = children_kib, every_s: float = 0.2) -> None:
        """`look` returns KiB, and raises OSError once there is nothing left to look at."""
        self._look = look
        self._every_s = every_s
        self._from = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)
        self.seen_kib: list[int] = []
        self.is_lost = False

    def take_peak_kib(self) -> int:
        """The peak since the last call."""
        start, self._from = self._from, len(self.seen_kib)
        self.seen_kib.append(self._look())
        return max(self.seen_kib[start:])

    def _watch(self) -> None:
        try:
            self.seen_kib.append(self._look())
            while not self._ended.wait(self._every_s):
                self.seen_kib.append(self._look())
        except OSError:
            self.is_lost = True

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
