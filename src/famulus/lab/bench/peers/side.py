"""What is measured: the sides, and which is compared with which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from famulus.lab.bench.peers import celery_redis, gearman, gearman_raw, nats, ours, proxy, rabbitmq
from famulus.lab.bench.peers.peer import Peer

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Side:
    peer: Peer
    #: How the client of this peer asks.
    style: str
    window: int
    #: Bytes of a body, if not those that the user chose.
    size: int | None = None
    #: The side of ours that this one is compared with.
    ours: str = ""


#: Sides that are compared stand next to each other, so that they run one right after the other.
SIDES = {
    "famulus_request_1": Side(ours.PEER, "request", 1),
    "nats_request_1": Side(nats.PEER, "request", 1, ours="famulus_request_1"),
    "famulus_request_64": Side(ours.PEER, "request", 64),
    "nats_request_64": Side(nats.PEER, "request", 64, ours="famulus_request_64"),
    "rabbitmq_64": Side(rabbitmq.PEER, "request", 64, ours="famulus_request_64"),
    "celery_64": Side(celery_redis.PEER, "request", 64, ours="famulus_request_64"),
    "gearman_64": Side(gearman.PEER, "batch", 64, ours="famulus_request_64"),
    "gearman_raw_64": Side(gearman_raw.PEER, "raw", 64, ours="famulus_map_64"),
    "famulus_map_64": Side(ours.PEER, "map", 64),
    "famulus_request_1000": Side(ours.PEER, "request", 1000),
    "nats_request_1000": Side(nats.PEER, "request", 1000, ours="famulus_request_1000"),
    "nats_inbox_1000": Side(nats.PEER, "inbox", 1000, ours="famulus_map_1000"),
    "famulus_map_1000": Side(ours.PEER, "map", 1000),
    "proxy_1000": Side(proxy.PEER, "map", 1000, ours="famulus_map_1000"),
    "famulus_map_1mib": Side(ours.PEER, "map", 16, MIB),
    "proxy_1mib": Side(proxy.PEER, "map", 16, MIB, ours="famulus_map_1mib"),
}

#: With keys: NATS with TLS, and ours without, as it is on one machine.
SECURE_SIDES = {
    "famulus_request_1": SIDES["famulus_request_1"],
    "secure_famulus_request_1": Side(ours.WITH_KEYS, "request", 1),
    "secure_nats_request_1": Side(nats.WITH_TLS, "request", 1, ours="secure_famulus_request_1"),
    "secure_famulus_request_64": Side(ours.WITH_KEYS, "request", 64),
    "secure_nats_request_64": Side(nats.WITH_TLS, "request", 64, ours="secure_famulus_request_64"),
    "secure_famulus_request_1000": Side(ours.WITH_KEYS, "request", 1000),
    "secure_nats_request_1000": Side(nats.WITH_TLS, "request", 1000, ours="secure_famulus_request_1000"),
    "secure_nats_inbox_1000": Side(nats.WITH_TLS, "inbox", 1000, ours="secure_famulus_map_1000"),
    "secure_famulus_map_1000": Side(ours.WITH_KEYS, "map", 1000),
    "famulus_map_1000": SIDES["famulus_map_1000"],
}
ALL_SIDES = SIDES | SECURE_SIDES

PEERS = {side.peer.name: side.peer for side in SIDES.values()}

#: The name of a ratio; ours with keys; ours without.
PLAIN_PAIRS = {
    "secure_plain_1": ("secure_famulus_request_1", "famulus_request_1"),
    "secure_plain_1000": ("secure_famulus_map_1000", "famulus_map_1000"),
}
#: The name of a ratio; ours; theirs.
PAIRS = {
    name.replace("request_1", "1") if side.window == 1 else name: (side.ours, name)
    for name, side in ALL_SIDES.items()
    if side.ours
} | PLAIN_PAIRS


class UnknownSide(ValueError):
    """No side and no peer has this name."""


def chosen(names: Iterable[str], sides: Mapping[str, Side] = SIDES) -> dict[str, Side]:
    """The sides of these names, where a peer's name stands for all of its sides; no name means all."""
    wanted = set(names)
    known = sides.keys() | {side.peer.name for side in sides.values()}
    if unknown := wanted - known:
        raise UnknownSide(f"{', '.join(sorted(unknown))}: known are {', '.join(sorted(known))}")
    return {name: side for name, side in sides.items() if not wanted or {name, side.peer.name} & wanted}


def in_network(sides: Mapping[str, Side], scratch: Path) -> dict[str, Side]:
    """The same sides, ours in a network whose folders are in `scratch`."""
    peer = replace(ours.PEER, start=partial(ours.start_network, scratch))
    return {name: replace(side, peer=peer) if side.peer is ours.PEER else side for name, side in sides.items()}
