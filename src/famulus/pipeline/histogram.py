"""Histograms of durations, as the tables keep them, in arrays: counts by bucket along the last axis. Knows no table."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

BUCKETS: Final = 720
MILLION: Final = 1_000_000
#: The quantiles that are kept: name, and share in parts per million, so that ranks are exact.
QUANTILES: Final = {"p50": 500_000, "p90": 900_000, "p99": 990_000, "p999": 999_000}
#: As `columnar.groups.bucket_of` makes them.
BUCKETS_PER_E_FOLD: Final = 16


def middle_ns(bucket: np.ndarray) -> np.ndarray:
    """The value in the middle of a bucket."""
    value: np.ndarray = np.exp((bucket + 0.5) / BUCKETS_PER_E_FOLD) - 1
    return value


def quantile_ns(histogram: np.ndarray, ppm: int) -> np.ndarray:
    """Of histograms along the last axis; not a number where one is empty."""
    until = np.cumsum(histogram, axis=-1)
    total = until[..., -1:]
    reached = until * MILLION >= total * ppm
    found = middle_ns(np.argmax(reached, axis=-1).astype(np.float64))
    result: np.ndarray = np.where(total[..., 0] > 0, found, np.nan)
    return result


def quantile_of(histogram: np.ndarray, ppm: int) -> float:
    """The same of one histogram."""
    return float(quantile_ns(histogram, ppm))


def quantiles_of(column: pa.ListArray) -> dict[str, pa.Array]:
    """Of a column of histograms, in whole nanoseconds; null where one is empty."""
    _, bucket, count = entries_of(column)
    until = np.cumsum(count)
    ends = column.offsets.to_numpy() - column.offsets[0].as_py()
    reached = np.concatenate([[0], until])[ends]
    before, total = reached[:-1], np.diff(reached)
    is_empty = total == 0
    found = {}
    for name, ppm in QUANTILES.items():
        # The first entry at which so many are reached; of an empty one, any.
        at = np.searchsorted(until * MILLION, before * MILLION + total * ppm)
        value = np.floor(middle_ns(bucket[np.minimum(at, len(bucket) - 1)]) + 0.5) if len(bucket) else total
        found[name] = pa.array(value.astype(np.int64), mask=is_empty)
    return found


def mean_of(histogram: np.ndarray) -> float:
    """Of one histogram, in nanoseconds; not a number if it is empty."""
    total = histogram.sum()
    return float(histogram @ middle_ns(np.arange(BUCKETS)) / total) if total else float("nan")


def entries_of(column: pa.ListArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of a column of histograms: of which row, in which bucket, and how many, for each of their entries."""
    lengths = np.diff(column.offsets.to_numpy())
    entries = column.flatten()
    bucket = np.minimum(entries.field("bucket").to_numpy(zero_copy_only=False), BUCKETS - 1)
    row = np.repeat(np.arange(len(column)), lengths)
    return row, bucket, entries.field("count").to_numpy(zero_copy_only=False)
