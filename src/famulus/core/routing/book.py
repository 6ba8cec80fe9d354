"""What a router knows besides the message: the effective configuration of its broker, ready to use."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import msgspec

from famulus.core.delivery import ServicePolicy


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    identity: str
    family: str
    frontend: str
    backend: str


@dataclass(frozen=True)
class Book:
    broker: BrokerAddress
    heartbeat_ms: int
    services: dict[str, ServicePolicy] = field(default_factory=dict)
    default_policy: ServicePolicy = field(default_factory=ServicePolicy)
    #: For people; the digest decides.
    version: int = 1
    #: Moves on with every configuration that the routers learn of; whatever was decided before is void then.
    epoch: int = 1

    @property
    def family_config(self) -> dict[str, object]:
        """What a worker needs to know of its family. Admins are not among it."""
        broker = {
            "identity": self.broker.identity,
            "frontend": self.broker.frontend,
            "backend": self.broker.backend,
            "services": sorted(self.services),
        }
        return {"name": self.broker.family, "brokers": [broker]}

    def digest(self) -> str:
        """A hash over all that a worker could notice: equal digests mean equal worker configs."""
        facts = [self.family_config, self.broker.identity, self.heartbeat_ms]
        return hashlib.sha256(msgspec.json.encode(facts, order="deterministic")).hexdigest()

    def worker_config(self, identity: str, services: list[str]) -> bytes:
        return msgspec.json.encode(
            {
                "identity": identity,
                "services": services,
                "family_config": self.family_config,
                "preferred_broker": self.broker.identity,
            }
        )

    def brokers(self) -> bytes:
        """The answer to NEEDBROKER: brokers that can serve the asker, best first. Alone, it is this one."""
        broker = {
            "identity": self.broker.identity,
            "frontend": self.broker.frontend,
            "backend": self.broker.backend,
            "family": self.broker.family,
            "load": 0.0,
        }
        return msgspec.json.encode({"brokers": [broker]})
