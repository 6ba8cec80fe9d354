"""`famulus bench overload`: beyond saturation, goodput must hold, the rest be rejected quickly, memory stay flat.

A worker has a fixed number of slots and sleeps for a fixed time per task, so its capacity is known and far below
what the broker can carry: what is measured is how the broker behaves when the workers are the bottleneck. All settings
are the defaults, and each time-out is a load of its own: how long a task may wait is what decides whether it ends well.

Next to it, at the same broker and at the same time, a second worker of the same kind is kept just busy: what it
achieves is the saturation. So a machine that is slow for a while slows both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from famulus.lab.bench.buckets import PERCENTILES
from famulus.lab.bench.fleet import Broker, Crew
from famulus.lab.bench.load import OfferedLoad, Seen, start
from famulus.lab.bench.memory import MemoryWatch
from famulus.lab.processes import rss_kib

#: Of the closed loop, whose tasks wait for no more than a few others.
CLOSED_TIMEOUT_MS = 60_000
BODY_BYTES = 100
#: The backlog of an open loop grows for as long as its tasks may wait, but not for ever.
WARM_UP_S_MAX = 10.0
#: Until a slot has done this many tasks, the broker does not know how long they take.
TASKS_TO_LEARN = 4
#: A measurement lasts at least this many tasks of a slot, or half a task would show.
TASKS_OF_A_SLOT = 10


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    work_ms: float
    slots: int
    timeouts_s: tuple[float, ...]

    @property
    def capacity_per_s(self) -> float:
        return self.slots * 1000 / self.work_ms


@dataclass(frozen=True, slots=True)
class Plan:
    seconds: float
    factor: float
    services: tuple[Service, ...]


def measure(plan: Plan, tell: Callable[[str], None]) -> dict[str, object]:
    with Crew() as crew:
        broker = crew.broker()
        dispatcher = broker.member.parts()["dispatcher"]
        with MemoryWatch(lambda: rss_kib(dispatcher), every_s=0.1) as memory:
            loads = [load for service in plan.services for load in _loads(plan, service, crew, broker, tell)]
    return {
        "loads": loads,
        "goodput_ratio": min(load["goodput_ratio"] for load in loads),
        "unknown_share": max(load["unknown_share"] for load in loads),
        "dispatcher_rss_kib_start": memory.seen_kib[0],
        "dispatcher_rss_kib_middle": memory.seen_kib[len(memory.seen_kib) // 2],
        "dispatcher_rss_kib_end": memory.seen_kib[-1],
    }


def _loads(
    plan: Plan, service: Service, crew: Crew, broker: Broker, tell: Callable[[str], None]
) -> Iterator[dict[str, float]]:
    """What becomes of this service under each time-out, next to one of the same kind that is kept just busy."""
    beside = f"{service.name}-beside"
    workers = [
        crew.worker("famulus", broker.backend, service.slots, name, service.work_ms) for name in (service.name, beside)
    ]
    seconds = max(plan.seconds, TASKS_OF_A_SLOT * service.work_ms / 1000)
    offered = plan.factor * service.capacity_per_s
    for timeout_s in service.timeouts_s:
        tell(f"{service.name}: offering {offered:,.0f} tasks/s, time-out {timeout_s:g} s")
        warm_up_s = 1.0 + max(min(timeout_s, WARM_UP_S_MAX), TASKS_TO_LEARN * service.work_ms / 1000)
        over = OfferedLoad(offered, seconds, warm_up_s, BODY_BYTES, round(timeout_s * 1000), service.name, by_end=True)
        busy = replace(over, per_s=0.0, window=service.slots * 4, timeout_ms=CLOSED_TIMEOUT_MS, service=beside)
        running = [start(crew, broker.frontend, offer) for offer in (busy, over)]
        peak, seen = (take() for take in running)
        yield _figures(service, timeout_s, len(peak.latency("OK")) / seconds, seen, seconds)
    for worker in workers:
        worker.stop()


def _figures(service: Service, timeout_s: float, peak_per_s: float, over: Seen, seconds: float) -> dict[str, float]:
    told = ("OK", "UNKNOWN", "overload", "expired")
    ok, unknown, overload, expired = (len(over.latency(which)) for which in told)
    rejected = over.latency("overload")
    return {
        "work_ms": service.work_ms,
        "slots": service.slots,
        "timeout_s": timeout_s,
        "saturation_per_s": peak_per_s,
        "offered_per_s": over.offered / seconds,
        "goodput_per_s": ok / seconds,
        "goodput_ratio": ok / seconds / peak_per_s if peak_per_s else 0.0,
        "unknown_share": unknown / (ok + unknown) if ok + unknown else 0.0,
        "rejected_overload_per_s": overload / seconds,
        "rejected_expired_per_s": expired / seconds,
        "rejected_p50_ms": rejected.percentile(PERCENTILES["p50"]) / 1e6,
        "rejected_p99_ms": rejected.percentile(PERCENTILES["p99"]) / 1e6,
        "ok_p99_ms": over.latency("OK").percentile(PERCENTILES["p99"]) / 1e6,
        "other_outcomes": sum(len(seen) for which, seen in over.latencies.items() if which not in told),
    }
