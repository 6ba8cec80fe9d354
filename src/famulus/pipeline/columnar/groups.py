"""Groups of rows with the same keys, and what is counted and summed in each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from famulus.pipeline.histogram import BUCKETS, BUCKETS_PER_E_FOLD, entries_of

Array = np.ndarray[Any, Any]
#: Up to this many places for each row, a place for each possible key is cheaper than sorting the keys.
_PLACES_PER_ROW: Final = 4
_PLACES: Final = 1 << 16


class Groups:
    def __init__(self, keys: Sequence[Array]) -> None:
        """`keys`: columns of numbers, which together say to which group a row belongs."""
        rows = len(keys[0])
        self.of_row, self.count = np.zeros(rows, np.int64), min(rows, 1)
        for key in keys:
            least = int(key.min()) if rows else 0
            radix = int(key.max()) - least + 1 if rows else 1
            self.of_row, self.count = _numbered(self.of_row * radix + (key - least), self.count * radix)
        #: A row of each group.
        self.sample = np.zeros(self.count, np.int64)
        self.sample[self.of_row] = np.arange(rows)

    def counts(self, where: Array) -> Array:
        return np.bincount(self.of_row[where], minlength=self.count)

    def sums(self, values: Array, where: Array) -> Array:
        return self._gathered(np.add, values, where, 0)

    def most(self, values: Array, where: Array) -> pa.Array:
        return self._bounds(np.maximum, values, where, np.iinfo(np.int64).min)

    def least(self, values: Array, where: Array) -> pa.Array:
        return self._bounds(np.minimum, values, where, np.iinfo(np.int64).max)

    def _bounds(self, bound: np.ufunc, values: Array, where: Array, start: int) -> pa.Array:
        """Null where a group has none."""
        return pa.array(self._gathered(bound, values, where, start), mask=self.counts(where) == 0)

    def _gathered(self, gather: np.ufunc, values: Array, where: Array, start: int) -> Array:
        found = np.full(self.count, start, np.int64)
        gather.at(found, self.of_row[where], values[where])
        return found

    def histogram(self, values: Array, where: Array) -> pa.Array:
        """For each group the buckets of its values, in order, and how many are in each."""
        return self._histograms(
            *_counted(self.of_row[where] * BUCKETS + bucket_of(values[where]), self.count * BUCKETS)
        )

    def summed(self, histograms: pa.ListArray) -> pa.Array:
        """For each group the sum of its histograms."""
        row, bucket, count = entries_of(histograms)
        keys, places = _numbered(self.of_row[row] * BUCKETS + bucket, self.count * BUCKETS)
        entries, counts = np.zeros(places, np.int64), np.zeros(places, np.int64)
        entries[keys] = self.of_row[row] * BUCKETS + bucket
        np.add.at(counts, keys, count)
        return self._histograms(entries, counts)

    def _histograms(self, entries: Array, counts: Array) -> pa.Array:
        """`entries`: numbers of groups and buckets, in order."""
        offsets = np.searchsorted(entries, np.arange(self.count + 1) * BUCKETS)
        pairs = [pa.array((entries % BUCKETS).astype(np.int32)), pa.array(counts.astype(np.int64))]
        return pa.ListArray.from_arrays(
            pa.array(offsets.astype(np.int32)), pa.StructArray.from_arrays(pairs, ["bucket", "count"])
        )


def bucket_of(values: Array) -> Array:
    """The numbers of the buckets that values belong to: 0 for 0, and for what a clock that went back made negative."""
    buckets = np.log(np.maximum(values, 0).astype(np.float64) + 1)
    buckets *= BUCKETS_PER_E_FOLD
    return buckets.astype(np.int64)


def _numbered(keys: Array, places: int) -> tuple[Array, int]:
    """The same keys as numbers without holes, in order, and how many there are."""
    if places > _PLACES + _PLACES_PER_ROW * len(keys):
        found, numbers = np.unique(keys, return_inverse=True)
        return numbers, len(found)
    there = np.zeros(places, bool)
    there[keys] = True
    numbers = np.cumsum(there) - 1
    return numbers[keys], int(np.count_nonzero(there))


def _counted(keys: Array, places: int) -> tuple[Array, Array]:
    """The keys that there are, in order, and how often each is there."""
    if places > _PLACES + _PLACES_PER_ROW * len(keys):
        return np.unique(keys, return_counts=True)
    counts = np.bincount(keys, minlength=places)
    there = np.flatnonzero(counts)
    return there, counts[there]
