"""Who may connect to a broker, with which keys, and what it may do there. Pure: equal configs give equal answers.

A principal is let in by the brokers of its families, until it expires; its rights hold at every broker of the network,
since one may pass its tasks on to another. The other brokers are principals, too.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import structs

from famulus.core.config.effective import Effective
from famulus.core.config.schema import Broker, Keys, Principal
from famulus.core.rights import Rights
from famulus.wire import curve, inner

#: What everybody may do who needs no key.
EVERYTHING: Final = Rights(("*",), ("*",))


@dataclass(frozen=True)
class Admission:
    #: The names of those who may connect, by their public keys.
    keys: dict[bytes, str]
    #: What the dispatcher must know about each.
    terms: dict[str, inner.PrincipalTerms]
    #: What each may do, for routers; also of those whom only other brokers let in. None if nobody needs a key.
    rights: dict[str, Rights] | None
    #: Whether one without a key may connect as well, if it is near enough: it has no name, and may do anything.
    plain: bool
    #: The public keys of other brokers that want some themselves, by their names.
    brokers: dict[str, bytes]
    #: When the next of them expires; 0 if none does.
    next_expiry_ms: int

    def told(self, epoch: int) -> inner.Principals:
        """What the dispatcher has to know of it. `epoch`: of the config that this is of."""
        return inner.Principals(self.keys, self.terms, self.plain, self.brokers, epoch)


def admission(config: Effective, identity: str, now_ms: int) -> Admission:
    """To the broker of this name, at this time. Nobody may connect to one that the config does not know."""
    broker = config.brokers.get(identity)
    keys = config.family(broker.family).keys if broker is not None else "all"
    valid = {name: each for name, each in config.principals.items() if not 0 < each.expires_ms <= now_ms}
    here = {name: each for name, each in valid.items() if broker is not None and broker.family in each.families}
    brokers = list(_brokers(config, identity))
    found = [*brokers, *_keys(here)]
    # A key that two have would be whoever's we liked.
    owners = Counter(key for key, _ in found)
    rights = {name: Rights(each.call, each.serve) for name, each in valid.items()}
    if keys == "remote":
        rights[""] = EVERYTHING
    return Admission(
        {key: name for key, name in found if owners[key] == 1},
        {name: inner.NO_TERMS for _, name in brokers} | {name: _terms(each, keys) for name, each in valid.items()},
        rights if keys != "none" else None,
        keys != "all",
        {name: key for name in config.brokers if name != identity and (key := wanted_key(config, name))},
        min((each.expires_ms for each in valid.values() if each.expires_ms), default=0),
    )


def shared_keys(config: Effective) -> list[tuple[str, str]]:
    """Principals of one family with a key in common, with that family: neither of them gets in there."""
    seen: dict[tuple[str, str], str] = {}
    found = []
    for name, each in sorted(config.principals.items()):
        for family in each.families:
            for key in set(each.public_keys):
                other = seen.setdefault((family, key), name)
                if other != name:
                    found.append((name, other))
    return found


def public_key_of(broker: Broker) -> bytes:
    """Of its connections; empty if the config has no key of it that could be one."""
    return signer_key(broker.public_key)


def signer_key(public_key: str) -> bytes:
    """The key of the connections of whoever signs with this one; empty if it is none."""
    try:
        return curve.of_signer(bytes.fromhex(public_key)) or b""
    except ValueError:
        return b""


def wanted_key(config: Effective, identity: str) -> bytes:
    """The public key of a broker that wants keys of those who connect; empty if it wants none, or has none."""
    broker = config.brokers[identity]
    return public_key_of(broker) if config.family(broker.family).keys != "none" else b""


def _brokers(config: Effective, identity: str) -> Iterator[tuple[bytes, str]]:
    """Its peers: whom its admins leave out, that one hands no tasks over to it, whatever its own admins want."""
    for name, broker in config.brokers.items():
        key = public_key_of(broker)
        if name != identity and key and (identity not in config.brokers or config.are_peers(identity, name)):
            yield key, inner.BROKER + name


def _keys(principals: dict[str, Principal]) -> Iterator[tuple[bytes, str]]:
    for name, principal in principals.items():
        for key in dict.fromkeys(principal.public_keys):
            yield bytes.fromhex(key), name


def _terms(principal: Principal, keys: Keys) -> inner.PrincipalTerms:
    if keys == "none":
        # Whoever has a key has no fewer rights than those without.
        principal = structs.replace(principal, call=EVERYTHING.call, serve=EVERYTHING.serve)
    rights = hashlib.sha256(msgspec.json.encode(sorted(set(principal.call)))).digest()[:16]
    return inner.PrincipalTerms(rights, principal.serve, principal.open_tasks_max, principal.tasks_per_s)
