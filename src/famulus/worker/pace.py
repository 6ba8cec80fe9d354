"""Decides whether a service is quick: then handing its calls to another thread would cost more than the calls do."""

from __future__ import annotations

from typing import Final

from famulus.core.clock import NS_PER_MS

#: A call that lasts less is quick.
QUICK_NS: Final = NS_PER_MS // 10
#: So many quick calls in a row make a service quick.
ENOUGH: Final = 32
#: More are not remembered: a service that turns slow must not live on its good name for long.
MOST: Final = 64


class Pace:
    """One point for each quick call; a slow one costs as many as quick calls would have fitted into it."""

    __slots__ = ("points",)

    def __init__(self) -> None:
        self.points = 0

    def note(self, lasted_ns: int) -> None:
        if lasted_ns < QUICK_NS:
            if self.points < MOST:
                self.points += 1
        else:
            self.points = max(0, self.points - lasted_ns // QUICK_NS)

    @property
    def quick(self) -> bool:
        return self.points >= ENOUGH
