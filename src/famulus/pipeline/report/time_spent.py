"""Where the time of tasks goes: how long they wait for a slot, and how long they are with a worker.

From histograms, hence from what brokers measure: the wait ends when a task is given to a worker, and the rest of its
time is the run, with the way to the worker and back. Knows no table and no page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from famulus.pipeline.histogram import BUCKETS, middle_ns, quantile_of
from famulus.pipeline.report.timeline import Timeline

PERCENTILES: Final = (("p50", 500_000), ("p95", 950_000), ("p99", 990_000))
_MIDDLES: Final = middle_ns(np.arange(BUCKETS, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """Of one service."""

    service: str
    tasks: int
    #: In nanoseconds, at each of the percentiles; not a number where there are none.
    waits: tuple[float, ...]
    runs: tuple[float, ...]
    totals: tuple[float, ...]
    #: In nanoseconds, all tasks of a bin together.
    wait_ns: np.ndarray
    run_ns: np.ndarray

    @property
    def wait_share(self) -> float:
        """Of all the time of its tasks, the share that they wait."""
        (share,) = self.wait_shares(len(self.wait_ns))
        return float(share)

    def wait_shares(self, bins: int = 1) -> np.ndarray:
        """The same for so many bins at a time; not a number where there are no tasks."""
        begins = np.arange(0, len(self.wait_ns), bins)
        wait, run = (np.add.reduceat(each, begins) for each in (self.wait_ns, self.run_ns))
        shares: np.ndarray = np.divide(wait, wait + run, out=np.full(wait.shape, np.nan), where=wait + run > 0)
        return shares


def time_spent(timeline: Timeline) -> list[TimeSpent]:
    """Those first whose tasks wait longest, all together."""
    found = [_of(timeline, number) for number in range(len(timeline.services))]
    return sorted((each for each in found if each.tasks), key=lambda each: (-each.wait_ns.sum(), each.service))


def _of(timeline: Timeline, service: int) -> TimeSpent:
    wait, run, total = (timeline.histograms[name][service] for name in ("queue_hist", "service_hist", "total_hist"))
    return TimeSpent(
        timeline.services[service],
        int(timeline.counts["tasks"][service].sum()),
        waits=_percentiles(wait),
        runs=_percentiles(run),
        totals=_percentiles(total),
        wait_ns=_summed(wait),
        run_ns=_summed(run),
    )


def _percentiles(bins: np.ndarray) -> tuple[float, ...]:
    whole = bins.sum(axis=0)
    return tuple(quantile_of(whole, ppm) for _, ppm in PERCENTILES)


def _summed(bins: np.ndarray) -> np.ndarray:
    """The sum of all values in each bin, each as the middle of its bucket."""
    sums: np.ndarray = bins @ _MIDDLES
    return sums
