"""What a router knows besides the message: the effective configuration of its broker, ready to use."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec

from famulus.core.config.schema import State
from famulus.core.delivery import ServicePolicy
from famulus.core.rights import Rights


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    identity: str
    family: str
    frontend: str
    backend: str
    #: The services whose tasks and workers it takes; None means all.
    services: tuple[str, ...] | None = None
    #: Of its connections, for those who have keys; empty if it wants none.
    public_key: str = ""
    #: For one that can stand in for others: 0 means nothing to do, 1 no free slot, more that tasks are waiting.
    load: float = 0.0

    def serves_any(self, services: Sequence[str]) -> bool:
        """Whether it is of use to somebody who wants or offers these; it is if no services are named."""
        return self.services is None or not services or any(each in self.services for each in services)

    def count_served(self, services: Sequence[str]) -> int:
        return len(services) if self.services is None else sum(each in self.services for each in services)


@dataclass(frozen=True)
class Book:
    broker: BrokerAddress
    heartbeat_ms: int
    services: dict[str, ServicePolicy] = field(default_factory=dict)
    default_policy: ServicePolicy = field(default_factory=ServicePolicy)
    #: For people; comparisons use the digest.
    version: int = 1
    #: Increases with every configuration that the routers learn of; whatever was decided before is then void.
    epoch: int = 1
    #: What this broker may do: only an active one takes tasks and workers.
    state: State = "active"
    #: All other brokers of the family, alive or not: a worker that loses this one tries them.
    family: tuple[BrokerAddress, ...] = ()
    #: Likewise the brokers of the families that this one falls back on, in order.
    fallback: tuple[BrokerAddress, ...] = ()
    #: The brokers that admins prefer for workers, by identity, and for workers of a service.
    preferred_of_workers: dict[str, str] = field(default_factory=dict)
    preferred_of_services: dict[str, str] = field(default_factory=dict)
    #: Brokers that are alive and active, of this family and then of its fallback families, best first.
    others: tuple[BrokerAddress, ...] = ()
    #: What principals may do; None where the ports have no keys, and everybody may do anything.
    rights: dict[str, Rights] | None = None

    # -- what workers may see: this, and nothing else -----------------------------------------------------------

    def family_config(self, services: Sequence[str] = ()) -> dict[str, object]:
        """What a worker of these services needs to know about its family. This does not include admins."""
        members = sorted((self.broker, *self.family), key=lambda broker: broker.identity)
        return {
            "name": self.broker.family,
            "brokers": [_told(broker) for broker in members if broker.serves_any(services)],
            "fallback": [
                {**_told(broker), "family": broker.family} for broker in self.fallback if broker.serves_any(services)
            ],
        }

    def digest(self) -> str:
        """A hash over everything that goes into the configs of workers, except the worker's own name and services."""
        wishes = [self.preferred_of_workers, self.preferred_of_services]
        facts = [self.family_config(), self.broker.identity, self.heartbeat_ms, wishes]
        return hashlib.sha256(msgspec.json.encode(facts, order="deterministic")).hexdigest()

    def worker_config(self, identity: str, services: list[str]) -> bytes:
        wished = self._wished_broker(identity, services)
        return msgspec.json.encode(
            {
                "identity": identity,
                "services": services,
                "family_config": self.family_config(services),
                "preferred_broker": wished or self.broker.identity,
                "preferred_by_admin": bool(wished),
            }
        )

    def _wished_broker(self, identity: str, services: Sequence[str]) -> str:
        """The broker that an admin prefers for this worker, by its name or else by the first of its services.

        Empty if there is none, or none in this family that would take it.
        """
        wishes = [self.preferred_of_workers.get(identity), *map(self.preferred_of_services.get, services)]
        there = {broker.identity for broker in (self.broker, *self.family) if broker.serves_any(services)}
        return next((wish for wish in wishes if wish in there), None) or ""

    def brokers(self, services: Sequence[str] = (), load: float = 0.0) -> bytes:
        """The answer to NEEDBROKER: brokers that can help somebody with these services, best first.

        `load` is that of this broker.
        """
        here = [replace(self.broker, load=load)] if self.state == "active" else []
        useful = [other for other in (*here, *self.others) if other.serves_any(services)]
        # Those that serve most of the services come first; among equals, the order stays.
        useful.sort(key=lambda other: -other.count_served(services))
        brokers = [
            {
                "identity": other.identity,
                "frontend": other.frontend,
                "backend": other.backend,
                "family": other.family,
                "load": round(other.load, 3),
                **_key_of(other),
            }
            for other in useful
        ]
        return msgspec.json.encode({"brokers": brokers})

    def where_else(self, services: Sequence[str]) -> list[str]:
        """Brokers that are there and serve one of these services, which this one does not."""
        return [other.identity for other in self.others if other.serves_any(services)]


def _told(broker: BrokerAddress) -> dict[str, object]:
    return {
        "identity": broker.identity,
        "frontend": broker.frontend,
        "backend": broker.backend,
        "services": "all" if broker.services is None else list(broker.services),
        **_key_of(broker),
    }


def _key_of(broker: BrokerAddress) -> dict[str, str]:
    return {"public_key": broker.public_key} if broker.public_key else {}
