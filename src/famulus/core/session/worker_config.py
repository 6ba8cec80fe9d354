"""What a worker is told about brokers: the body of a CONFIG, and of the answer to NEEDBROKER. Bytes to checked values.

Both come from elsewhere, and a saved config comes from a file that may contain anything: what cannot be read gives None
or nothing, and an address that nobody could connect to is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import msgspec

#: Far more than one family has; a longer list is cut off.
BROKERS_MAX = 64
#: A larger body is not looked at.
BODY_BYTES_MAX = 1024 * 1024

_ADDRESS = re.compile(r"tcp://(\[[^\]]+\]|[^:/\s]+):(\d{1,5})|ipc://\S+")
#: A broker may listen on these, but to connect to one would reach whatever listens on our own machine.
_NOWHERE = frozenset({"0.0.0.0", "[::]", "*"})


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    family: str
    #: Addresses of the backends of the family's brokers.
    brokers: tuple[str, ...]
    #: The address of the preferred one; empty if the config names none, or one that is not listed.
    preferred: str
    #: Those of the families that it falls back on, grouped by family, in order.
    fallback: tuple[tuple[str, ...], ...] = ()
    #: Whether an admin prefers that one; otherwise it is just the one that answered.
    by_admin: bool = False


class _Broker(msgspec.Struct):
    identity: str
    backend: str


class _FallbackBroker(_Broker):
    family: str = ""


class _Family(msgspec.Struct):
    name: str
    brokers: list[_Broker]
    fallback: list[_FallbackBroker] = []


class _Config(msgspec.Struct):
    family_config: _Family
    preferred_broker: str = ""
    preferred_by_admin: bool = False


class _Brokers(msgspec.Struct):
    brokers: list[_Broker]


_decode_config = msgspec.json.Decoder(_Config).decode
_decode_brokers = msgspec.json.Decoder(_Brokers).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_config(body: bytes) -> WorkerConfig | None:
    """The config of a worker; None if this is not one."""
    if len(body) > BODY_BYTES_MAX:
        return None
    try:
        config = _decode_config(body)
    except _UNREADABLE:
        return None
    brokers = config.family_config.brokers
    fallback = config.family_config.fallback
    preferred = [each for each in brokers if each.identity == config.preferred_broker]
    return WorkerConfig(
        config.family_config.name,
        _addresses(brokers),
        "".join(_addresses(preferred)[:1]),
        tuple(_addresses(list(group)) for _, group in groupby(fallback[:BROKERS_MAX], attrgetter("family"))),
        config.preferred_by_admin,
    )


def read_brokers(body: bytes) -> tuple[str, ...]:
    """Addresses of backends, best first, from an answer to NEEDBROKER; none if this is not such an answer."""
    if len(body) > BODY_BYTES_MAX:
        return ()
    try:
        return _addresses(_decode_brokers(body).brokers)
    except _UNREADABLE:
        return ()


def _addresses(brokers: Sequence[_Broker]) -> tuple[str, ...]:
    return tuple(each.backend for each in brokers[:BROKERS_MAX] if _can_be(each.backend))


def _can_be(address: str) -> bool:
    match = _ADDRESS.fullmatch(address)
    if match is None or not address.isprintable():
        return False
    host, port = match[1], match[2]
    return host is None or (host not in _NOWHERE and 0 < int(port) <= 65535)
