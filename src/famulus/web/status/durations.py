"""What the counts of a histogram say about durations. Knows no clock."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from math import exp

from famulus.core.clock import NS_PER_MS
from famulus.core.dispatch.latency import PER_E_FOLD

Counts = Sequence[int]


def quantile_ms(counts: Counts, share: float) -> float | None:
    """The duration that this share of the tasks did not exceed, right to within 3 %; None if there was no task."""
    total = sum(counts)
    if not total:
        return None
    # The first bucket at which the running total is not zero and reaches this share.
    reached = next(place for place, passed in enumerate(accumulate(counts)) if passed and passed >= share * total)
    return round(_middle_ns(reached) / NS_PER_MS, 3)


def up_to(counts: Counts, bounds_s: Sequence[float]) -> list[int]:
    """How many took no longer than each of these ascending bounds. A bucket belongs where its middle is."""
    between = [0] * (len(bounds_s) + 1)
    for bucket, count in enumerate(counts):
        if count:
            between[bisect_left(bounds_s, _middle_ns(bucket) / 1e9)] += count
    return list(accumulate(between))[:-1]


def _middle_ns(bucket: int) -> float:
    return exp((bucket + 0.5) / PER_E_FOLD)


def difference(later: Counts, earlier: Counts) -> list[int]:
    """What was counted in between; everything, if there is nothing earlier."""
    if len(earlier) != len(later):
        return list(later)
    return [max(0, after - before) for after, before in zip(later, earlier, strict=True)]
