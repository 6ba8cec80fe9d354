"""Resident memory of processes, looked at several times a second."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from famulus.lab.processes import children, rss_kib


def children_kib(pid: int | None = None) -> int:
    """Of all processes below this one: of Spark's, the JVM, and the Pythons that it starts."""
    above = os.getpid() if pid is None else pid
    total = 0
    for child in children(above):
        if not _is_same_program(child, above):
            with suppress(OSError):
                total += rss_kib(child)
            total += children_kib(child)
    return total


def _is_same_program(child: int, pid: int) -> bool:
    """A JVM that is about to start a program is there twice for a moment, with one and the same memory."""
    try:
        commands = [Path(f"/proc/{each}/cmdline").read_bytes() for each in (child, pid)]
    except OSError:
        return True  # it ended
    return commands[0] == commands[1] and b"java" in commands[0].split(b"\0")[0]


class MemoryWatch:
    """Looks in a thread of its own, once at the beginning and then again and again, until the process is gone."""

    def __init__(self, look: Callable[[], int] = children_kib, every_s: float = 0.2) -> None:
        """`look` gives KiB, and raises OSError once there is nothing to be seen."""
        self._look = look
        self._every_s = every_s
        self._from = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)
        self.seen_kib: list[int] = []
        self.is_lost = False

    def take_peak_kib(self) -> int:
        """The most since it was last asked."""
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
