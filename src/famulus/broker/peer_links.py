"""The steward's connections to its peers: one for letters to each, and one ear for what they all publish."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from famulus.core.config.schema import Broker
from famulus.errors import SettingsError
from famulus.net import sockets
from famulus.net.line import Change
from famulus.net.link import Link
from famulus.net.pump import recv_many, send_some
from famulus.net.waiting import Waiting
from famulus.wire import peers

log = logging.getLogger("famulus.broker")


@dataclass
class _PeerLink:
    """Our connection to one peer."""

    link: Link
    published: str


class PeerLinks:
    def __init__(self, context: sockets.Context, waiting: Waiting) -> None:
        self._context = context
        self._waiting = waiting
        self._published = sockets.outside_sub(context, peers.LETTER_BYTES_MAX)
        waiting.watch(self._published)
        self._links: dict[str, _PeerLink] = {}
        #: Where we hear news that no peer of ours publishes.
        self._more_news: set[str] = set()

    def read(self, limit: int) -> Iterator[list[bytes]]:
        """Letters, this many at most from each."""
        for socket in (self._published, *(peer.link.socket for peer in self._links.values())):
            yield from recv_many(socket, limit)

    def send(self, identity: str, frames: list[bytes]) -> None:
        peer = self._links.get(identity)
        if peer is not None:
            send_some(peer.link.socket, [frames])

    def changes(self) -> Iterator[tuple[str, bool]]:
        """Peers whose connections came or went, and whether each is cut now."""
        for identity, peer in self._links.items():
            for change in peer.link.changes():
                yield identity, change is Change.DOWN

    def follow(self, brokers: dict[str, Broker], own: Broker | None) -> None:
        """A connection to each of these, where it listens; and to the `config_sub_ports` of our own config."""
        wanted = {identity: _addresses(broker) for identity, broker in brokers.items()}
        for identity, peer in list(self._links.items()):
            if wanted.get(identity) != (peer.link.address, peer.published):
                self._close(identity, peer)
        for identity, (address, published) in wanted.items():
            if identity not in self._links:
                self._connect(identity, address, published)
        self._hear_more(own)

    def _close(self, identity: str, peer: _PeerLink) -> None:
        for socket in (peer.link.socket, peer.link.monitor):
            self._waiting.forget(socket)
        peer.link.close()
        del self._links[identity]
        # Two brokers at one place are a mistake, but one that somebody will make.
        if peer.published not in self._publishers():
            self._published.disconnect(peer.published)

    def _connect(self, identity: str, address: str, published: str) -> None:
        link: Link | None = None
        try:
            link = Link(self._context, address)
            sockets.connect(self._published, published)
        except SettingsError as error:
            # Any admin's edit can say anything: it must not be the end of all brokers that read it.
            log.warning("broker/%s: %s", identity, error)
            if link is not None:
                link.close()
            return
        for socket in (link.socket, link.monitor):
            self._waiting.watch(socket)
        self._links[identity] = _PeerLink(link, published)

    def _hear_more(self, own: Broker | None) -> None:
        """No place twice, and not our own."""
        wanted: set[str] = set()
        if own is not None:
            wanted = {sockets.address(own.host, port) for port in own.config_sub_ports} - {_addresses(own)[1]}
        wanted -= self._publishers()
        for address in self._more_news - wanted - self._publishers():
            self._published.disconnect(address)
        for address in wanted - self._more_news:
            sockets.connect(self._published, address)
        self._more_news = wanted

    def _publishers(self) -> set[str]:
        return {peer.published for peer in self._links.values()}


def _addresses(broker: Broker) -> tuple[str, str]:
    return sockets.address(broker.host, broker.peer_port), sockets.address(broker.host, broker.config_pub_port)
