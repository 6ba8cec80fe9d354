"""The processes of the invented world: each is the real core with a thin shell, as on real sockets.

An actor can be paused (SIGSTOP: what comes waits for it) and killed (its links are cut, its memory is gone).
"""

from __future__ import annotations

from functools import partial
from random import Random

from famulus.core.clock import NEVER_NS, NS_PER_MS
from famulus.lab.sim.network import Frames, Link, Plug
from famulus.lab.sim.world import World

BATCH_MAX = 64


class Actor:
    """Wakes when something came or is due, unless it is paused or dead."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.clock = world.clock
        self.name = name
        self.random = Random(f"{world.seed}/{name}")
        self.alive = True
        self.paused = False
        self._wake_ns = NEVER_NS
        #: The instants at which it will be woken up, for whatever reason.
        self._wakes_ns: set[int] = set()

    def wake_at(self, time_ns: int) -> None:
        if time_ns < self._wake_ns:
            self._wake_ns = time_ns
            if time_ns not in self._wakes_ns:
                self._wakes_ns.add(time_ns)
                self.clock.at(time_ns, self._wake)

    def _wake(self) -> None:
        now_ns = self.clock.now_ns
        self._wakes_ns.discard(now_ns)
        if now_ns < self._wake_ns:
            return
        self._wake_ns = NEVER_NS
        if self.alive and not self.paused:
            self.run(now_ns)

    def pause(self, for_ns: int) -> None:
        self.paused = True
        self.clock.after(for_ns, partial(self.resume, for_ns))

    def resume(self, paused_ns: int) -> None:
        self.paused = False
        self.wake_at(self.clock.now_ns)

    def run(self, now_ns: int) -> None:
        raise NotImplementedError

    def plug_to(self, address: str, door: str) -> Plug:
        return Plug(self.world.network, self.clock, self, address, door)

    def key_for(self, address: str) -> bytes:
        """What it shows to whoever listens there; empty: it connects without a key."""
        return b""

    def new_token(self) -> str:
        return f"{self.random.getrandbits(64):016x}"


class Doors(Actor):
    """A process that others connect to, with its links by the core's names for whom they lead to."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.links: dict[str, dict[bytes, Link]] = {}
        #: What came, through which door, and from whom.
        self.inbox: list[tuple[str, bytes, Frames]] = []
        #: Workers whose connection is known to be over, which the core has not been told yet.
        self._gone: list[bytes] = []

    def open_doors(self, *doors: str) -> None:
        self.alive = True
        self._wake_ns = NEVER_NS
        self.links = {door: {} for door in doors}
        self.inbox.clear()
        self._gone.clear()

    def close_doors(self, notice_ns: int = 0) -> None:
        """It is dead: whoever was connected learns of it within that time."""
        self.alive = False
        self._wake_ns = NEVER_NS
        for links in self.links.values():
            for link in list(links.values()):
                link.believes[True] = False
                link.cut(notice_ns)

    def accept(self, link: Link) -> bool:
        """Whether it lets it in."""
        self.links[link.door][link.peer] = link
        return True

    def receive(self, link: Link, message: Frames) -> None:
        self.take(link.door, link.peer, message)

    def take(self, door: str, peer: bytes, message: Frames) -> None:
        if self.alive:
            self.inbox.append((door, peer, message))
            self.wake_at(self.clock.now_ns + self.random.randrange(NS_PER_MS // 5))

    def cut_off(self, link: Link) -> None:
        if self.links[link.door].pop(link.peer, None) is not None and link.door == "worker":
            self._gone.append(link.peer)
            self.wake_at(self.clock.now_ns + 1)

    def take_gone(self) -> list[bytes]:
        """Those with nothing left to be read."""
        if not self._gone:
            return []
        speak = {peer for door, peer, _ in self.inbox if door == "worker"}
        gone = [peer for peer in self._gone if peer not in speak]
        self._gone = [peer for peer in self._gone if peer in speak]
        return gone

    def take_inbox(self, most: int) -> dict[str, list[Frames]]:
        """By door, each message after the name of its sender."""
        batch, self.inbox = self.inbox[:most], self.inbox[most:]
        by_door: dict[str, list[Frames]] = {"client": [], "worker": [], "router": [], "announcement": []}
        for door, peer, message in batch:
            by_door[door].append([peer, *message])
        if self.inbox:
            self.wake_at(self.clock.now_ns + 1)
        return by_door

    def send(self, door: str, messages: list[Frames]) -> list[Frames]:
        """Send all; returns those that were refused."""
        refused = []
        for message in messages:
            link = self.links[door].get(message[0])
            if link is None or not link.send(message[1:], towards_broker=False):
                refused.append(message)
        return refused
