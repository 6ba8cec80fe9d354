"""Who can reach whom, over connections that are made again by themselves, and by letters, which need none.

A connection keeps the order of its messages in each direction; between connections there is no order. One that is cut
drops what is under way, and each end learns of it some time later: until then it sends into the void, as with TCP.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Protocol

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.lab.sim.clock import Clock

Frames = list[bytes]

#: No message is under way for longer, unless the network is partitioned.
DELAY_NS_MAX = 50 * NS_PER_MS
#: Between two attempts to connect.
RETRY_NS = (20 * NS_PER_MS, 120 * NS_PER_MS)
#: The handshake.
CONNECT_NS = (1 * NS_PER_MS, 5 * NS_PER_MS)


def delay_ns(random: Random) -> int:
    """Mostly quick, now and then slow: the slow ones are what reorders connections relative to each other."""
    if random.random() < 0.05:
        return int(random.random() * DELAY_NS_MAX)
    return NS_PER_MS // 10 + int(random.random() * 2 * NS_PER_MS)


class Listener(Protocol):
    """Somebody who can be connected to, while alive."""

    name: str
    alive: bool

    def accept(self, link: Link) -> bool: ...

    def receive(self, link: Link, message: Frames) -> None: ...

    def cut_off(self, link: Link) -> None: ...


class Owner(Protocol):
    """Somebody who has a plug, and looks at it when it wakes up."""

    name: str
    random: Random

    def wake_at(self, time_ns: int) -> None: ...

    def key_for(self, address: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Part:
    """Those on the one side cannot reach those on the other until then."""

    one: Set[str]
    other: Set[str]
    until_ns: int

    def lies_between(self, a: str, b: str) -> bool:
        return (a in self.one and b in self.other) or (b in self.one and a in self.other)


class Network:
    """Every broker, worker and client has a place, and the network between places may be partitioned."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self._parts: list[Part] = []
        self._born = 0
        #: By the addresses that they listen at.
        self.listeners: dict[str, Listener] = {}
        #: All that are connected.
        self.plugs: dict[Plug, None] = {}
        #: The shares of letters that get lost, that come twice, and that wait for the end of a parting.
        self.loss = self.doubles = self.waits = 0.0

    def part(self, one: Set[str], other: Set[str], for_ns: int) -> None:
        """What is sent over a connection between them waits for the end of the parting, or of the connection."""
        part = Part(one, other, self._clock.now_ns + for_ns)
        self._parts.append(part)
        for plug in self.plugs:
            if plug.link is not None and part.lies_between(plug.name, plug.target):
                plug.link.stall(part.until_ns)
                if self._random.random() < 0.6:
                    self._clock.after(self._random.randrange(for_ns), partial(plug.link.cut, NS_PER_S))

    def apart_until_ns(self, a: str, b: str) -> int:
        """When these two can reach each other again; 0 if they can now."""
        now_ns = self._clock.now_ns
        self._parts = [part for part in self._parts if part.until_ns > now_ns]
        return max((part.until_ns for part in self._parts if part.lies_between(a, b)), default=0)

    def heal(self) -> None:
        self._parts.clear()
        self.loss = 0.0

    def carry(self, sender: str, receiver: str, deliver: Callable[[], object]) -> None:
        """A letter. What cannot get through now is lost, or comes when it can."""
        random = self._random
        apart_ns = self.apart_until_ns(sender, receiver)
        if (apart_ns and random.random() >= self.waits) or random.random() < self.loss:
            return
        wait_ns = max(0, apart_ns - self._clock.now_ns)
        for _ in range(2 if random.random() < self.doubles else 1):
            self._clock.after(wait_ns + delay_ns(random), partial(self._arrive, sender, receiver, deliver))

    def _arrive(self, sender: str, receiver: str, deliver: Callable[[], object]) -> None:
        if not self.apart_until_ns(sender, receiver):
            deliver()

    def connect(self, plug: Plug) -> Link | None:
        """None if nobody is there, can be reached, or lets us in."""
        broker = self.listeners[plug.address]
        if not broker.alive or self.apart_until_ns(plug.name, broker.name):
            return None
        # A routing id that no connection ever had.
        self._born += 1
        peer = f"{plug.name}/{self._born}".encode()
        link = Link(self._clock, peer, plug, broker)
        if not broker.accept(link):
            return None
        self.plugs[plug] = None
        return link


class Link:
    """One connection between a broker and somebody, who is called `peer` there. A plug has one after the other."""

    def __init__(self, clock: Clock, peer: bytes, plug: Plug, broker: Listener) -> None:
        self.peer = peer
        self.door = plug.door
        #: By which the other end shows who it is; empty if it does not.
        self.key = plug.owner.key_for(plug.address)
        self._clock = clock
        self._random = plug.owner.random
        # Each of these is first for the other end, then for the broker's: False and True are the indices.
        self._ends = (plug, broker)
        self._not_before_ns = [0, 0]
        #: Which ends still believe that it is open.
        self.believes = [True, True]
        self.open = True

    def send(self, message: Frames, *, towards_broker: bool) -> bool:
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
        """For people to read."""
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
        """What is sent from now on arrives after that instant, in order: TCP keeps trying."""
        self._not_before_ns = [max(before_ns, until_ns) for before_ns in self._not_before_ns]

    def _notice(self, broker_end: bool) -> None:
        if self.believes[broker_end]:
            self.believes[broker_end] = False
            self._ends[broker_end].cut_off(self)


class Plug:
    """A connection to a broker that is made, and remade, by itself: a DEALER with its monitor, as in `net.link`.

    Its owner learns that it is up or down when it looks, not when it happens. What came before the cut can be read
    after it.
    """

    def __init__(self, network: Network, clock: Clock, owner: Owner, address: str, door: str) -> None:
        self.owner = owner
        self.name = owner.name
        self.address = address
        #: The place that it leads to.
        self.target = network.listeners[address].name
        self.door = door
        self.link: Link | None = None
        #: As the owner knows it.
        self.up = False
        self.closed = False
        #: All that it has shown.
        self.keys: set[bytes] = set()
        self._network = network
        self._clock = clock
        self._changes: list[bool] = []
        self._inbox: list[Frames] = []
        self._try_soon(CONNECT_NS)

    @property
    def holds(self) -> bool:
        """Whether what is sent now may arrive, whatever the owner knows."""
        return self.link is not None and self.link.open

    def changes(self) -> list[bool]:
        """What happened to the connection since the last look: True is up."""
        changes, self._changes = self._changes, []
        if changes:
            self.up = changes[-1]
        return changes

    def recv(self) -> list[Frames]:
        came, self._inbox = self._inbox, []
        return came

    def send(self, messages: list[Frames]) -> int:
        """How many were taken, starting with the first."""
        taken = 0
        for message in messages:
            if self.link is None or not self.link.send(message, towards_broker=True):
                break
            taken += 1
        return taken

    def close(self) -> None:
        self.closed = True
        self._drop()

    def hang_up(self) -> None:
        """Its owner wants another connection to the same place."""
        if self.link is not None:
            self._drop()
            self._note(up=False)
            self._try_soon(RETRY_NS)

    def _drop(self) -> None:
        self._network.plugs.pop(self, None)
        if self.link is not None:
            link, self.link = self.link, None
            # Nobody at this end wants to hear of it.
            link.believes[False] = False
            link.cut()

    # -- the network's side -------------------------------------------------------------------------------------

    def receive(self, link: Link, message: Frames) -> None:
        if link is self.link:
            self._inbox.append(message)
            self.owner.wake_at(self._clock.now_ns + self.owner.random.randrange(NS_PER_MS // 5))

    def cut_off(self, link: Link) -> None:
        if link is self.link:
            self.link = None
            self._note(up=False)
            self._try_soon(RETRY_NS)

    def _try_soon(self, within_ns: tuple[int, int]) -> None:
        self._clock.after(self.owner.random.randrange(*within_ns), self._connect)

    def _connect(self) -> None:
        if self.closed or self.link is not None:
            return
        self.link = self._network.connect(self)
        if self.link is None:
            self._try_soon(RETRY_NS)
        else:
            self.keys.add(self.link.key)
            self._note(up=True)

    def _note(self, *, up: bool) -> None:
        self._changes.append(up)
        self.owner.wake_at(self._clock.now_ns)
