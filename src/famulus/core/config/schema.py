"""What the values of the known keys mean. Reading never fails: it gives a value, or says in words why there is none.

| key                        | value                                                                        |
|----------------------------|------------------------------------------------------------------------------|
| `family/<name>`            | `Family`: where its tasks go when it cannot serve them, and its defaults     |
| `broker/<identity>`        | `Broker`: where it is, what it serves, and its public key                    |
| `broker_state/<identity>`  | `BrokerState`: what an admin wants of it                                     |
| `worker/<identity>`        | `Worker`: what an admin wants of it, and of which family it is                |
| `service/<name>`           | `Service`: what holds for its tasks, and which family it belongs to          |
| `admin/<family>/<name>`    | `Admin`: its public key. The name has no slash, the family may               |
| `principal/<name>`         | `Principal`: who may connect, by which keys, and what it may call and serve  |
| `trusted_key/<public key>` | `TrustedKey`: a broker with this key may join without the secret             |
| `revoked/<public key>/<n>` | `Revoked`: a broker that was forgotten, and which of its edits still count   |

Other keys and other fields may come from a newer version of Famulus: they are kept in their edits and ignored here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from famulus.core.delivery import CHOICES, DeclaredService, ServicePolicy
from famulus.core.objective import Objective
from famulus.core.rights import common
from famulus.wire import limits

State = Literal["active", "joining", "draining", "disabled"]
#: From the least restrictive to the most.
STATES: Final[tuple[State, ...]] = ("active", "joining", "draining", "disabled")

#: In a network; a broker on its own has another default.
DEFAULT_FAMILY: Final = "main"

_NAMES_SHOWN: Final = 5
_CHARS_SHOWN: Final = 40

_Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS_MAX, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
_Names = Annotated[tuple[_Name, ...], Meta(max_length=1000)]
_Homes = Annotated[dict[_Name, _Name], Meta(max_length=1000)]
_Port = Annotated[int, Meta(ge=1, le=65535)]
_Heartbeat = Annotated[int, Meta(ge=10, le=limits.HEARTBEAT_MS_MAX)]
_Key = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
#: Names of services, or how they begin, with a star at the end.
_Patterns = Annotated[tuple[_Name, ...], Meta(max_length=1000)]
_Limit = Annotated[int, Meta(ge=0, le=limits.INTEGER_MAX)]
#: Also part of other names: see `famulus.core.dispatch.sessions`.
_PRINCIPAL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")


#: Who needs a key to connect to a broker: nobody, those from other machines, or everybody.
Keys = Literal["none", "remote", "all"]


class Family(Struct, frozen=True):
    #: Best first.
    fallback_families: _Names = ()
    heartbeat_ms: _Heartbeat = 1000
    drain_ms: Annotated[int, Meta(ge=0, le=limits.TIMEOUT_MS_MAX)] = 30_000
    #: What applies to services that have no key of their own.
    default_service: ServicePolicy = ServicePolicy()
    #: Identities of workers that none of its brokers accepts.
    error_workers: _Names = ()
    #: The preferred broker of each worker, by identity; and of each service, for workers that are not listed.
    preferred_brokers: _Homes = {}
    preferred_brokers_of_services: _Homes = {}
    #: What holds for the ports of its brokers. Networks that were made before there were keys have none.
    keys: Keys = "none"


class Broker(Struct, frozen=True):
    family: _Name
    #: How others reach it.
    host: _Name
    public_key: Annotated[str, Meta(min_length=1, max_length=4096)]
    frontend_port: _Port = 7100
    backend_port: _Port = 7101
    config_pub_port: _Port = 7102
    peer_port: _Port = 7103
    #: The services whose tasks and workers it takes.
    services: _Names | Literal["all"] = "all"
    #: The brokers that it exchanges letters and tasks with, if they do not leave it out either.
    peers: _Names | Literal["all"] = "all"
    #: More ports on its own host where it hears news of the config, besides those of its peers.
    config_sub_ports: Annotated[tuple[_Port, ...], Meta(max_length=100)] = ()
    #: In milliseconds; if absent, the family's `heartbeat_ms` applies.
    default_heartbeat_interval: _Heartbeat | None = None
    #: Replaces the family's, for this broker.
    fallback_families: _Names | None = None
    #: Like a family's, but for this broker alone.
    error_workers: _Names = ()

    def serves(self, service: str) -> bool:
        return self.services == "all" or service in self.services

    def names(self, other: str) -> bool:
        """Whether this broker, for its part, would have that one as a peer."""
        return self.peers == "all" or other in self.peers


class BrokerState(Struct, frozen=True):
    state: State


class Worker(Struct, frozen=True):
    #: Whose brokers do what it says, and whose admins may change it.
    family: _Name
    #: A drained one stays connected and answers what it has, but gets no more tasks.
    state: Literal["active", "drained"] = "active"


class Service(DeclaredService, frozen=True):
    #: The family whose admins alone may change it; if empty, any admin may.
    owner: Annotated[str, Meta(max_length=limits.NAME_CHARS_MAX)] = ""


class Admin(Struct, frozen=True):
    #: How the admin's key is derived from the password; or, in networks without proofs, the hash of the password.
    hash: Annotated[str, Meta(min_length=1, max_length=4096)]
    #: Of the key with which the admin proves that an edit is its own; empty if there is none.
    public_key: Annotated[str, Meta(max_length=4096)] = ""


class Principal(Struct, frozen=True):
    #: Of its connections: two while one takes the place of the other.
    public_keys: Annotated[tuple[_Key, ...], Meta(min_length=1, max_length=2)]
    #: Whose brokers let it in, and whose admins may change it.
    families: Annotated[tuple[_Name, ...], Meta(min_length=1, max_length=100)]
    call: _Patterns = ()
    serve: _Patterns = ()
    #: Wall-clock time in milliseconds; 0: never.
    expires_ms: _Limit = 0
    #: At each broker; 0: no limit.
    open_tasks_max: _Limit = 0
    tasks_per_s: _Limit = 0

    def at_least(self, other: Principal) -> Principal:
        """What both of these allow."""
        return Principal(
            tuple(key for key in self.public_keys if key in other.public_keys),
            tuple(family for family in self.families if family in other.families),
            common(self.call, other.call),
            common(self.serve, other.serve),
            _lower(self.expires_ms, other.expires_ms),
            _lower(self.open_tasks_max, other.open_tasks_max),
            _lower(self.tasks_per_s, other.tasks_per_s),
        )


class TrustedKey(Struct, frozen=True):
    #: The family that the new broker joins.
    family: _Name
    #: The only name that it may take; if empty, any that is free.
    identity: Annotated[str, Meta(max_length=limits.NAME_CHARS_MAX)] = ""


class Revoked(Struct, frozen=True):
    identity: _Name
    family: _Name
    #: The beginnings of the ids of its edits that were known when it was forgotten.
    kept: tuple[str, ...] = ()


Value = Family | Broker | BrokerState | Worker | Service | Admin | Principal | TrustedKey | Revoked

KINDS: Final[dict[str, type[Value]]] = {
    "family": Family,
    "broker": Broker,
    "broker_state": BrokerState,
    "worker": Worker,
    "service": Service,
    "admin": Admin,
    "principal": Principal,
    "trusted_key": TrustedKey,
    "revoked": Revoked,
}


#: For kinds whose values name the family that they belong to: the field that does.
OWNED: Final = {
    "broker": "family", "worker": "family", "trusted_key": "family", "revoked": "family", "service": "owner"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Subject:
    """What a key is about. A key that is not known has no kind."""

    kind: str = ""
    name: str = ""
    #: Only for an admin.
    family: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """The meaning of a value, or None; and what is wrong with it."""

    value: Value | None = None
    warnings: tuple[str, ...] = ()


def subject(key: str) -> Subject:
    kind, _, name = key.partition("/")
    family = ""
    if kind == "admin":
        family, _, name = name.rpartition("/")
    known = kind in KINDS and _is_name(name) and (kind != "admin" or _is_name(family))
    if kind == "principal":
        known = known and _PRINCIPAL.fullmatch(name) is not None
    return Subject(kind, name, family) if known else Subject()


def read(about: Subject, value: Any) -> View:
    """What a PUT of this value means for the subject of its key."""
    if not about.kind:
        return View(warnings=("no such key is known; it is ignored",))
    if not isinstance(value, dict):
        return View(warnings=("not an object; it is ignored",))
    kind = KINDS[about.kind]
    known, unknown = _split(value, kind)
    warnings = (f"{_listed(unknown)} unknown and ignored",) if unknown else ()
    try:
        return View(msgspec.convert(known, kind), warnings)
    except msgspec.ValidationError as error:
        words = CHOICES.get(str(error).rpartition(".")[2].rstrip("`"))
        hint = f" ({words})" if words else ""
        return View(warnings=(*warnings, f"cannot be understood and is ignored: {error}{hint}"))


def named_family(family: str) -> str:
    """A blank name means the default family."""
    return family if family.strip() else DEFAULT_FAMILY


def owner_in(kind: str, value: Any) -> str:
    """The family that something belongs to, according to its value; empty if none."""
    family = value.get(OWNED[kind]) if isinstance(value, dict) else None
    if not isinstance(family, str) or (kind == "service" and not family):
        return ""
    return named_family(family)


def families_in(value: Any) -> set[str]:
    """The families that a principal belongs to, according to its value."""
    families = value.get("families") if isinstance(value, dict) else None
    return {each for each in families if isinstance(each, str)} if isinstance(families, list | tuple) else set()


def _lower(one: int, other: int) -> int:
    """The lower limit; 0 is none."""
    return min(one, other) if one and other else one or other


#: Fields whose own fields are looked at one by one, as those of a value are.
_INNER: Final[dict[type[Struct], dict[str, type[Struct]]]] = {
    Family: {"default_service": ServicePolicy},
    Service: {"objective": Objective},
}


def _split(value: dict[str, Any], kind: type[Struct]) -> tuple[dict[str, Any], list[str]]:
    """The fields that are known, and the names of those that are not."""
    inner = _INNER.get(kind, {})
    known: dict[str, Any] = {}
    unknown: list[str] = []
    for name, each in value.items():
        if name not in kind.__struct_fields__:
            unknown.append(name)
        elif name in inner and isinstance(each, dict):
            known[name], others = _split(each, inner[name])
            unknown += [f"{name}.{other}" for other in others]
        else:
            known[name] = named_family(each) if name == "family" and isinstance(each, str) else each
    return known, unknown


def _listed(names: list[str]) -> str:
    """Only some of them: whoever wrote the value decided how many there are, and how long they are."""
    shown = ", ".join(repr(name[:_CHARS_SHOWN]) for name in sorted(names)[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    if more > 0:
        return f"the fields {shown} and {more} more are"
    return f"the field {shown} is" if len(names) == 1 else f"the fields {shown} are"


def _is_name(text: str) -> bool:
    return 0 < len(text) <= limits.NAME_CHARS_MAX
