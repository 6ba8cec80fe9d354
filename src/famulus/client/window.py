"""The answers of a `map`: which of them can be given out next. Knows no sockets; one side puts, the other takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from famulus.core.session.client import Done
from famulus.errors import OutcomeError


class Window:
    """The token of all tasks of one map; their places are the numbers of their bodies."""

    def __init__(self, ordered: bool, wake: Callable[[], None]) -> None:
        self._ordered = ordered
        self._wake = wake
        self._came: deque[Done] = deque()
        self._early: dict[int, Done] = {}
        self._next = 0
        #: Set in a child that was forked: what is open is the parent's.
        self._error: OutcomeError | None = None

    def __call__(self, done: Done) -> None:
        self._came.append(done)
        self._wake()

    def orphan(self, error: OutcomeError) -> None:
        """Whoever waits here, or goes on, gets this error."""
        self._error = error
        self._wake()

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def take(self) -> list[Done]:
        """All that can be given out now: in the order of the bodies, or in the order in which they came."""
        came, early = self._came, self._early
        ready: list[Done] = []
        for _ in range(len(came)):
            done = came.popleft()
            if not self._ordered:
                ready.append(done)
            elif done.place == self._next:
                ready.append(done)
                self._next += 1
            else:
                early[done.place] = done
            while early and self._next in early:
                ready.append(early.pop(self._next))
                self._next += 1
        return ready
