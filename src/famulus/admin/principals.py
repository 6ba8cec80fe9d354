"""Principals as an admin makes and changes them, based on what a broker has shown; and what is in their passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import structs

from famulus.core.config import schema
from famulus.core.config.schema import Broker, Principal
from famulus.core.steward.answers import Shown
from famulus.core.steward.principals import public_key_of
from famulus.errors import FamulusError, SettingsError
from famulus.net.addresses import address, is_loopback
from famulus.net.passes import PassBroker, PassFile

KEYS_MAX = 2


def key_of(name: str) -> str:
    """Of the config; a SettingsError if that is no name for a principal."""
    key = f"principal/{name}"
    if schema.subject(key) != schema.Subject("principal", name):
        raise SettingsError(
            f"{name[:80]!r} is no name for a principal: letters, digits and . _ @ - and first a letter or digit"
        )
    return key


def everybody(shown: Shown) -> Iterator[tuple[str, Principal]]:
    """All whom the config knows, by name."""
    for key in sorted(shown.keys):
        if key.startswith("principal/") and (found := _principal(shown, key)) is not None:
            yield key.removeprefix("principal/"), found


def known(shown: Shown, name: str) -> Principal:
    found = _principal(shown, key_of(name))
    if found is None:
        raise FamulusError(f"there is no principal {name!r}; famulus pass list shows those that there are")
    return found


def check_free(shown: Shown, name: str) -> None:
    if shown.key(key_of(name)).is_there:
        otherwise = f"famulus pass rights {name} changes what it may do, famulus pass rotate {name} gives it a new key"
        raise FamulusError(f"{name} has a pass already; {otherwise}")


def rotated(principal: Principal, name: str, public_key: str) -> Principal:
    """With one more key: both are valid until the rotation is finished."""
    if len(principal.public_keys) >= KEYS_MAX:
        raise FamulusError(
            f"{name} has two keys already; end that first: famulus pass rotate {name} --finish, or with --cancel if "
            "the new pass was lost"
        )
    return structs.replace(principal, public_keys=(*principal.public_keys, public_key))


def finished(principal: Principal, name: str) -> Principal:
    """With its newest key alone."""
    return structs.replace(_rotating(principal, name), public_keys=principal.public_keys[-1:])


def cancelled(principal: Principal, name: str) -> Principal:
    """With its oldest key alone."""
    return structs.replace(_rotating(principal, name), public_keys=principal.public_keys[:1])


def _rotating(principal: Principal, name: str) -> Principal:
    if len(principal.public_keys) < KEYS_MAX:
        raise FamulusError(f"{name} has one key only, so there is nothing to end")
    return principal


def changed(patterns: tuple[str, ...], more: Iterable[str], less: Iterable[str]) -> tuple[str, ...]:
    """These patterns, with some added and some taken away."""
    taken = set(less)
    if missing := taken - set(patterns):
        raise FamulusError(
            f"there is no {', '.join(sorted(missing))} to take away; there is {', '.join(patterns) or 'none'}"
        )
    return tuple(dict.fromkeys(each for each in (*patterns, *more) if each not in taken))


def value_of(principal: Principal) -> dict[str, Any]:
    """As the config has it, without what is not set."""
    value: dict[str, Any] = msgspec.to_builtins(principal)
    return {field: list(each) if isinstance(each, tuple) else each for field, each in value.items() if each}


def pass_for(shown: Shown, name: str, families: Iterable[str], secret_key: bytes | None) -> PassFile:
    """Names the brokers that let this principal in, the one that answers first."""
    brokers = _brokers_of(shown, families)
    if not brokers:
        raise FamulusError(f"there is no broker in {', '.join(families)}, so nobody would let {name} in")
    ordered = sorted(brokers, key=lambda identity: (identity != shown.broker, identity))
    listed = [_pass_broker(identity, brokers[identity]) for identity in ordered]
    return PassFile(1, shown.network, name, listed, secret_key.hex() if secret_key is not None else None)


def out_of_reach(shown: Shown, families: Iterable[str]) -> tuple[str, str]:
    """A broker of these families, and where it is said to be, if all of them are on their own machines only."""
    brokers = _brokers_of(shown, families)
    if not all(is_loopback(broker.host) for broker in brokers.values()):
        return "", ""
    return next(((identity, broker.host) for identity, broker in brokers.items()), ("", ""))


def _brokers_of(shown: Shown, families: Iterable[str]) -> dict[str, Broker]:
    brokers = {}
    for key in shown.keys:
        broker = schema.read(schema.subject(key), shown.key(key).said).value if key.startswith("broker/") else None
        if isinstance(broker, Broker) and broker.family in set(families):
            brokers[key.removeprefix("broker/")] = broker
    return brokers


def _pass_broker(identity: str, broker: Broker) -> PassBroker:
    frontend, backend = (address(broker.host, port) for port in (broker.frontend_port, broker.backend_port))
    return PassBroker(frontend, backend, public_key_of(broker).hex(), identity)


def _principal(shown: Shown, key: str) -> Principal | None:
    found = schema.read(schema.subject(key), shown.key(key).said).value if shown.key(key).is_set else None
    return found if isinstance(found, Principal) else None
