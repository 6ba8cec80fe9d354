"""The steward's connections to its peers: one for letters to each, and one subscription to what they all publish."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from famulus.core.config.schema import Broker
from famulus.errors import SettingsError
from famulus.net import sockets
from famulus.net.line import Change
from famulus.net.link import Link
from famulus.net.pump import recv_many, send_some
from famulus.net.waiting import Waiting
from famulus.wire import peers

log = logging.getLogger("famulus.broker")


class PeerLinks:
    def __init__(self, context: sockets.Context, waiting: Waiting) -> None:
        self._context = context
        self._waiting = waiting
        self._published = sockets.outside_sub(context, peers.LETTER_BYTES_MAX)
        waiting.watch(self._published)
        #: Our connection to each peer, and the address where it publishes.
        self._links: dict[str, tuple[Link, str]] = {}
        #: Where we hear news that none of our peers publishes.
        self._more_news: set[str] = set()

    def read(self, limit: int) -> Iterator[list[bytes]]:
        """Letters, at most this many from each."""
        for socket in (self._published, *(link.socket for link, _ in self._links.values())):
            yield from recv_many(socket, limit)

    def send(self, identity: str, frames: list[bytes]) -> None:
        if identity in self._links:
            send_some(self._links[identity][0].socket, [frames])

    def changes(self) -> Iterator[tuple[str, bool]]:
        """Peers whose connections came up or went down, and whether each is cut now."""
        for identity, (link, _) in self._links.items():
            for change in link.changes():
                yield identity, change is Change.DOWN

    def follow(self, brokers: dict[str, Broker], own: Broker | None) -> None:
        """Connect to each of these, where it listens; and to the `config_sub_ports` of our own config."""
        wanted = {identity: _addresses(broker) for identity, broker in brokers.items()}
        for identity, (link, published) in list(self._links.items()):
            if wanted.get(identity) != (link.address, published):
                self._close(identity)
        for identity, (address, published) in wanted.items():
            if identity not in self._links:
                self._connect(identity, address, published)
        self._hear_more(own)

    def _close(self, identity: str) -> None:
        link, published = self._links.pop(identity)
        for socket in (link.socket, link.monitor):
            self._waiting.forget(socket)
        link.close()
        # Two brokers at one address are a mistake, but one that somebody will make.
        if published not in self._publishers():
            self._published.disconnect(published)

    def _connect(self, identity: str, address: str, published: str) -> None:
        link: Link | None = None
        try:
            link = Link(self._context, address)
            sockets.connect(self._published, published)
        except SettingsError as error:
            # An admin's edit can say anything: it must not bring down all brokers that read it.
            log.warning("broker/%s: %s", identity, error)
            if link is not None:
                link.close()
            return
        for socket in (link.socket, link.monitor):
            self._waiting.watch(socket)
        self._links[identity] = (link, published)

    def _hear_more(self, own: Broker | None) -> None:
        """No address twice, and not our own."""
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
        return {published for _, published in self._links.values()}


def _addresses(broker: Broker) -> tuple[str, str]:
    return sockets.address(broker.host, broker.peer_port), sockets.address(broker.host, broker.config_pub_port)
