"""Arithmetic of measurements: rounds in turn, percentiles and medians."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

PERCENTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}

Figures = dict[str, float]
Progress = Callable[[str, Figures], None]


def percentile(ordered: list[int], share: float) -> int:
    """The value that this share of the (sorted) values does not exceed."""
    if not ordered:
        return 0
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def latencies_us(nanoseconds: list[int]) -> Figures:
    ordered = sorted(nanoseconds)
    return {name: percentile(ordered, share) / 1000 for name, share in PERCENTILES.items()}


def median_of(rounds: list[Figures]) -> Figures:
    """The median of each figure over the rounds."""
    return {name: median(each[name] for each in rounds) for name in rounds[0]}


def in_turn(
    sides: Sequence[str], rounds: int, measure: Callable[[str], Figures], progress: Progress
) -> dict[str, dict[str, Any]]:
    """Measures all sides round by round, so that whatever else this machine does hits them alike: medians and rounds.

    The order alternates: whichever comes second may find the machine warmed up, or too hot.
    """
    seen: dict[str, list[Figures]] = {side: [] for side in sides}
    for number in range(rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            figures = measure(side)
            seen[side].append(figures)
            progress(side, figures)
    return {"medians": {side: median_of(each) for side, each in seen.items()}, "rounds": seen}
