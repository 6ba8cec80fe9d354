"""The steward's connections to its peers: for letters to each of them, and for what it publishes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from famulus.core.config.schema import Broker
from famulus.errors import SettingsError
from famulus.net import addresses, sockets
from famulus.net.line import Change
from famulus.net.link import Link
from famulus.net.pump import recv_many, send_some
from famulus.net.waiting import Waiting
from famulus.wire import peers
from famulus.wire.curve import CurveKey

log = logging.getLogger("famulus.broker")


class PeerLink(NamedTuple):
    link: Link
    #: Where it publishes, and the socket that hears it.
    publishes_at: str
    published: sockets.Socket

    @property
    def sources(self) -> tuple[sockets.Socket, ...]:
        return self.link.socket, self.link.monitor, self.published

    def close(self) -> None:
        self.link.close()
        self.published.close(0)


class PeerLinks:
    def __init__(self, context: sockets.Context, waiting: Waiting, own: CurveKey) -> None:
        self._context = context
        self._waiting = waiting
        self._own = own
        self._links: dict[str, PeerLink] = {}
        #: Where we hear news that none of our peers publishes.
        self._news = sockets.outside_sub(context, peers.LETTER_BYTES_MAX)
        self._more_news: set[str] = set()
        waiting.watch(self._news)

    def read(self, limit: int) -> Iterator[list[bytes]]:
        """Letters, at most this many from each."""
        yield from recv_many(self._news, limit)
        for peer in self._links.values():
            yield from recv_many(peer.published, limit)
            yield from recv_many(peer.link.socket, limit)

    def send(self, identity: str, frames: list[bytes]) -> None:
        if identity in self._links:
            send_some(self._links[identity].link.socket, [frames])

    def changes(self) -> Iterator[tuple[str, bool]]:
        """Peers whose connections came up or went down, and whether each is cut now."""
        for identity, peer in self._links.items():
            for change in peer.link.changes():
                yield identity, change is Change.DOWN

    def follow(self, brokers: Mapping[str, Broker], keys: Mapping[str, bytes], own: Broker | None) -> None:
        """Connect to each of these, where it listens, with the keys of those that want some.

        And to the `config_sub_ports` of our own config.
        """
        wanted = {identity: (*_addresses(broker), keys.get(identity, b"")) for identity, broker in brokers.items()}
        for identity, peer in list(self._links.items()):
            if wanted.get(identity) != (peer.link.address, peer.publishes_at, peer.link.key):
                self._close(identity)
        for identity, (address, publishes_at, key) in wanted.items():
            if identity not in self._links:
                self._connect(identity, address, publishes_at, sockets.Keys(self._own, key) if key else None)
        self._hear_more(own)

    def _close(self, identity: str) -> None:
        peer = self._links.pop(identity)
        for socket in peer.sources:
            self._waiting.forget(socket)
        peer.close()

    def _connect(self, identity: str, address: str, publishes_at: str, keys: sockets.Keys | None) -> None:
        link: Link | None = None
        published = sockets.outside_sub(self._context, peers.LETTER_BYTES_MAX, keys)
        try:
            link = Link(self._context, address, keys=keys)
            sockets.connect(published, publishes_at)
        except SettingsError as error:
            # An admin's edit can say anything: it must not bring down all brokers that read it.
            log.warning("broker/%s: %s", identity, error)
            published.close(0)
            if link is not None:
                link.close()
            return
        self._links[identity] = made = PeerLink(link, publishes_at, published)
        for socket in made.sources:
            self._waiting.watch(socket)

    def _hear_more(self, own: Broker | None) -> None:
        """No address twice, and not our own."""
        wanted: set[str] = set()
        if own is not None:
            wanted = {addresses.address(own.host, port) for port in own.config_sub_ports} - {_addresses(own)[1]}
        wanted -= {peer.publishes_at for peer in self._links.values()}
        for address in self._more_news - wanted:
            self._news.disconnect(address)
        for address in wanted - self._more_news:
            sockets.connect(self._news, address)
        self._more_news = wanted


def _addresses(broker: Broker) -> tuple[str, str]:
    ports = broker.peer_port, broker.config_pub_port
    letters, news = (addresses.address(broker.host, port) for port in ports)
    return letters, news
