"""The network that a synthetic journal tells of: who is in it, and what happens to whom. All follows from the plan.

Small whatever the number of tasks, so each of Spark's tasks makes its own instead of having it sent.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np

from famulus.lab.synth import cycle
from famulus.lab.synth.plan import US_PER_HOUR, US_PER_MINUTE, US_PER_S, Plan

# fmt: off
BROKERS: Final = [
    "alfa", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett", "kilo", "lima",
    "mike", "november", "oscar", "papa", "quebec", "romeo", "sierra", "tango", "uniform", "victor", "whiskey",
    "xray", "yankee", "zulu",
]
# fmt: on
#: Name, median of the service time in seconds, share of the tasks.
SERVICES: Final = (
    ("thumbnail", 0.040, 4.0),
    ("invoice", 0.120, 2.0),
    ("translate", 0.080, 3.0),
    ("render", 0.400, 1.5),
    ("search", 0.015, 6.0),
    ("mail", 0.060, 2.5),
    ("score", 0.025, 3.0),
    ("geocode", 0.010, 2.0),
)
#: Whose clients call the services.
PRINCIPALS: Final = ("shop", "office", "reports")
FAMILY_SIZE: Final = 3
SPREAD: Final = 0.35
#: Slots are sized so that this share of them is taken at the busiest minute.
BUSY_SHARE: Final = 0.45
HOT_SHARE: Final = 0.88
SLOW_FACTOR: Final = 4.0
RESTART_US: Final = 2 * US_PER_S
#: Tasks of one file.
TASKS_PER_CELL: Final = 200_000


@dataclass(frozen=True, slots=True)
class Service:
    number: int
    name: str
    median_s: float
    share: float
    at_most_once: bool
    error_share: float

    @property
    def mean_s(self) -> float:
        return self.median_s * math.exp(SPREAD**2 / 2)


@dataclass(frozen=True, slots=True)
class Worker:
    number: int
    identity: str
    broker: int
    service: int
    slots: int


@dataclass(frozen=True, slots=True)
class Boot:
    broker: int
    name: str
    start_us: int
    end_us: int


@dataclass(frozen=True, slots=True)
class Burst:
    service: int
    broker: int
    start_us: int
    end_us: int


@dataclass(frozen=True, slots=True)
class Cell:
    """What one of Spark's tasks writes: a part of an hour of one boot. Its number is that of its files."""

    number: int
    boot: Boot
    start_us: int
    end_us: int


class World:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        turns = [divmod(number, len(BROKERS)) for number in range(plan.brokers)]
        self.brokers = [f"{BROKERS[at]}-{turn + 1}" if turn else BROKERS[at] for turn, at in turns]
        #: Of the names of their workers.
        self._initials = [BROKERS[at][0] * (turn + 1) for turn, at in turns]
        self.families = [f"family-{number // FAMILY_SIZE + 1}" for number in range(plan.brokers)]
        weights = [1.0 + 0.25 * (number % 3) for number in range(plan.brokers)]
        self.broker_share = [weight / sum(weights) for weight in weights]
        self._whole = float(cycle.done(plan.end_us, plan.start_us))
        self.services = self._services()
        # What happens to whom, if it does.
        self.hot = len(self.services) - 1 if self.has("hot_service") else None
        self.workers = self._workers()
        self.slow = self.workers_of(0, 0)[0] if self.has("slow_worker") else None
        self.flapping = self.workers_of(1, 2 % len(self.services))[0]
        #: Broker and instant.
        self.crash = (plan.brokers - 1, plan.at_us(0.5) + 30_400_000) if self.has("crashed_dispatcher") else None
        start_us = plan.at_us(0.85)
        self.burst = Burst(1, 0, start_us, start_us + 6 * US_PER_MINUTE) if self.has("error_burst") else None

    # -- who is there -------------------------------------------------------------------------------------------

    def _services(self) -> list[Service]:
        known = [SERVICES[number % len(SERVICES)] for number in range(self.plan.services)]
        total = sum(weight for _, _, weight in known)
        services = []
        for number, (name, median_s, weight) in enumerate(known):
            turn = number // len(SERVICES)
            named = f"{name}-{turn + 1}" if turn else name
            # The even ones are at-least-once. Any service has some errors.
            error_share = 0.004 + 0.002 * (number % 3)
            services.append(Service(number, named, median_s, weight / total, number % 2 == 1, error_share))
        return services

    def _workers(self) -> list[Worker]:
        each = max(2, self.plan.workers // (self.plan.brokers * self.plan.services))
        slots = {
            (broker, service.number): self._slots_each(broker, service, each)
            for broker in range(self.plan.brokers)
            for service in self.services
        }
        if self.hot is not None:
            self._heat(self.hot, [slots[broker, self.hot] * each for broker in range(self.plan.brokers)])
        named = [
            (f"{self.services[service].name}-{self._initials[broker]}{count + 1}", broker, service, of_each)
            for (broker, service), of_each in slots.items()
            for count in range(each)
        ]
        return [Worker(number, *rest) for number, rest in enumerate(named)]

    def _slots_each(self, broker: int, service: Service, workers: int) -> int:
        offered = self.peak_per_s(broker, service.number) * service.mean_s
        if service.number == self.hot:
            return max(1, int(offered / HOT_SHARE / workers))
        return max(2, math.ceil(offered / BUSY_SHARE / workers))

    def _heat(self, number: int, slots: list[int]) -> None:
        """Makes the service take as long as its slots can just bear: a small journal has too few tasks otherwise."""
        mean_s = min(HOT_SHARE * all_ / self.peak_per_s(broker, number) for broker, all_ in enumerate(slots))
        self.services[number] = replace(self.services[number], median_s=mean_s / math.exp(SPREAD**2 / 2))

    @lru_cache  # noqa: B019 - a world lives as long as its job
    def workers_of(self, broker: int, service: int) -> list[Worker]:
        return [worker for worker in self.workers if worker.broker == broker and worker.service == service]

    def slots(self, broker: int, service: int) -> int:
        return sum(worker.slots for worker in self.workers_of(broker, service))

    # -- how much there is to do --------------------------------------------------------------------------------

    def _tasks_of(self, broker: int, service: int) -> float:
        return self.plan.tasks * self.broker_share[broker] * self.services[service].share

    def tasks_until(self, broker: int, service: int, at_us: int) -> int:
        """Cumulative, so that the parts of any division of the span add up to the whole."""
        share = float(cycle.done(at_us, self.plan.start_us)) / self._whole
        return round(self._tasks_of(broker, service) * share)

    def _per_s(self, broker: int, service: int, rate: Any) -> Any:
        return self._tasks_of(broker, service) / self._whole * rate / 3600

    def peak_per_s(self, broker: int, service: int) -> float:
        return float(self._per_s(broker, service, cycle.highest(self.plan.start_us, self.plan.end_us)))

    def busy_share(self, broker: int, service: int, at_us: np.ndarray) -> np.ndarray:
        """Which share of the slots is taken."""
        offered: np.ndarray = self._per_s(broker, service, cycle.rate(at_us)) * self.services[service].mean_s
        return np.minimum(offered / self.slots(broker, service), 0.97)

    # -- what happens to them -----------------------------------------------------------------------------------

    def has(self, truth: str) -> bool:
        return truth in self.plan.truths

    @cached_property
    def absences(self) -> list[tuple[int, int]]:
        """Of the flapping worker, from when to when: nine times within at most an hour."""
        if not self.has("flapping_worker"):
            return []
        step = min(6 * US_PER_MINUTE, self.plan.hours * US_PER_HOUR // 50)
        first = self.plan.at_us(0.60)
        # Not on a full second, where a checkpoint is.
        losses = [first + number * step + 12_345_678 for number in range(9)]
        return [(lost, lost + 15 * US_PER_S) for lost in losses]

    # -- boots and cells ----------------------------------------------------------------------------------------

    @cached_property
    def boots(self) -> list[Boot]:
        start, end = self.plan.start_us, self.plan.end_us
        boots = []
        for broker in range(self.plan.brokers):
            lives = [(start, end)]
            if self.crash is not None and self.crash[0] == broker:
                lives = [(start, self.crash[1]), (self.crash[1] + RESTART_US, end)]
            for number, (first, last) in enumerate(lives):
                boots.append(Boot(broker, self.name("boot", broker, number)[:12], first, last))
        return boots

    def boot_at(self, broker: int, at_us: int) -> Boot:
        """The one that is running then; the last one before, if none is."""
        return [boot for boot in self.boots if boot.broker == broker and boot.start_us <= at_us][-1]

    @cached_property
    def cells(self) -> list[Cell]:
        cells: list[Cell] = []
        for boot in self.boots:
            first_hour = boot.start_us - boot.start_us % US_PER_HOUR
            for hour in range(first_hour, boot.end_us, US_PER_HOUR):
                start, end = max(hour, boot.start_us), min(hour + US_PER_HOUR, boot.end_us)
                parts = self._parts(boot.broker, start, end)
                edges = [start + (end - start) * part // parts for part in range(parts + 1)]
                cells += [Cell(len(cells) + n, boot, a, b) for n, (a, b) in enumerate(pairwise(edges))]
        return cells

    def _parts(self, broker: int, start_us: int, end_us: int) -> int:
        tasks = sum(
            self.tasks_until(broker, number, end_us) - self.tasks_until(broker, number, start_us)
            for number in range(len(self.services))
        )
        return max(1, math.ceil(tasks / TASKS_PER_CELL))

    def where(self, boot: Boot) -> dict[str, str]:
        """What every row of it says."""
        return {"broker": self.brokers[boot.broker], "boot": boot.name, "family": self.families[boot.broker]}

    def name(self, *of: object) -> str:
        """A random-looking name that follows from the seed."""
        return hashlib.sha256(repr((self.plan.seed, *of)).encode()).hexdigest()[:32]
