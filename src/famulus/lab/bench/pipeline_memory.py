"""The most memory that Spark's processes had together, looked at several times a second."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

EVERY_S: Final = 0.2


class MemoryWatch:
    """Of all processes below this one: the JVM, and the Pythons that it starts."""

    def __init__(self) -> None:
        self._peak_kib = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def take_peak_kib(self) -> int:
        """The most since it was last asked."""
        now = children_kib()
        with self._lock:
            peak, self._peak_kib = max(self._peak_kib, now), now
        return peak

    def _watch(self) -> None:
        while not self._ended.wait(EVERY_S):
            now = children_kib()
            with self._lock:
                self._peak_kib = max(self._peak_kib, now)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()


def children_kib(pid: int | str = "self") -> int:
    total = 0
    for child in _children_of(pid):
        if not _is_same_program(child, pid):
            total += _resident_kib(child) + children_kib(child)
    return total


def _children_of(pid: int | str) -> list[str]:
    """Of all its threads; a process or a thread may end while it is looked at."""
    children: list[str] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                children += Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
    return children


def _is_same_program(child: str, pid: int | str) -> bool:
    """A JVM that is about to start a program is there twice for a moment, with one and the same memory."""
    try:
        commands = [Path(f"/proc/{each}/cmdline").read_bytes() for each in (child, pid)]
    except OSError:
        return True  # it ended
    return commands[0] == commands[1] and b"java" in commands[0].split(b"\0")[0]


def _resident_kib(pid: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)
