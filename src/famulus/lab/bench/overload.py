"""`famulus bench overload`: beyond saturation, goodput must stay, the rest is rejected quickly, memory stays flat.

A worker has a fixed number of slots and sleeps for a fixed time per task, so its capacity is known and far below
what the broker can carry: what is measured is how the broker behaves when the workers are the bottleneck. All settings
are the defaults, and each time-out is a load of its own: how long a task may wait is what decides whether it ends well.

Beside it, at the same broker and in the same seconds, a second worker of the same kind is kept busy and no more: what
it does is the saturation. So a machine that is slow for a while slows both sides.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from famulus.lab.bench.fleet import Broker, Crew, Member
from famulus.lab.bench.memory import MemoryWatch
from famulus.lab.processes import python, rss_kib

#: Of the closed loop, whose tasks wait for no more than a few others.
CLOSED_TIMEOUT_S = 60.0
#: The backlog of an open loop grows for as long as its tasks may wait, but not for ever.
WARM_UP_S_MAX = 10.0
#: And until a slot has done so many tasks, the broker does not know how long they take.
TASKS_TO_LEARN = 4
#: A measurement is so many tasks of a slot long, or half a task would show.
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
    """What becomes of this service under each time-out, beside one of the same kind that is only kept busy."""
    beside = f"{service.name}-beside"
    names = (service.name, beside)
    workers = [_start(crew, "worker", broker.backend, name, service.slots, service.work_ms) for name in names]
    for worker in workers:
        worker.wait_until("is ready")
    seconds = max(plan.seconds, TASKS_OF_A_SLOT * service.work_ms / 1000)
    offered = plan.factor * service.capacity_per_s
    for timeout_s in service.timeouts_s:
        tell(f"{service.name}: offering {offered:,.0f} tasks/s, time-out {timeout_s:g} s")
        warm_up_s = 1.0 + max(min(timeout_s, WARM_UP_S_MAX), TASKS_TO_LEARN * service.work_ms / 1000)
        length = (warm_up_s, seconds)
        busy = _start(crew, "closed", broker.frontend, beside, service.slots * 4, CLOSED_TIMEOUT_S, *length)
        over = _start(crew, "open", broker.frontend, service.name, offered, timeout_s, *length)
        within_s = sum(length) + CLOSED_TIMEOUT_S + timeout_s
        peak, seen = (json.loads(client.output(within_s)) for client in (busy, over))
        yield _figures(service, timeout_s, peak["goodput"], seen)
    for worker in workers:
        worker.stop()


def _start(crew: Crew, role: str, *words: object) -> Member:
    return crew.start(
        "worker" if role == "worker" else "client", python("famulus.lab.bench.slow", role, *map(str, words))
    )


def _figures(service: Service, timeout_s: float, peak: float, over: dict[str, float]) -> dict[str, float]:
    done = over["goodput"] + over["unknown"]
    return {
        "work_ms": service.work_ms,
        "slots": service.slots,
        "timeout_s": timeout_s,
        "saturation_per_s": peak,
        "offered_per_s": over["offered"],
        "goodput_per_s": over["goodput"],
        "goodput_ratio": over["goodput"] / peak if peak else 0.0,
        "unknown_share": over["unknown"] / done if done else 0.0,
        "rejected_overload_per_s": over["overload"],
        "rejected_expired_per_s": over["expired"],
        "rejected_p50_ms": over["rejected_p50_ms"],
        "rejected_p99_ms": over["rejected_p99_ms"],
        "ok_p99_ms": over["ok_p99_ms"],
        "other_outcomes": over["others"],
    }
