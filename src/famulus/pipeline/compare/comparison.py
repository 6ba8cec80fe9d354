"""Decides, service by service, whether two sides differ by more than chance explains. Knows no files."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from famulus.pipeline import histogram
from famulus.pipeline.compare.counting import Counted, SideCounts
from famulus.pipeline.compare.significance import Mean, holm, mean_of, p_of_means, p_of_shares
from famulus.pipeline.histogram import BUCKETS_PER_E_FOLD, middle_ns, quantile_of

#: With fewer on a side nothing is said.
TASKS_MIN: Final = 30
BINS_MIN: Final = 5
#: A difference is one if chance makes such a one less often than this, in all tests of a comparison together.
P_MAX: Final = 0.05
#: Typical times closer than a bucket of the histograms are the same for people.
RATIO_MIN: Final = 1.03


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one service on one side. Times in nanoseconds; None: there is nothing to take them from."""

    tasks: int
    failed: int
    failed_share: float | None
    p50_ns: float | None
    p95_ns: float | None
    p99_ns: float | None
    wait_ns: float | None
    run_ns: float | None


@dataclass(frozen=True, slots=True)
class Tested:
    """One measure on both sides, and how often chance alone makes such a difference."""

    before: float
    after: float
    p: float
    #: Corrected for all tests of the comparison.
    p_of_all: float

    @property
    def ratio(self) -> float:
        return self.after / self.before if self.before else math.inf

    @property
    def differs(self) -> bool:
        return self.p_of_all < P_MAX and self.before != self.after


@dataclass(frozen=True, slots=True)
class Comparison:
    service: str
    before: Figures
    after: Figures
    #: Share of tasks that failed; typical time in nanoseconds (the geometric mean); share of slow tasks. None: too few.
    failed: Tested | None
    time: Tested | None
    slow: Tested | None
    #: Longer than that is slow.
    slow_ns: float

    @property
    def is_tested(self) -> bool:
        return self.failed is not None

    @property
    def fails(self) -> bool:
        return self.failed is not None and self.failed.differs

    @property
    def slower(self) -> bool:
        """Or faster."""
        return self.time is not None and self.time.differs and abs(math.log(self.time.ratio)) >= math.log(RATIO_MIN)

    @property
    def slow_tasks(self) -> bool:
        return self.slow is not None and self.slow.differs

    @property
    def differs(self) -> bool:
        return self.fails or self.slower or self.slow_tasks


def compare(counted: Counted) -> list[Comparison]:
    """By service: those that differ first, then those of which nothing can be said last."""
    found = [_tests(counted, number) for number in range(len(counted.services))]
    corrected = iter(holm([each.p for tests in found for each in tests]))
    made = []
    for number, tests in enumerate(found):
        before, after = (_figures(side, number) for side in counted.sides)
        tested = [replace(each, p_of_all=next(corrected)) for each in tests]
        failed, time, slow = tested or (None, None, None)
        limit = float(middle_ns(counted.limits[number]))
        made.append(Comparison(counted.services[number], before, after, failed, time, slow, limit))
    return sorted(made, key=lambda each: (not each.differs, not each.is_tested, each.service))


def _tests(counted: Counted, number: int) -> list[Tested]:
    """Of failures, times and slow tasks, not corrected yet; none if there are too few tasks."""
    sides = counted.sides
    if not all(_is_enough(side, number) for side in sides):
        return []
    failed = [(side.failed[number], side.tasks[number]) for side in sides]
    slow = [(side.slow[number], side.timed[number]) for side in sides]
    before, after = (mean_of(side.buckets[number], side.timed[number]) for side in sides)
    p = p_of_means(before, after)
    return [_of_shares(*failed), Tested(_typical_ns(before), _typical_ns(after), p, p), _of_shares(*slow)]


def _is_enough(side: SideCounts, number: int) -> bool:
    timed = side.timed[number]
    return bool(side.tasks[number].sum() >= TASKS_MIN and timed.sum() >= TASKS_MIN and (timed > 0).sum() >= BINS_MIN)


def _of_shares(before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray]) -> Tested:
    """Each the tasks that it is about, and all, by bin."""
    one, other = mean_of(*before), mean_of(*after)
    p = p_of_shares(one, int(before[1].sum()), other, int(after[1].sum()))
    return Tested(one.value, other.value, p, p)


def _typical_ns(buckets: Mean) -> float:
    return math.exp((buckets.value + 0.5) / BUCKETS_PER_E_FOLD) - 1


def _figures(side: SideCounts, number: int) -> Figures:
    tasks, failed = int(side.tasks[number].sum()), int(side.failed[number].sum())
    runs = int(side.runs[number])
    p50, p95, p99 = (_known(quantile_of(side.times[number], ppm)) for ppm in (500_000, 950_000, 990_000))
    return Figures(
        tasks,
        failed,
        failed / tasks if tasks else None,
        p50,
        p95,
        p99,
        _known(histogram.mean_of(side.waits[number])),
        int(side.busy_ns[number]) / runs if runs else None,
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
