"""Whether two series differ by more than chance explains. Knows only arrays of numbers.

Tasks of one minute are not independent: failures come in bursts, and a slow minute is slow for all. So the unit is not
the task but the bin, such as a minute, with the weight of its tasks: how much the bins of a side differ among
themselves says how far its mean may be off. Bins beside each other are alike, too; by how much is measured, and makes
the mean less certain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

#: Of the likeness of neighbours: with more, nothing could ever be said.
LIKENESS_MAX: Final = 0.9
#: Below this the normal approximation of shares is not good enough, and all tables are counted (Fisher).
EXPECTED_MIN: Final = 5.0
#: Fewer bins say too little about how much they differ.
SPREAD_BINS_MIN: Final = 8


@dataclass(frozen=True, slots=True)
class Mean:
    """Over tasks, from sums by bin."""

    value: float
    #: Of the value: the square of how far it is usually off.
    variance: float
    #: Degrees of freedom of the variance.
    freedom: float


def mean_of(sums: np.ndarray, weights: np.ndarray) -> Mean:
    """`sums`: in each bin, over its tasks; `weights`: how many these are. Bins without tasks do not count."""
    total = float(weights.sum())
    value = float(sums.sum()) / total
    off = (sums - value * weights) / total
    found = _spread(off, weights)
    # What lasts for longer than a bin shows only in longer ones.
    while len(off) >= 2 * SPREAD_BINS_MIN:
        off, weights = _in_pairs(off), _in_pairs(weights)
        found = max(found, _spread(off, weights))
    return Mean(value, *found)


def _spread(off: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The variance of a sum of such deviations, and its degrees of freedom."""
    used = int(np.count_nonzero(weights))
    squares = float(off @ off)
    if used < 2 or squares == 0:
        return 0.0, max(used - 1.0, 1.0)
    likeness = min(max(float(off[:-1] @ off[1:]) / squares, 0.0), LIKENESS_MAX)
    longer = (1 + likeness) / (1 - likeness)
    return squares * used / (used - 1) * longer, max(used / longer - 1, 1.0)


def _in_pairs(values: np.ndarray) -> np.ndarray:
    whole: np.ndarray = np.add.reduceat(values, np.arange(0, len(values), 2))
    return whole


def p_of_means(before: Mean, after: Mean) -> float:
    """How often chance alone makes a difference that large (Welch's t test)."""
    variance = before.variance + after.variance
    if variance == 0:
        return 1.0 if before.value == after.value else 0.0
    freedom = variance**2 / sum(each.variance**2 / each.freedom for each in (before, after))
    return p_of_t((after.value - before.value) / math.sqrt(variance), freedom)


def p_of_shares(before: Mean, tasks_before: int, after: Mean, tasks_after: int) -> float:
    """The same for shares, such as that of failures: a z test of two proportions, or Fisher's if there are few.

    Where bins differ more than independent tasks would, that many tasks count as one.
    """
    alone = sum(each.value * (1 - each.value) / tasks for each, tasks in ((before, tasks_before), (after, tasks_after)))
    if alone == 0:
        # All or none on each side: no spread could be measured.
        alike = 1.0
    else:
        alike = max(1.0, (before.variance + after.variance) / alone)
    n, m = tasks_before / alike, tasks_after / alike
    x, y = before.value * n, after.value * m
    share = (x + y) / (n + m)
    if min(n, m) * min(share, 1 - share) < EXPECTED_MIN:
        return p_of_table(round(x), round(n - x), round(y), round(m - y))
    return p_of_z((after.value - before.value) / math.sqrt(share * (1 - share) * (1 / n + 1 / m)))


def p_of_z(z: float) -> float:
    return math.erfc(abs(z) / math.sqrt(2))


def p_of_t(t: float, freedom: float) -> float:
    """Wallace's approximation, right to some percent of the probability itself for the degrees that are met here."""
    z = math.sqrt(freedom * math.log1p(t * t / freedom)) * (8 * freedom + 1) / (8 * freedom + 3)
    return p_of_z(z)


def p_of_table(a: int, b: int, c: int, d: int) -> float:
    """Fisher's exact test of a of a + b against c of c + d: all tables that are not more likely than this one."""
    row, column, total = a + b, a + c, a + b + c + d
    low, high = max(0, row + column - total), min(row, column)
    logs = [_log_choose(row, at) + _log_choose(total - row, column - at) for at in range(low, high + 1)]
    whole = _log_choose(total, column)
    # Tables that are exactly as likely must not be lost to rounding.
    limit = logs[a - low] + 1e-7
    return min(1.0, sum(math.exp(each - whole) for each in logs if each <= limit))


def _log_choose(of: int, some: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(some + 1) - math.lgamma(of - some + 1)


def holm(ps: Sequence[float]) -> list[float]:
    """Corrected for how many they are, so that among all of them a false alarm is as rare as with one (Holm)."""
    order = sorted(range(len(ps)), key=lambda at: ps[at])
    found = [0.0] * len(ps)
    highest = 0.0
    for rank, at in enumerate(order):
        highest = max(highest, min(1.0, ps[at] * (len(ps) - rank)))
        found[at] = highest
    return found
