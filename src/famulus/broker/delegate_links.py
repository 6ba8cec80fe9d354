"""The dispatcher's links to the brokers that help it. Decides nothing: the core says who they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from famulus.broker.inlet import Inlet
from famulus.net import sockets
from famulus.net.line import Change
from famulus.net.link import BATCH_MAX, Link
from famulus.net.waiting import Waiting

if TYPE_CHECKING:
    from famulus.core.dispatch.dispatcher import Dispatcher
    from famulus.wire.curve import CurveKey


class DelegateLink:
    """The link to another broker that helps, and both of its inlets."""

    def __init__(self, identity: bytes, link: Link, waiting: Waiting) -> None:
        self.identity = identity
        self.link = link
        self.messages = Inlet(link.socket, waiting)
        self.changes = Inlet(link.monitor, waiting)

    @property
    def look(self) -> bool:
        return self.messages.look or self.changes.look


class DelegateLinks:
    def __init__(self, context: sockets.Context, waiting: Waiting, own: CurveKey | None) -> None:
        """`own`: our key, if we have one."""
        self._context = context
        self._waiting = waiting
        self._own = own
        #: Those whom we give tasks, by their names.
        self._links: dict[bytes, DelegateLink] = {}
        #: Links that were made with another key, or none: they stay while the other side owes us answers.
        self._former: list[DelegateLink] = []
        #: Both kinds. A busy dispatcher looks here often.
        self._all: list[DelegateLink] = []

    @property
    def look(self) -> bool:
        return bool(self._all) and any(each.look for each in self._all)

    def look_at_all(self) -> None:
        for each in self._all:
            each.messages.look = each.changes.look = True

    def follow(self, core: Dispatcher, keys: dict[bytes, bytes]) -> None:
        """Have a link to every peer that may help, with its key if it wants one, and to no other."""
        peers = core.delegates.by_identity
        for identity, each in list(self._links.items()):
            peer = peers.get(identity)
            if peer is None or peer.frontend != each.link.address:
                self._close(self._links.pop(identity))
            elif each.link.key != keys.get(identity, b""):
                self._former.append(self._links.pop(identity))
        for each in list(self._former):
            if each.identity not in peers or not peers[each.identity].running:
                self._former.remove(each)
                self._close(each)
        for identity, peer in peers.items():
            if identity not in self._links:
                link = Link(self._context, peer.frontend, keys=self._keys_for(keys.get(identity, b"")))
                self._links[identity] = DelegateLink(identity, link, self._waiting)
        self._all = [*self._links.values(), *self._former]

    def send(self, identity: bytes, task: list[bytes]) -> bool:
        delegate = self._links.get(identity)
        if delegate is None:
            return False
        delegate.messages.look = True
        return delegate.link.up and bool(delegate.link.send([task]))

    def read(self, core: Dispatcher) -> None:
        for each in self._all:
            if each.look:
                self._read(core, each)

    def _read(self, core: Dispatcher, delegate: DelegateLink) -> None:
        identity, link = delegate.identity, delegate.link
        changes = link.changes() if delegate.changes.look else []
        delegate.changes.look = False
        if delegate.messages.look or changes:
            batch = link.recv()
            # What a connection brought before it was lost still counts, so it is processed before the loss.
            while Change.DOWN in changes and (more := link.recv()):
                batch += more
            delegate.messages.look = len(batch) >= BATCH_MAX
            core.on_delegate(identity, batch)
        for change in changes:
            core.on_delegate_link(identity, change is Change.UP)
        if changes and delegate in self._former and (present := self._links.get(identity)) is not None:
            # Which of its tasks went over which link is not known: all are in doubt, and others may follow.
            core.on_delegate_link(identity, present.link.up)

    def _keys_for(self, key: bytes) -> sockets.Keys | None:
        return sockets.Keys(self._own, key) if key and self._own is not None else None

    def _close(self, delegate: DelegateLink) -> None:
        self._waiting.forget(delegate.link.socket)
        self._waiting.forget(delegate.link.monitor)
        delegate.link.close()
