"""One invented connection: a network of two.

It keeps the order of its messages in each direction; links among each other do not. A link that is cut drops what is
under way, and each end learns of it some time later: until then it sends into the void, as with TCP.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Protocol

from famulus.core.clock import NS_PER_MS
from famulus.lab.sim.clock import Clock

Frames = list[bytes]

#: No message is under way for longer, unless the network is partitioned.
DELAY_NS_MAX = 50 * NS_PER_MS


def delay_ns(random: Random) -> int:
    """Mostly quick, now and then slow: the slow ones are what reorders connections against each other."""
    if random.random() < 0.05:
        return int(random.random() * DELAY_NS_MAX)
    return NS_PER_MS // 10 + int(random.random() * 2 * NS_PER_MS)


class End(Protocol):
    """Who sits at one end of a link."""

    @property
    def name(self) -> str: ...

    def receive(self, link: Link, message: Frames) -> None: ...

    def cut_off(self, link: Link) -> None: ...


class Link:
    """One connection between a broker and somebody, who is called `peer` there."""

    def __init__(self, clock: Clock, random: Random, peer: bytes, door: str, broker: End, other: End) -> None:
        self.peer = peer
        self.door = door
        self._clock = clock
        self._random = random
        # Each of these first for the other end, then for the broker's: False and True are their places.
        self._ends = (other, broker)
        self._not_before_ns = [0, 0]
        #: Which ends still believe in it.
        self.believes = [True, True]
        self.open = True

    def to_broker(self, message: Frames) -> bool:
        return self._send(True, message)

    def to_peer(self, message: Frames) -> bool:
        return self._send(False, message)

    def _send(self, towards_broker: bool, message: Frames) -> bool:
        """False if the sending end knows that the link is gone."""
        if not self.believes[not towards_broker]:
            return False
        due_ns = max(self._clock.now_ns + delay_ns(self._random), self._not_before_ns[towards_broker])
        self._not_before_ns[towards_broker] = due_ns
        self._clock.at(due_ns, partial(self.arrive, towards_broker, message))
        return True

    def arrive(self, towards_broker: bool, message: Frames) -> None:
        if self.open:
            self._ends[towards_broker].receive(self, message)

    def describe(self, towards_broker: bool) -> str:
        """For people."""
        return f"{self.peer.decode()} {'->' if towards_broker else '<-'} {self._ends[True].name}"

    def cut(self, notice_ns: int = 0) -> None:
        """Nothing arrives any more. Each end learns of it soon, or at some time within `notice_ns`."""
        if not self.open:
            return
        self.open = False
        for broker_end in (True, False):
            noticed_ns = delay_ns(self._random) + (self._random.randrange(notice_ns) if notice_ns else 0)
            self._clock.after(noticed_ns, partial(self._notice, broker_end))

    def stall(self, until_ns: int) -> None:
        """What is sent from now on arrives after that instant, in order: TCP tries again and again."""
        self._not_before_ns = [max(before_ns, until_ns) for before_ns in self._not_before_ns]

    def _notice(self, broker_end: bool) -> None:
        if self.believes[broker_end]:
            self.believes[broker_end] = False
            self._ends[broker_end].cut_off(self)
