"""Invented time and invented connections. Everything that happens is an event, and a seed fixes their order.

A link keeps the order of its messages in each direction; links among each other do not. A link that is cut drops what
is under way, and each end learns of it some time later: until then it sends into the void, as with TCP.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Protocol

from famulus.core.clock import NS_PER_MS

Frames = list[bytes]


class Clock:
    """Events in order of time; those of one instant in order of their making."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * NS_PER_MS
        self.steps = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._made = 0

    def at(self, time_ns: int, event: Callable[[], None]) -> None:
        self._made += 1
        heappush(self._events, (max(time_ns, self.now_ns), self._made, event))

    def after(self, delay_ns: int, event: Callable[[], None]) -> None:
        self.at(self.now_ns + delay_ns, event)

    def step(self) -> None:
        self.now_ns, _, event = heappop(self._events)
        self.steps += 1
        event()

    @property
    def next_ns(self) -> int:
        return self._events[0][0]


class End(Protocol):
    """Who sits at one end of a link."""

    @property
    def name(self) -> str: ...

    def receive(self, link: Link, message: Frames) -> None: ...

    def cut_off(self, link: Link) -> None: ...


class Link:
    """One connection between the broker and somebody, who is called `peer` there."""

    def __init__(self, clock: Clock, random: Random, peer: bytes, door: str, broker: End, other: End) -> None:
        self.peer = peer
        self.door = door
        self._clock = clock
        self._random = random
        self._ends: dict[bool, End] = {True: broker, False: other}
        self._not_before_ns = {True: 0, False: 0}
        #: Which ends still believe in it.
        self.believes = {True: True, False: True}
        self.open = True

    @property
    def broker_name(self) -> str:
        """For people."""
        return self._ends[True].name

    def to_broker(self, message: Frames) -> bool:
        return self._send(message, towards_broker=True)

    def to_peer(self, message: Frames) -> bool:
        return self._send(message, towards_broker=False)

    def _send(self, message: Frames, *, towards_broker: bool) -> bool:
        """False if the sending end knows that the link is gone."""
        if not self.believes[not towards_broker]:
            return False
        due_ns = max(self._clock.now_ns + self._delay_ns(), self._not_before_ns[towards_broker])
        self._not_before_ns[towards_broker] = due_ns

        def arrive() -> None:
            if self.open:
                self._ends[towards_broker].receive(self, message)

        self._clock.at(due_ns, arrive)
        return True

    def cut(self, notice_ns: int = 0) -> None:
        """Nothing arrives any more. Each end learns of it soon, or at some time within `notice_ns`."""
        if not self.open:
            return
        self.open = False
        for towards_broker in (True, False):
            delay_ns = self._delay_ns() + (self._random.randrange(notice_ns) if notice_ns else 0)
            self._clock.after(delay_ns, lambda end=towards_broker: self._notice(end))  # type: ignore[misc]

    def stall(self, until_ns: int) -> None:
        """What is sent from now on arrives after that instant, in order: TCP tries again and again."""
        for towards_broker in (True, False):
            self._not_before_ns[towards_broker] = max(self._not_before_ns[towards_broker], until_ns)

    def _notice(self, broker_end: bool) -> None:
        if self.believes[broker_end]:
            self.believes[broker_end] = False
            self._ends[broker_end].cut_off(self)

    def _delay_ns(self) -> int:
        # Mostly quick, now and then slow: the slow ones are what reorders connections against each other.
        if self._random.random() < 0.05:
            return self._random.randrange(50 * NS_PER_MS)
        return self._random.randrange(NS_PER_MS // 10, 2 * NS_PER_MS)
