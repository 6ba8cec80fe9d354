"""`famulus bench policy`: what the policies of a service make of one worker that is slower than the others.

Eight workers, one of them ten times slower, and an open loop that asks for 60 % of what they can do. Each policy has a
broker of its own, and they take turns. Beside that: how many keys stay with their workers when one of these leaves.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from famulus import Client
from famulus.errors import BenchFailed
from famulus.lab.bench.buckets import PERCENTILES
from famulus.lab.bench.figures import Figures, Progress, in_turn
from famulus.lab.bench.fleet import Broker, Crew, Member
from famulus.lab.bench.load import OfferedLoad, start
from famulus.lab.bench.uneven import SERVICE, Uneven
from famulus.wire.inner import POLICIES

#: Of the load, where the policy is `key`; and of those that are asked one by one, before and after a worker leaves.
KEYS = 1000
BODY_BYTES = 100
TIMEOUT_MS = 30_000
#: For a worker that leaves to be known to its broker.
LEFT_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Plan:
    workers: int = 8
    slots: int = 8
    work_ms: float = 10.0
    #: How many times as long one of them takes.
    slower: float = 10.0
    #: Offered, as a share of what all of them can do.
    load: float = 0.6
    #: Whether a worker does one task after the other, or as many at once as it has slots.
    one_by_one: bool = True
    seconds: float = 10.0
    warm_up_s: float = 5.0
    rounds: int = 3

    @property
    def per_s(self) -> float:
        """Tasks per second that are offered."""
        at_once = 1 if self.one_by_one else self.slots
        return self.load * (self.workers - 1 + 1 / self.slower) * at_once * 1000 / self.work_ms

    def crowd(self, numbers: range, *, work_ms: float) -> Uneven:
        names = [f"worker-{number}" for number in numbers]
        return Uneven(names, self.slots, work_ms, self.slower if 0 in numbers else 1.0, self.one_by_one)


def measure(plan: Plan, tell: Callable[[str], None], progress: Progress) -> dict[str, Any]:
    seen = in_turn(POLICIES, plan.rounds, partial(one_round, plan), progress)
    tell(f"{KEYS:,} keys, before and after one of {plan.workers} workers leaves")
    return {**summary(seen), **keys_that_stay(plan)}


def summary(seen: dict[str, Any]) -> dict[str, Any]:
    p99s = {policy: medians["p99_ms"] for policy, medians in seen["medians"].items()}
    return {"p99_ratios": {policy: p99 / p99s["lru"] for policy, p99 in p99s.items()}, **seen}


def one_round(plan: Plan, policy: str) -> Figures:
    keys = KEYS if policy == "key" else 0
    offer = OfferedLoad(plan.per_s, plan.seconds, plan.warm_up_s, BODY_BYTES, TIMEOUT_MS, SERVICE, keys=keys)
    with Crew() as crew:
        broker = _broker(crew, policy)
        _workers(crew, broker, plan.crowd(range(plan.workers), work_ms=plan.work_ms))
        seen = start(crew, broker.frontend, offer)()
    ok = seen.latency("OK")
    figures = {f"{name}_ms": ok.percentile(PERCENTILES[name]) / 1e6 for name in ("p50", "p99", "p99.9")}
    return {**figures, "per_s": len(ok) / plan.seconds, "not_ok": seen.offered - len(ok)}


def keys_that_stay(plan: Plan) -> dict[str, float]:
    """Of the keys whose worker stayed, the share that is still there when another one has left; of all, those moved."""
    with Crew() as crew:
        broker = _broker(crew, "key")
        leaver = _workers(crew, broker, plan.crowd(range(plan.workers - 1, plan.workers), work_ms=0.0))
        _workers(crew, broker, plan.crowd(range(1, plan.workers - 1), work_ms=0.0))
        _workers(crew, broker, plan.crowd(range(1), work_ms=0.0))
        with Client(broker.frontend) as client:
            before = _homes(client)
            leaver.stop()
            gone = f"worker-{plan.workers - 1}"
            until = time.monotonic() + LEFT_WITHIN_S
            while gone in (after := _homes(client)).values():
                if time.monotonic() > until:
                    raise BenchFailed(f"{gone} has left, and its broker does not know it")
    staying = [key for key, home in before.items() if home != gone]
    kept = sum(after[key] == before[key] for key in staying)
    return {"keys_kept": kept / len(staying), "keys_moved": sum(after[key] != before[key] for key in before) / KEYS}


def _homes(client: Client) -> dict[str, str]:
    """Which worker each key has: they are asked one by one, so that all workers have room."""
    keys = [f"key-{number}" for number in range(KEYS)]
    return {key: client.request(SERVICE, key=key, at_least_once=True).decode() for key in keys}


def _broker(crew: Crew, policy: str) -> Broker:
    config: Path = crew.folder() / "broker.toml"
    config.write_text(f'[services.{SERVICE}]\npolicy = "{policy}"\ndelivery = "at_least_once"\n')
    return crew.broker("--config", str(config))


def _workers(crew: Crew, broker: Broker, plan: Uneven) -> Member:
    crowd = crew.part("workers", "uneven", broker.backend, msgspec.json.encode(plan).decode(), stderr=True)
    ready = crowd.wait_until(r"^(\d+) workers are ready")
    if int(ready[1]) != len(plan.names):
        raise BenchFailed(f"only {ready[1]} of {len(plan.names)} workers are ready")
    return crowd
