"""Counts values in buckets whose width grows with the value, and reads percentiles from them. Integers only.

The idea of HdrHistogram: below 2 * STEPS every value has its own bucket; above, every doubling is cut into STEPS
buckets of equal width. So a value is known to within 1 / STEPS of itself, from nanoseconds to hours, in a table that
does not grow with the number of values, and two tables can be added.
"""

from __future__ import annotations

from itertools import accumulate

import msgspec

STEP_BITS = 7
STEPS = 1 << STEP_BITS

MILLION = 1_000_000
#: In parts per million, so that ranks are exact.
PERCENTILES = {"p50": 500_000, "p75": 750_000, "p90": 900_000, "p99": 990_000, "p99.9": 999_000, "p99.99": 999_900}


def index_of(value: int) -> int:
    """The number of the bucket that this value belongs to."""
    assert value >= 0
    shift = max(0, value.bit_length() - STEP_BITS - 1)
    return (shift << STEP_BITS) + (value >> shift)


def highest_in(index: int) -> int:
    """The largest value of this bucket."""
    shift = max(0, (index >> STEP_BITS) - 1)
    return (((index - (shift << STEP_BITS)) + 1) << shift) - 1


class LatencyBuckets(msgspec.Struct):
    counts: dict[int, int] = msgspec.field(default_factory=dict)
    #: The largest value seen, exactly.
    highest: int = 0

    def __len__(self) -> int:
        return sum(self.counts.values())

    def add(self, value: int) -> None:
        self._add(index_of(value), 1, value)

    def merge(self, other: LatencyBuckets) -> None:
        for index, count in other.counts.items():
            self._add(index, count, other.highest)

    def _add(self, index: int, count: int, highest: int) -> None:
        self.counts[index] = self.counts.get(index, 0) + count
        if highest > self.highest:
            self.highest = highest

    def cumulated(self) -> list[tuple[int, int]]:
        """For each bucket in use: its largest value, and how many values do not exceed it."""
        used = sorted(self.counts)
        seen = accumulate(self.counts[index] for index in used)
        return [(min(highest_in(index), self.highest), count) for index, count in zip(used, seen, strict=True)]

    def percentile(self, share_ppm: int) -> int:
        """The value that this share of the values does not exceed, at most one bucket too high; 0 if there are none."""
        rank = max(1, -(-len(self) * share_ppm // MILLION))
        return next((value for value, seen in self.cumulated() if seen >= rank), 0)

    def percentiles(self) -> dict[str, int | None]:
        """None where there are too few values: 500 of them cannot tell what 9,999 of 10,000 do not exceed."""
        total = len(self)
        return {
            name: self.percentile(share) if total * (MILLION - share) >= MILLION else None
            for name, share in PERCENTILES.items()
        }

    def written(self) -> dict[str, object]:
        """For people: pairs of bucket and count, in order."""
        return {"counts": sorted(self.counts.items()), "highest": self.highest}
