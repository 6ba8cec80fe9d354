"""Decides which requests of admins are logged: everything that admins did, and a few of the requests of strangers.

Anybody who can reach the port can ask without a password, as often as they like: that must not make the log grow.
"""

from __future__ import annotations

from typing import Final

from famulus.core.clock import NEVER_NS, NS_PER_S

INTERVAL_NS: Final = 10 * NS_PER_S
#: Per interval; the others are counted.
STRANGERS_MAX: Final = 3


class Notes:
    def __init__(self) -> None:
        self._told = 0
        self._untold = 0
        self._ends_ns = 0

    def take(self, note: str, now_ns: int, *, stranger: bool) -> list[str]:
        """What to write now."""
        if not stranger:
            return [note]
        lines = self.due(now_ns)
        if now_ns >= self._ends_ns:
            self._ends_ns = now_ns + INTERVAL_NS
            self._told = 0
        if self._told < STRANGERS_MAX:
            self._told += 1
            return [*lines, note]
        self._untold += 1
        return lines

    def due(self, now_ns: int) -> list[str]:
        """How many were not logged in the interval that has ended."""
        if not self._untold or now_ns < self._ends_ns:
            return []
        untold, self._untold = self._untold, 0
        seconds = INTERVAL_NS // NS_PER_S
        return [f"{untold} more requests without a right name and password were refused within {seconds} s"]

    @property
    def next_due_ns(self) -> int:
        return self._ends_ns if self._untold else NEVER_NS
