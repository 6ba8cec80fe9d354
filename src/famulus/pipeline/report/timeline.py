"""The minutes of a span, put together into as many bins as a plot can show. Bounded, however long the span is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa

from famulus.pipeline.histogram import BUCKETS, entries_of
from famulus.pipeline.report.reading import Tables

BINS_MAX: Final = 240
#: Minutes of a bin.
STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 10080, 43200)
#: Services that have a line of their own; the rest is one more.
SERVICES_MAX: Final = 8
OTHERS: Final = "all others"
COUNTS: Final = ("tasks", "ok", "errors", "rejected", "unknown", "retries")
HISTOGRAMS: Final = ("queue_hist", "service_hist", "total_hist")
US_PER_MINUTE: Final = 60_000_000


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Bins of equal length from a first minute on."""

    first_us: int
    minutes: int
    bins: int

    @property
    def seconds(self) -> int:
        return self.minutes * 60

    def bin_of(self, at_us: np.ndarray) -> np.ndarray:
        found: np.ndarray = (at_us - self.first_us) // (self.minutes * US_PER_MINUTE)
        return found

    def starts(self) -> list[datetime]:
        return [self.at(number) for number in range(self.bins)]

    def at(self, number: int) -> datetime:
        """The beginning of a bin."""
        return _instant(self.first_us + number * self.minutes * US_PER_MINUTE)


@dataclass(frozen=True, slots=True)
class Timeline:
    axis: TimeAxis
    #: Busiest first; the last may stand for all others.
    services: list[str]
    #: By name of the count: services x bins.
    counts: dict[str, np.ndarray]
    #: By name of the histogram: services x bins x buckets.
    histograms: dict[str, np.ndarray]
    #: Last minute that has data.
    last: datetime

    @property
    def span(self) -> tuple[datetime, datetime]:
        return self.axis.at(0), self.axis.at(self.axis.bins)

    def total(self, count: str) -> int:
        return int(self.counts[count].sum())


def axis_of(first: int, last: int) -> TimeAxis:
    """`last` is the beginning of the last minute."""
    minutes = (last - first) // US_PER_MINUTE + 1
    step = next((step for step in STEPS if minutes / step <= BINS_MAX), None)
    step = step or -(-minutes // BINS_MAX)
    # Bins begin on round times.
    begin = first - first % (step * US_PER_MINUTE)
    return TimeAxis(begin, step, int((last - begin) // (step * US_PER_MINUTE)) + 1)


def read(tables: Tables) -> Timeline | None:
    """Reads `service_minutes` twice: first which services there are and when, then how much."""
    totals: dict[str, int] = {}
    first, last = 2**62, -(2**62)
    for batch in tables.batches("service_minutes", ["minute", "service", "tasks"]):
        if not batch.num_rows:
            continue
        at = micros(batch.column("minute"))
        first, last = min(first, int(at.min())), max(last, int(at.max()))
        grouped = pa.Table.from_batches([batch]).group_by("service").aggregate([("tasks", "sum")])
        for service, tasks in zip(grouped["service"].to_pylist(), grouped["tasks_sum"].to_pylist(), strict=True):
            totals[service] = totals.get(service, 0) + tasks
    if not totals:
        return None
    axis = axis_of(first, last)
    ranked = sorted(totals, key=lambda name: (-totals[name], name))
    services = ranked if len(ranked) <= SERVICES_MAX else [*ranked[: SERVICES_MAX - 1], OTHERS]
    return _filled(tables, axis, ranked, services, _instant(last))


def _filled(tables: Tables, axis: TimeAxis, ranked: list[str], services: list[str], last: datetime) -> Timeline:
    shape = (len(services), axis.bins)
    counts = {name: np.zeros(shape, dtype=np.int64) for name in COUNTS}
    histograms = {name: np.zeros((*shape, BUCKETS), dtype=np.int64) for name in HISTOGRAMS}
    numbers = {name: min(number, len(services) - 1) for number, name in enumerate(ranked)}
    for batch in tables.batches("service_minutes", ["minute", "service", *COUNTS, *HISTOGRAMS]):
        encoded = batch.column("service").dictionary_encode()
        place = np.array([numbers[name] for name in encoded.dictionary.to_pylist()], dtype=np.int64)
        service = place[encoded.indices.to_numpy(zero_copy_only=False)]
        at = axis.bin_of(micros(batch.column("minute")))
        for name in COUNTS:
            np.add.at(counts[name], (service, at), batch.column(name).to_numpy(zero_copy_only=False))
        for name in HISTOGRAMS:
            row, bucket, seen = entries_of(batch.column(name))
            np.add.at(histograms[name], (service[row], at[row], bucket), seen)
    return Timeline(axis, services, counts, histograms, last)


def micros(column: pa.Array) -> np.ndarray:
    micros: np.ndarray = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return micros


def _instant(at_us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)
