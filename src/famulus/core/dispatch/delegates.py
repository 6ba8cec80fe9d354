"""Decides which other broker gets a task for which no slot is free here. Knows nothing about links or clocks.

A delegate is a peer that had free slots according to its last heartbeat. It gets the task as a client would send it,
with the names of the brokers that the task came through: so it never goes in circles, and passes only a few brokers.
Each task handed over takes one of those slots away until it is answered, or the next heartbeat counts them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from famulus.wire.inner import PeerOffer

if TYPE_CHECKING:
    from famulus.core.dispatch.repeats import Known
    from famulus.core.dispatch.task import Task

#: The most brokers that a task passes through, including the first one.
HOPS_MAX: Final = 4
#: The most peers whose exchanges are counted.
EXCHANGES_MAX: Final = 1000


class Delegate:
    __slots__ = ("free", "frontend", "identity", "rank", "running", "up")

    def __init__(self, identity: bytes, frontend: str) -> None:
        self.identity = identity
        self.frontend = frontend
        #: 0 for our own family, 1 for the first one it falls back on, and so on.
        self.rank = 0
        #: Whether the link to it is up.
        self.up = False
        #: Free slots by service; 0 where all of them are busy.
        self.free: dict[bytes, int] = {}
        #: Tickets that are out, with their tasks.
        self.running: dict[bytes, Task] = {}


class Exchange:
    """Tasks that went to a peer, and those that came from it, since the dispatcher started."""

    __slots__ = ("given", "taken")

    def __init__(self) -> None:
        self.given = 0
        self.taken = 0


class Delegates:
    def __init__(self) -> None:
        self.by_identity: dict[bytes, Delegate] = {}
        #: By the names of peers. They outlive delegates, which come and go with their connections.
        self.exchanges: dict[bytes, Exchange] = {}

    def update(self, offers: list[PeerOffer]) -> list[Delegate]:
        """What peers offer now, once a second. Returns those that are lost, with the tasks that are out to them."""
        frontends = {identity.encode(): frontend for identity, frontend, _, _ in offers}
        gone = [each for each in self.by_identity.values() if frontends.get(each.identity) != each.frontend]
        for delegate in gone:
            del self.by_identity[delegate.identity]
        for name, frontend, rank, free in offers:
            identity = name.encode()
            delegate = self.by_identity.get(identity) or Delegate(identity, frontend)
            self.by_identity[identity] = delegate
            delegate.rank = rank
            delegate.free = {service.encode(): count for service, count in free.items()}
        return gone

    def offers(self, service: bytes) -> bool:
        """Whether a peer that we can reach has slots for it, free or not."""
        return any(delegate.up and service in delegate.free for delegate in self.by_identity.values())

    def is_up(self, identity: bytes) -> bool:
        """Whether we can give it tasks."""
        delegate = self.by_identity.get(identity)
        return delegate is not None and delegate.up

    def hold(self, known: Known) -> bool:
        """Whether the task with this id is out to one of them."""
        return any(
            task.known is known and task.ticket == ticket
            for delegate in self.by_identity.values()
            for ticket, task in delegate.running.items()
        )

    def find(self, service: bytes, visited: tuple[bytes, ...]) -> Delegate | None:
        """The nearest peer with a slot; among equals, the one with the most."""
        if len(visited) + 1 >= HOPS_MAX:
            return None
        best: Delegate | None = None
        most = 0
        for delegate in self.by_identity.values():
            count = delegate.free.get(service, 0)
            if not delegate.up or count <= 0 or delegate.identity in visited:
                continue
            if best is None or delegate.rank < best.rank or (delegate.rank == best.rank and count > most):
                best, most = delegate, count
        return best

    def take(self, service: bytes, visited: tuple[bytes, ...]) -> Delegate | None:
        """Take one slot of the peer that `find` finds."""
        delegate = self.find(service, visited)
        if delegate is not None:
            delegate.free[service] -= 1
        return delegate

    def give_back(self, delegate: Delegate, service: bytes) -> None:
        """A task over there has ended, so its slot is free again; the next heartbeat tells whether it still is."""
        delegate.free[service] = delegate.free.get(service, 0) + 1

    def refused(self, delegate: Delegate, service: bytes) -> None:
        """It had no slot after all, so it is not asked again before its next heartbeat."""
        delegate.free.pop(service, None)

    def exchange(self, identity: bytes) -> Exchange:
        """The exchange with the peer of this name. Any client can claim to be a broker, so their number is bounded."""
        found = self.exchanges.get(identity)
        if found is None:
            if len(self.exchanges) >= EXCHANGES_MAX:
                del self.exchanges[next(iter(self.exchanges))]
            found = self.exchanges[identity] = Exchange()
        return found
