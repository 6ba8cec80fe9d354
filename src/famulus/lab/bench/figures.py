"""Arithmetic of measurements: percentiles and medians."""

from __future__ import annotations

from statistics import median

PERCENTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


def percentile(ordered: list[int], share: float) -> int:
    """The value that this share of the (sorted) values does not exceed."""
    if not ordered:
        return 0
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def latencies_us(nanoseconds: list[int]) -> dict[str, float]:
    ordered = sorted(nanoseconds)
    return {name: percentile(ordered, share) / 1000 for name, share in PERCENTILES.items()}


def median_of(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The median of each figure over the rounds."""
    return {name: median(each[name] for each in rounds) for name in rounds[0]}
