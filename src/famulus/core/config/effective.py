"""What the edits amount to. Pure and total: equal edits give equal bytes on every broker, and no edit makes it fail.

Merging two valid configs can give an invalid one: a broker whose family was deleted elsewhere, families that fall back
on each other in a circle. So nothing is rejected here. What cannot be used is ignored, with a warning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from famulus.core.config import schema
from famulus.core.config.choice import choose
from famulus.core.config.edit import SignedEdit
from famulus.core.config.edit_set import EditSet
from famulus.core.config.schema import (
    Admin,
    Broker,
    BrokerState,
    Family,
    Principal,
    Revoked,
    Service,
    State,
    TrustedKey,
    Worker,
)
from famulus.core.delivery import ServicePolicy
from famulus.core.objective import Objective

#: How many of the edits that do not count are listed.
VOID_TOLD_MAX: Final = 50


class Head(Struct, frozen=True):
    """One side of a conflict. Its value and author are in the edit set: not everybody may see them."""

    id: str
    op: Literal["PUT", "DEL"]
    broker: str
    hlc: int


class Conflict(Struct, frozen=True):
    """It lasts until an edit names all heads as its parents."""

    key: str
    #: The id of the head that counts in the meantime.
    chosen: str
    heads: tuple[Head, ...]


class Notice(Struct, frozen=True):
    """A warning about a key."""

    key: str
    sentence: str


class Effective(Struct, frozen=True):
    version: int
    digest: str
    families: dict[str, Family] = {}
    brokers: dict[str, Broker] = {}
    #: The state of each broker.
    broker_states: dict[str, State] = {}
    workers: dict[str, Worker] = {}
    services: dict[str, ServicePolicy] = {}
    #: The family that each service belongs to; services that belong to none are not listed.
    service_owners: dict[str, str] = {}
    #: Of the services that have one.
    objectives: dict[str, Objective] = {}
    #: By family, then by name.
    admins: dict[str, dict[str, Admin]] = {}
    principals: dict[str, Principal] = {}
    #: Public keys of brokers that may join without the secret.
    trusted_keys: dict[str, TrustedKey] = {}
    #: Brokers that were forgotten, by the names of their keys in the config.
    revoked: dict[str, Revoked] = {}
    conflicts: tuple[Conflict, ...] = ()
    warnings: tuple[Notice, ...] = ()

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self, order="deterministic")

    def family(self, name: str) -> Family:
        """Its settings; the defaults if the family is unknown."""
        return self.families.get(name) or Family()

    def fallback_order(self, family: str) -> list[str]:
        """The families that stand in for this one, nearest first. A circle ends where it began."""
        visited = {family: None}
        waiting = deque([family])
        while waiting:
            for name in self.family(waiting.popleft()).fallback_families:
                if name in self.families and name not in visited:
                    visited[name] = None
                    waiting.append(name)
        return list(visited)[1:]

    def fallbacks_of(self, identity: str) -> list[str]:
        """The families that stand in for the broker's own: those that the broker names, or else its family's."""
        broker = self.brokers[identity]
        if broker.fallback_families is None:
            return self.fallback_order(broker.family)
        others = (name for name in dict.fromkeys(broker.fallback_families) if name != broker.family)
        return [name for name in others if name in self.families]

    def are_peers(self, one: str, other: str) -> bool:
        """Whether these brokers talk to each other: neither leaves the other out."""
        return one != other and self.brokers[one].names(other) and self.brokers[other].names(one)

    def error_workers(self, identity: str) -> dict[str, tuple[str, ...]]:
        """The workers that this broker should ignore, by the keys that say so: its family's, and its own."""
        broker = self.brokers.get(identity)
        if broker is None:
            return {}
        of_family = self.family(broker.family).error_workers
        return {f"family/{broker.family}": of_family, f"broker/{identity}": broker.error_workers}

    def drained_workers(self, identity: str) -> list[str]:
        """Those that this broker should give no more tasks."""
        broker = self.brokers.get(identity)
        family = broker.family if broker is not None else ""
        return sorted(name for name, each in self.workers.items() if (each.family, each.state) == (family, "drained"))

    def public_view(self) -> dict[str, Any]:
        """For anybody who looks at the broker over HTTP: all but the admins, about whom nothing leaves the brokers."""
        shown = {name: msgspec.to_builtins(getattr(self, name)) for name in _PUBLIC_FIELDS}
        shown["conflicts"] = [msgspec.to_builtins(each) for each in self.conflicts if _is_public(each.key)]
        shown["warnings"] = [msgspec.to_builtins(each) for each in self.warnings if _is_public(each.key)]
        return shown


_PUBLIC_FIELDS: Final = (
    "version", "digest", "families", "brokers", "broker_states", "workers", "services", "service_owners", "objectives"
)  # fmt: skip


def effective(edits: EditSet) -> Effective:
    keys = edits.keys()
    void = [(signed, why) for each, why in sorted(edits.void.items()) if (signed := edits.get(each)) is not None]
    revoked = frozenset(edits.revocations.kept)
    return from_heads(edits.version, edits.digest, {key: edits.heads(key) for key in keys}, revoked, void)


def from_heads(
    version: int,
    digest: str,
    heads: Mapping[str, Sequence[SignedEdit]],
    revoked_keys: frozenset[str] = frozenset(),
    void: Sequence[tuple[SignedEdit, str]] = (),
) -> Effective:
    """What these heads, at least one for each key, amount to; leaves out brokers whose keys were revoked."""
    reading = _Builder(Effective(version, digest), revoked_keys)
    for key in sorted(heads):
        reading.take(key, heads[key])
    reading.tell_of_void(void)
    return reading.result()


class _Builder:
    """The effective config while it is being built."""

    def __init__(self, config: Effective, revoked_keys: frozenset[str]) -> None:
        """`config` is empty, and is filled with what the heads say."""
        self._config = config
        self._revoked_keys = revoked_keys
        #: Includes brokers that do not exist.
        self._states: dict[str, State] = {}
        #: Brokers whose state was set to something that we understand.
        self._wishes: list[str] = []
        self._conflicts: list[Conflict] = []
        self._warnings: list[Notice] = []

    def take(self, key: str, heads: Sequence[SignedEdit]) -> None:
        chosen = choose(heads)
        if len(heads) > 1:
            self._conflicts.append(Conflict(key, chosen.id, tuple(_head(signed) for signed in heads)))
        about = schema.subject(key)
        if about.kind == "broker_state":
            # A state that was deleted, or that cannot be understood, must not allow more than one that was set.
            self._states[about.name] = "disabled"
        if chosen.edit.op == "DEL":
            return
        view = schema.read(about, chosen.edit.value)
        self._warnings += [Notice(key, warning) for warning in view.warnings]
        value = _least(about, view.value, heads) if about.kind == "principal" else view.value
        if value is not None:
            self._put(about, value)

    def _put(self, about: schema.Subject, value: schema.Value) -> None:
        config = self._config
        match value:
            case Family():
                config.families[about.name] = value
            case Broker():
                if value.public_key in self._revoked_keys:
                    self._flag(f"broker/{about.name}", "its key was revoked when it was forgotten; it needs a new one")
                else:
                    config.brokers[about.name] = value
            case Revoked():
                config.revoked[about.name] = value
            case BrokerState():
                self._states[about.name] = value.state
                self._wishes.append(about.name)
            case Worker():
                config.workers[about.name] = value
            case Service():
                config.services[about.name] = value.rules()
                if value.objective is not None:
                    config.objectives[about.name] = value.objective
                if value.owner:
                    config.service_owners[about.name] = schema.named_family(value.owner)
            case Admin():
                config.admins.setdefault(about.family, {})[about.name] = value
            case Principal():
                config.principals[about.name] = value
            case TrustedKey():
                config.trusted_keys[about.name] = value

    def tell_of_void(self, void: Sequence[tuple[SignedEdit, str]]) -> None:
        for signed, why in void[:VOID_TOLD_MAX]:
            sentence = f"edit {signed.id[:8]} at broker {signed.edit.broker!r} does not count: {why}"
            self._flag(signed.edit.key, sentence)
        if len(void) > VOID_TOLD_MAX:
            more = len(void) - VOID_TOLD_MAX
            self._flag(void[VOID_TOLD_MAX][0].edit.key, f"and {more} more edits do not count")

    def result(self) -> Effective:
        for key, name, known, what in self._mentions():
            if name not in known:
                self._flag(key, f"there is no {what.format(repr(name))}")
        self._flag_islands()
        # If nobody has said anything about a new broker's state, whoever made it known wants it to serve.
        states = {identity: self._states.get(identity, "active") for identity in self._config.brokers}
        found = {"conflicts": tuple(self._conflicts), "warnings": tuple(self._warnings)}
        return replace(self._config, broker_states=states, **found)

    def _mentions(self) -> Iterator[tuple[str, str, Collection[str], str]]:
        """Where a key names a family or a broker: the key, that name, the ones that exist, and what it should be."""
        families, brokers = self._config.families, self._config.brokers
        for identity, broker in brokers.items():
            yield f"broker/{identity}", broker.family, families, "family {}: it belongs to none"
            for other in broker.fallback_families or ():
                yield f"broker/{identity}", other, families, "family {} to fall back on"
            for other in broker.peers if broker.peers != "all" else ():
                yield f"broker/{identity}", other, brokers, "broker {} to be its peer"
        for identity in self._wishes:
            yield f"broker_state/{identity}", identity, brokers, "broker {}"
        for name, family in families.items():
            for other in family.fallback_families:
                yield f"family/{name}", other, families, "family {} to fall back on"
            for other in sorted({*family.preferred_brokers.values(), *family.preferred_brokers_of_services.values()}):
                there = other in brokers and brokers[other].family == name
                yield f"family/{name}", other, {other} if there else (), "broker {} in it to be preferred"
        for name, worker in self._config.workers.items():
            yield f"worker/{name}", worker.family, families, "family {}: no broker does what it says"
        for service, owner in self._config.service_owners.items():
            yield f"service/{service}", owner, families, "family {} to own it"
        for key, trusted in self._config.trusted_keys.items():
            yield f"trusted_key/{key}", trusted.family, families, "family {}"
        for name, principal in self._config.principals.items():
            for other in principal.families:
                yield f"principal/{name}", other, families, "family {}"
        for name, admins in self._config.admins.items():
            for admin in admins:
                yield f"admin/{name}/{admin}", name, families, "family {}"

    def _flag_islands(self) -> None:
        """Brokers that no chain of peers leads to would never hear of an edit that is made elsewhere."""
        config = self._config
        if all(broker.peers == "all" for broker in config.brokers.values()):
            return
        waiting = deque(sorted(config.brokers)[:1])
        reached = set(waiting)
        while waiting:
            one = waiting.popleft()
            near = [other for other in config.brokers if other not in reached and config.are_peers(one, other)]
            reached.update(near)
            waiting.extend(near)
        for identity in sorted(config.brokers.keys() - reached):
            self._flag(f"broker/{identity}", "no chain of peers connects it with the other brokers")

    def _flag(self, key: str, sentence: str) -> None:
        self._warnings.append(Notice(key, sentence))


def _least(about: schema.Subject, value: schema.Value | None, heads: Sequence[SignedEdit]) -> Principal | None:
    """What all heads of a principal allow: nothing, if one of them deletes it or cannot be understood."""
    for signed in heads:
        other = schema.read(about, signed.edit.value).value if signed.edit.op == "PUT" else None
        if not isinstance(value, Principal) or not isinstance(other, Principal):
            return None
        value = value.at_least(other)
    return value if isinstance(value, Principal) else None


def _head(signed: SignedEdit) -> Head:
    edit = signed.edit
    return Head(signed.id, edit.op, edit.broker, edit.hlc)


def _is_public(key: str) -> bool:
    return not key.startswith(("admin/", "principal/", "trusted_key/"))
