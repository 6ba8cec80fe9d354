"""The answers of a `map`: which of them can be given out next. Knows no sockets; one side puts, the other takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from famulus.core.session.client import Done


class Place:
    """One body's place in a map: what its task ends with comes here."""

    __slots__ = ("number", "window")

    def __init__(self, window: Window, number: int) -> None:
        self.window = window
        self.number = number

    def __call__(self, done: Done) -> None:
        self.window.put(self.number, done)


class Window:
    def __init__(self, ordered: bool, wake: Callable[[], None]) -> None:
        self._ordered = ordered
        self._wake = wake
        self._came: deque[tuple[int, Done]] = deque()
        self._early: dict[int, Done] = {}
        self._next = 0

    def put(self, number: int, done: Done) -> None:
        self._came.append((number, done))
        self._wake()

    def take(self) -> list[Done]:
        """All that can be given out now: in the order of the bodies, or in the order in which they came."""
        came = self._came
        if not self._ordered:
            return [came.popleft()[1] for _ in range(len(came))]
        early = self._early
        for _ in range(len(came)):
            number, done = came.popleft()
            early[number] = done
        ready = []
        while (next_done := early.pop(self._next, None)) is not None:
            ready.append(next_done)
            self._next += 1
        return ready
