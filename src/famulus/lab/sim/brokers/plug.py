"""A connection to a broker that is made, and made again, by itself: a DEALER with its monitor, as `net.link` has it.

Whoever owns it hears that it is up or down when it looks, not when it happens. What came before the cut can be read
after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from famulus.core.clock import NS_PER_MS
from famulus.lab.sim.network import Frames, Link

if TYPE_CHECKING:
    from famulus.lab.sim.actors import Actor
    from famulus.lab.sim.brokers.world import World

#: Between two tries to connect.
RETRY_NS = (20 * NS_PER_MS, 120 * NS_PER_MS)
#: The handshake.
CONNECT_NS = (1 * NS_PER_MS, 5 * NS_PER_MS)


class Plug:
    def __init__(self, world: World, owner: Actor, place: str, address: str, door: str) -> None:
        self.address = address
        self.place = place
        self.link: Link | None = None
        #: As the owner knows it.
        self.up = False
        self.closed = False
        self._world = world
        self._owner = owner
        self._door = door
        self._changes: list[bool] = []
        self._inbox: list[Frames] = []
        self._try_soon(CONNECT_NS)

    @property
    def name(self) -> str:
        return self._owner.name

    @property
    def target(self) -> str:
        """The place that it leads to."""
        return self._world.place_of(self.address)

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
        """How many were taken, from the first on."""
        taken = 0
        for message in messages:
            if self.link is None or not self.link.to_broker(message):
                break
            taken += 1
        return taken

    def close(self) -> None:
        self.closed = True
        self._world.plugs.pop(self, None)
        if self.link is not None:
            link, self.link = self.link, None
            # Nobody at this end wants to hear of it.
            link.believes[False] = False
            link.cut()

    # -- the network's side -------------------------------------------------------------------------------------

    def receive(self, link: Link, message: Frames) -> None:
        if link is self.link:
            self._inbox.append(message)
            self._owner.wake_at(self._world.clock.now_ns + self._owner.random.randrange(NS_PER_MS // 5))

    def cut_off(self, link: Link) -> None:
        if link is self.link:
            self.link = None
            self._note(up=False)
            self._try_soon(RETRY_NS)

    def _try_soon(self, within_ns: tuple[int, int]) -> None:
        self._world.clock.after(self._owner.random.randrange(*within_ns), self._connect)

    def _connect(self) -> None:
        if self.closed or self.link is not None:
            return
        broker = self._world.broker_at(self.address)
        if not broker.alive or self._world.ground.apart_until_ns(self.place, broker.name):
            self._try_soon(RETRY_NS)
            return
        peer = self._world.new_peer(self.place)
        self.link = Link(self._world.clock, self._owner.random, peer, self._door, broker, self)
        broker.links[self._door][peer] = self.link
        self._world.plugs[self] = None
        self._note(up=True)

    def _note(self, *, up: bool) -> None:
        self._changes.append(up)
        self._owner.wake_at(self._world.clock.now_ns)
