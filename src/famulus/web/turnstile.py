"""Admits only a few at once and, if wanted, only a few in a row before the rest have to keep a distance. No clock."""

from __future__ import annotations


class Turnstile:
    def __init__(self, at_once: int, *, in_a_row: int = 0, distance_ns: int = 0) -> None:
        self._free = at_once
        self._distance_ns = distance_ns
        self._ahead_ns = max(0, in_a_row - 1) * distance_ns
        #: When the next one would come if all kept their distance.
        self._next_ns = 0

    def enter(self, now_ns: int) -> bool:
        """Whoever is admitted has to `leave`."""
        if not self._free or self._next_ns > now_ns + self._ahead_ns:
            return False
        self._free -= 1
        self._next_ns = max(self._next_ns, now_ns) + self._distance_ns
        return True

    def leave(self) -> None:
        self._free += 1
