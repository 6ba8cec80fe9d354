"""Makes the routers' book from the config and what is known about the peers. Pure: equal facts give an equal book.

The config is `Steward.located`: clients and workers are told where brokers actually listen.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from famulus.core.config.effective import Effective
from famulus.core.config.schema import Broker
from famulus.core.rights import Rights
from famulus.core.routing.book import Book, BrokerAddress
from famulus.core.steward.peer import Peer
from famulus.core.steward.principals import wanted_key
from famulus.wire import inner

#: A name or an address that can be connected to. An edit can say anything, and must not trip anybody up.
_HOST: Final = re.compile(r"[A-Za-z0-9:][A-Za-z0-9.:%_-]*")


def book_of(
    config: Effective, identity: str, alive: list[Peer], epoch: int, rights: dict[str, Rights] | None = None
) -> Book | None:
    """None as long as the config does not know this broker."""
    broker = config.brokers.get(identity)
    if broker is None:
        return None
    family = config.family(broker.family)
    return Book(
        broker=_address(config, identity, broker),
        heartbeat_ms=broker.default_heartbeat_interval or family.heartbeat_ms,
        services=dict(config.services),
        default_policy=family.default_service,
        version=config.version,
        epoch=epoch,
        state=config.broker_states[identity],
        family=_members(config, broker.family, identity),
        fallback=tuple(each for name in config.fallbacks_of(identity) for each in _members(config, name, identity)),
        preferred_of_workers=family.preferred_brokers,
        preferred_of_services=family.preferred_brokers_of_services,
        others=_others(config, identity, alive),
        rights=rights,
    )


def _members(config: Effective, family: str, but: str) -> tuple[BrokerAddress, ...]:
    """The brokers of a family that a worker may try, alive or not."""
    return tuple(
        _address(config, identity, broker)
        for identity, broker in sorted(config.brokers.items())
        if identity != but
        and broker.family == family
        and config.broker_states[identity] != "disabled"
        and is_host(broker.host)
    )


def offers_of(config: Effective, identity: str, alive: list[Peer]) -> list[inner.PeerOffer]:
    """What the dispatcher is told about those who could help it: peers of its family, then of its fallback families.

    A peer that takes no tasks has nothing free, but is listed: it may still owe us answers, and one that is no longer
    listed is taken for lost.
    """
    broker = config.brokers.get(identity)
    if broker is None:
        return []
    families = (broker.family, *config.fallbacks_of(identity))
    return [
        (
            peer.identity,
            _address(config, peer.identity, peer.located).frontend,
            families.index(peer.broker.family),
            _free_slots(peer) if _can_help(config, peer) else {},
        )
        for peer in alive
        if peer.broker.family in families and is_host(peer.located.host)
    ]


def _free_slots(peer: Peer) -> dict[str, int]:
    """Includes services whose slots are all busy: tasks for them can wait here until one is free there."""
    return {
        name: work.free for name, work in peer.work.items() if (work.free or work.busy) and peer.broker.serves(name)
    }


def _others(config: Effective, identity: str, alive: list[Peer]) -> tuple[BrokerAddress, ...]:
    """Those of this family first, then of those that it falls back on; within a family, the least busy first."""
    others: list[BrokerAddress] = []
    for name in (config.brokers[identity].family, *config.fallbacks_of(identity)):
        members = [
            replace(_address(config, peer.identity, peer.located), load=peer.load())
            for peer in alive
            if peer.broker.family == name and _can_help(config, peer)
        ]
        others += sorted(members, key=lambda other: (other.load, other.identity))
    return tuple(others)


def _can_help(config: Effective, peer: Peer) -> bool:
    """According to the config and to the peer itself, since it may know more than we do."""
    states = (peer.state, config.broker_states.get(peer.identity))
    return states == ("active", "active") and is_host(peer.located.host)


def is_host(text: str) -> bool:
    return _HOST.fullmatch(text) is not None


def _address(config: Effective, identity: str, broker: Broker) -> BrokerAddress:
    host = f"[{broker.host}]" if ":" in broker.host else broker.host
    return BrokerAddress(
        identity,
        broker.family,
        f"tcp://{host}:{broker.frontend_port}",
        f"tcp://{host}:{broker.backend_port}",
        None if broker.services == "all" else broker.services,
        wanted_key(config, identity).hex(),
    )
