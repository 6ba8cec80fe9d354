"""What counts in buckets say about durations. Knows no clock."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from famulus.core.clock import NS_PER_MS
from famulus.core.dispatch.latency import PER_E_FOLD

Counts = Sequence[int]


def quantile_ms(counts: Counts, share: float) -> float | None:
    """The duration that this share of the tasks did not exceed, right to within 3 %; None if there was no task."""
    total = sum(counts)
    if not total:
        return None
    wanted = share * total
    passed = 0
    for bucket, count in enumerate(counts):
        passed += count
        if count and passed >= wanted:
            return round(exp((bucket + 0.5) / PER_E_FOLD) / NS_PER_MS, 3)
    raise AssertionError("the buckets hold all tasks")


def up_to(counts: Counts, bounds_s: Sequence[float]) -> list[int]:
    """How many took no longer than each of these bounds, which ascend. A bucket belongs where its middle is."""
    sums = [0] * len(bounds_s)
    at = 0
    passed = 0
    for bucket, count in enumerate(counts):
        if not count:
            continue
        middle_s = exp((bucket + 0.5) / PER_E_FOLD) / 1e9
        while at < len(bounds_s) and middle_s > bounds_s[at]:
            sums[at] = passed
            at += 1
        passed += count
    sums[at:] = [passed] * (len(bounds_s) - at)
    return sums


def difference(later: Counts, earlier: Counts) -> list[int]:
    """What was counted in between; everything, if there is nothing earlier."""
    if len(earlier) != len(later):
        return list(later)
    return [max(0, after - before) for after, before in zip(later, earlier, strict=True)]
