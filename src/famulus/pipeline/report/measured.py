"""How long tasks really waited, in the hour of each service that the table `capacity` is about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from famulus.pipeline.histogram import BUCKETS, entries_of, mean_of, middle_ns, quantile_of
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.words import NS_PER_S
from famulus.pipeline.whatif.forecast import NO_WAIT_S, BusiestHour, Measured, Waits

_TABLE = "service_hours"
_Key = tuple[str, str]


def measured(tables: Tables, hours: Sequence[BusiestHour]) -> dict[_Key, Measured]:
    """By service and family; none for those of which no hour is there."""
    peaks = _peaks(tables, {(each.service, each.family): each.hour_of_day for each in hours})
    waits: dict[_Key, np.ndarray] = defaultdict(lambda: np.zeros(BUCKETS, dtype=np.int64))
    for number, batch in tables.hourly(_TABLE, ["service", "family", "queue_hist"], set(peaks.values())):
        keys = list(zip(batch.column("service").to_pylist(), batch.column("family").to_pylist(), strict=True))
        row, bucket, count = entries_of(batch.column("queue_hist"))
        for at, key in enumerate(keys):
            if peaks.get(key) == number:
                np.add.at(waits[key], bucket[row == at], count[row == at])
    return {key: _of(histogram) for key, histogram in waits.items() if histogram.any()}


def _peaks(tables: Tables, hours_of_day: dict[_Key, int]) -> dict[_Key, int]:
    """The hour, by its number, in which most slot time was asked for: what was refused counts like all else."""
    offered: dict[_Key, tuple[float, int]] = {}
    for number, batch in tables.hourly(_TABLE, ["service", "family", "runs", "overloaded", "busy_ns"]):
        for row in batch.to_pylist():
            key = row["service"], row["family"]
            if hours_of_day.get(key) == number % 24 and row["runs"] > 0:
                asked = row["busy_ns"] * (1 + row["overloaded"] / row["runs"])
                offered[key] = max(offered.get(key, (-1.0, 0)), (asked, -number))
    return {key: -number for key, (_, number) in offered.items()}


def _of(histogram: np.ndarray) -> Measured:
    total = int(histogram.sum())
    waited = int(histogram[middle_ns(np.arange(BUCKETS)) > NO_WAIT_S * NS_PER_S].sum())
    p95, p99 = (quantile_of(histogram, ppm) / NS_PER_S for ppm in (950_000, 990_000))
    return Measured(total, Waits(waited / total, mean_of(histogram) / NS_PER_S, p95, p99))
