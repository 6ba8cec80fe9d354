"""People who edit the config: at any broker, at the same time, some after a long look at what is no longer there."""

from __future__ import annotations

from random import Random
from typing import Any, Protocol

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.config.draft import Draft, Moved, parents_for, resolve, rollback
from famulus.core.config.edit import SignedEdit
from famulus.lab.sim.config.pen import broker_value
from famulus.lab.sim.config.steward import Steward
from famulus.lab.sim.world import World


class Network(Protocol):
    """What admins see of it, and can do in it."""

    world: World
    stewards: dict[str, Steward]
    healed: bool

    def somebody(self) -> Steward | None: ...

    def submit(self, steward: Steward, draft: Draft, author: str) -> SignedEdit | Moved | None: ...


class Admin:
    def __init__(self, network: Network, name: str) -> None:
        self.network = network
        self.name = name
        self.random = Random(f"{network.world.seed}/{name}")

    def look(self, key: str) -> None:
        """See what a key is now, think for a while, and say at some broker what it shall be."""
        steward = self.network.somebody()
        if steward is None:
            return
        draft = self._draft(steward, key)
        # Mostly at the same broker, where nobody else was quicker; else at one that may know more or less.
        elsewhere = self.random.random() < 0.2
        thought_ns = self.random.randrange(NS_PER_S if elsewhere else 20 * NS_PER_MS)
        self.network.world.clock.after(thought_ns, lambda: self._submit(None if elsewhere else steward, draft))

    def _submit(self, steward: Steward | None, draft: Draft) -> None:
        there = steward or self.network.somebody()
        # In the ages after the first one nobody edits but the peacemaker.
        if there is None or not there.alive or self.network.healed:
            return
        answer = self.network.submit(there, draft, self.name)
        if isinstance(answer, Moved) and self.random.random() < 0.8:
            self.network.submit(there, self._draft(there, draft.key), self.name)

    def _draft(self, steward: Steward, key: str) -> Draft:
        edits = steward.edits
        heads = edits.heads(key)
        # Nobody wants back what never counted.
        past = [signed for signed in edits.history(key) if signed.id not in edits.void]
        chance = self.random.random()
        if len(heads) > 1 and chance < 0.4:
            return resolve(edits, key, self.random.choice(heads).id)
        if heads and chance < 0.5:
            return rollback(edits, key, self.random.choice(past).id)
        if heads and chance < 0.65 and not key.startswith("broker/"):
            return Draft(key, "DEL", None, parents_for(edits, key))
        return Draft(key, "PUT", self._value(key), parents_for(edits, key))

    def resolve_all(self, steward: Steward) -> None:
        """A wise admin, when everybody can talk again."""
        for conflict in steward.read().conflicts:
            self.network.submit(steward, resolve(steward.edits, conflict.key, conflict.chosen), self.name)

    def _value(self, key: str) -> Any:
        random = self.random
        kind, _, name = key.partition("/")
        match kind:
            case "family":
                return {
                    "fallback_families": random.sample(["a", "b", "nobody"], 2),
                    "heartbeat_ms": random.choice([500, 900]),
                }
            case "broker":
                return broker_value(self.network.stewards[name].pen, family=random.choice(["a", "b", "nobody"]))
            case "broker_state":
                return {"state": random.choice(["joining", "active", "disabled", "draining", "asleep"])}
            case "service":
                return {"max_attempts": random.randint(0, 5)}
            case "admin":
                return {"hash": f"{random.getrandbits(32):x}"}
        return random.choice([None, True, 1.5, "text", [1, [2]], {"any": {"thing": 1}}])
