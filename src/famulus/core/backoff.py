"""Decides how long to wait before the next try: doubling, bounded, with jitter. Random numbers are passed in."""

from __future__ import annotations

from collections.abc import Callable


class Backoff:
    def __init__(self, first_ns: int, max_ns: int, chance: Callable[[], float]) -> None:
        self._first_ns = first_ns
        self._max_ns = max_ns
        self._chance = chance
        self.tries = 0

    def next_ns(self) -> int:
        """Between half and all of the doubled wait, so that not all who lost the same broker come back at once."""
        wait_ns = min(self._first_ns << min(self.tries, 30), self._max_ns)
        self.tries += 1
        return wait_ns // 2 + int(self._chance() * (wait_ns // 2))

    def reset(self) -> None:
        self.tries = 0
