"""Invented time. Everything that happens is an event, and a seed fixes their order."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from famulus.core.clock import NS_PER_MS

Event = Callable[[], object]


class Clock:
    """Events in order of time; those of one instant in the order in which they were made."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * NS_PER_MS
        self.steps = 0
        #: Is told of each step before it is taken.
        self.watch: Callable[[int, int, Event], None] | None = None
        self._events: list[tuple[int, int, Event]] = []
        self._made = 0

    def at(self, time_ns: int, event: Event) -> None:
        self._made += 1
        now_ns = self.now_ns
        heappush(self._events, (time_ns if time_ns > now_ns else now_ns, self._made, event))

    def after(self, delay_ns: int, event: Event) -> None:
        self._made += 1
        heappush(self._events, (self.now_ns + delay_ns, self._made, event))

    def step(self) -> None:
        self.now_ns, _, event = heappop(self._events)
        self.steps += 1
        if self.watch is not None:
            self.watch(self.steps, self.now_ns, event)
        event()

    @property
    def next_ns(self) -> int:
        return self._events[0][0]
