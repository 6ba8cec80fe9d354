"""The tasks of one cell: when they came, waited, ran and ended. Columns as numpy arrays, never row by row.

They are drawn by their end, since the journal is laid out by it: so each cell is complete in itself, and cells can be
made in any order by anybody.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np

from famulus.lab.synth import cycle
from famulus.lab.synth.plan import US_PER_MINUTE, US_PER_S
from famulus.lab.synth.world import SLOW_FACTOR, SPREAD, Cell, World

NS_PER_S: Final = 1_000_000_000
NOBODY: Final = -1
OK, ERROR = 0, 1
OUTCOMES: Final = ("OK", "ERROR")
DELEGATED_SHARE: Final = 0.015
#: What the other broker and the way to it add to a task that is passed on.
HOP_NS: Final = 400_000
CLIENTS: Final = 200
#: How minutes differ beyond the daily cycle.
MINUTE_NOISE: Final = 0.04
PRIORITIES: Final = np.array([4] * 16 + [0, 2, 7, 9], dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """One entry per task; of a task that was delegated it is the view of the first broker."""

    service: np.ndarray
    worker: np.ndarray
    ended_us: np.ndarray
    queue_ns: np.ndarray
    service_ns: np.ndarray
    outcome: np.ndarray
    priority: np.ndarray
    client: np.ndarray
    request_bytes: np.ndarray
    response_bytes: np.ndarray
    #: Number of the broker, or NOBODY.
    delegated_to: np.ndarray
    #: 16 bytes each.
    ids: np.ndarray

    @property
    def total_ns(self) -> np.ndarray:
        total: np.ndarray = self.queue_ns + self.service_ns
        return total

    @property
    def arrived_us(self) -> np.ndarray:
        arrived: np.ndarray = self.ended_us - self.total_ns // 1000
        return arrived

    @property
    def assigned_us(self) -> np.ndarray:
        assigned: np.ndarray = self.arrived_us + self.queue_ns // 1000
        return assigned

    def take(self, which: np.ndarray) -> Arrivals:
        return Arrivals(*(getattr(self, field.name)[which] for field in fields(self)))


def arrivals_of(world: World, cell: Cell) -> Arrivals:
    parts = [_of_service(world, cell, number) for number in range(len(world.services))]
    names = [field.name for field in fields(Arrivals)]
    drawn = Arrivals(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
    drawn = drawn.take(np.argsort(drawn.ended_us, kind="stable"))
    # Drop what would have come before there was anybody to take it.
    drawn = drawn.take(drawn.arrived_us >= cell.boot.start_us + US_PER_S)
    return _delegated(world, cell, _passed_on(world, drawn))


def _of_service(world: World, cell: Cell, number: int) -> Arrivals:
    service, broker = world.services[number], cell.boot.broker
    rng = np.random.default_rng([world.plan.seed, cell.number, number])
    count = world.tasks_until(broker, number, cell.end_us) - world.tasks_until(broker, number, cell.start_us)
    ended_us = _ends(rng, cell, count)
    service_s = service.median_s * rng.lognormal(0.0, SPREAD, count)
    worker = _workers(world, rng, broker, number, count)
    if world.slow is not None:
        service_s[worker == world.slow.number] *= SLOW_FACTOR
    return Arrivals(
        service=np.full(count, number, dtype=np.int32),
        worker=worker,
        ended_us=ended_us,
        queue_ns=(_waits(world, rng, broker, number, ended_us) * NS_PER_S).astype(np.int64),
        service_ns=(service_s * NS_PER_S).astype(np.int64),
        outcome=_outcomes(world, rng, broker, number, ended_us),
        priority=rng.choice(PRIORITIES, count),
        client=rng.integers(0, CLIENTS, count, dtype=np.int32),
        request_bytes=rng.lognormal(7.0, 1.0, count).astype(np.int64),
        response_bytes=rng.lognormal(6.0, 1.0, count).astype(np.int64),
        delegated_to=np.full(count, NOBODY, dtype=np.int32),
        ids=rng.integers(0, 256, (count, 16), dtype=np.uint8),
    )


def _ends(rng: np.random.Generator, cell: Cell, count: int) -> np.ndarray:
    """Spread over the cell as the daily cycle says. Each task has its own share of the cell: no minute stands out."""
    edges = np.append(np.arange(cell.start_us, cell.end_us, US_PER_MINUTE), cell.end_us)
    weights = cycle.rate(edges[:-1]) * np.diff(edges) * (1 + MINUTE_NOISE * rng.standard_normal(len(edges) - 1))
    until = np.concatenate([[0.0], np.cumsum(np.maximum(weights, 0.0))])
    places = (np.arange(count) + rng.random(count)) / max(count, 1)
    ended = np.interp(places * until[-1], until, edges - cell.start_us)
    within: np.ndarray = np.minimum(ended.astype(np.int64) + cell.start_us, cell.end_us - 1)
    return within


def _workers(world: World, rng: np.random.Generator, broker: int, service: int, count: int) -> np.ndarray:
    numbers = np.array([worker.number for worker in world.workers_of(broker, service)], dtype=np.int32)
    chosen = rng.choice(numbers, count)
    if world.slow is not None and world.slow.number in numbers:
        # The next task goes to whoever is free, so a slow worker gets fewer of them.
        others = rng.choice(numbers[numbers != world.slow.number], count)
        chosen = np.where((chosen == world.slow.number) & (rng.random(count) < 0.5), others, chosen)
    return chosen


def _waits(world: World, rng: np.random.Generator, broker: int, service: int, at_us: np.ndarray) -> np.ndarray:
    """As in a queue with this many servers: whoever has to wait at all waits for an exponentially distributed time."""
    slots, mean_s = world.slots(broker, service), world.services[service].mean_s
    busy = world.busy_share(broker, service, at_us)
    waits = rng.random(len(at_us)) < busy ** np.sqrt(2 * (slots + 1))
    waited_s = rng.exponential(1.0, len(at_us)) * mean_s / (slots * (1 - busy))
    handed_on_s = rng.lognormal(-9.5, 0.4, len(at_us))
    result: np.ndarray = np.where(waits, waited_s, 0.0) + handed_on_s
    return result


def _outcomes(world: World, rng: np.random.Generator, broker: int, service: int, at_us: np.ndarray) -> np.ndarray:
    """Errors in a steady trickle, so that the planted burst is the only one."""
    share = world.services[service].error_share
    places = (np.arange(len(at_us)) + rng.random()) * share
    failed = np.diff(np.floor(places), prepend=np.floor(places[0]) if len(places) else 0.0) > 0
    burst = world.burst
    if burst is not None and (burst.service, burst.broker) == (service, broker):
        failed |= (at_us >= burst.start_us) & (at_us < burst.end_us) & (rng.random(len(at_us)) < 0.75)
    return np.where(failed, ERROR, OK).astype(np.int8)


def _passed_on(world: World, drawn: Arrivals) -> Arrivals:
    """Nothing runs at a worker that is not there: another one of its service has it."""
    gone, other, *_ = world.workers_of(world.flapping.broker, world.flapping.service)
    meets = np.zeros(len(drawn.service), dtype=bool)
    for lost_us, back_us in world.absences:
        meets |= (drawn.assigned_us < back_us) & (drawn.ended_us >= lost_us)
    return replace(drawn, worker=np.where(meets & (drawn.worker == gone.number), other.number, drawn.worker))


def _delegated(world: World, cell: Cell, drawn: Arrivals) -> Arrivals:
    """Some go to the next broker, if it is up all the time and the task is long enough for the extra way."""
    rng = np.random.default_rng([world.plan.seed, cell.number, len(world.services)])
    target = (cell.boot.broker + 1) % world.plan.brokers
    chosen = (rng.random(len(drawn.service)) < DELEGATED_SHARE) & (drawn.service_ns > 4 * HOP_NS)
    begun_us, lives = drawn.arrived_us, np.zeros(len(drawn.service), dtype=bool)
    for boot in world.boots:
        if boot.broker == target:
            lives |= (begun_us > boot.start_us + US_PER_S) & (drawn.ended_us < boot.end_us)
    chosen &= lives
    workers = np.array([[each.number for each in world.workers_of(target, number)][-1] for number in
                        range(len(world.services))], dtype=np.int32)  # fmt: skip
    # Over there it is always the last worker of the service: never one that the truths are about.
    return replace(
        drawn,
        worker=np.where(chosen, workers[drawn.service], drawn.worker),
        delegated_to=np.where(chosen, target, NOBODY).astype(np.int32),
    )
