"""The tests of significance: known values, and that chance alone is called chance."""

from __future__ import annotations

import math

import numpy as np
import pytest

from famulus.pipeline.compare.significance import (
    Mean,
    holm,
    mean_of,
    p_of_means,
    p_of_shares,
    p_of_t,
    p_of_table,
    p_of_z,
)


@pytest.mark.parametrize(
    ("t", "freedom", "p"),
    # From tables of Student's t.
    [(2.228, 10, 0.05), (3.169, 10, 0.01), (2.776, 4, 0.05), (2.042, 30, 0.05), (1.96, 1e9, 0.05), (0.0, 5, 1.0)],
)
def test_students_t_is_that_of_the_tables(t: float, freedom: float, p: float) -> None:
    assert p_of_t(t, freedom) == pytest.approx(p, rel=0.02)
    assert p_of_t(-t, freedom) == p_of_t(t, freedom)


def test_fishers_test_is_that_of_the_book() -> None:
    """The lady who tastes tea: 3 of 4 cups right."""
    assert p_of_table(3, 1, 1, 3) == pytest.approx(34 / 70)
    assert p_of_table(4, 0, 0, 4) == pytest.approx(2 / 70)
    assert p_of_table(0, 5, 0, 7) == 1.0


def test_holm_corrects_the_smallest_most_and_keeps_their_order() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_mean_is_weighted_by_tasks_and_knows_how_far_it_may_be_off() -> None:
    mean = mean_of(np.array([10.0, 0.0, 40.0]), np.array([5.0, 0.0, 10.0]))
    assert mean.value == pytest.approx(50 / 15)
    # Deviations -6.67 and 6.67 of 15 tasks, in two bins that count.
    assert mean.variance == pytest.approx(2 * 2 * (20 / 3) ** 2 / 15**2)
    assert mean.freedom == 1


def test_without_any_spread_a_difference_is_one() -> None:
    same, other = Mean(3.0, 0.0, 5), Mean(3.1, 0.0, 5)
    assert p_of_means(same, same) == 1.0
    assert p_of_means(same, other) == 0.0


def test_two_proportions_by_hand() -> None:
    """40 and 60 of 1,000: z = 0.02 / sqrt(0.05 * 0.95 * 2 / 1000)."""
    p = p_of_shares(Mean(0.04, 0.0, 9), 1000, Mean(0.06, 0.0, 9), 1000)
    assert p == pytest.approx(p_of_z(0.02 / math.sqrt(0.05 * 0.95 * 0.002)))
    assert p_of_shares(Mean(0.0, 0.0, 9), 50, Mean(0.0, 0.0, 9), 50) == 1.0
    assert p_of_shares(Mean(0.0, 0.0, 9), 50, Mean(1.0, 0.0, 9), 50) < 1e-9


def test_one_burst_is_less_than_as_many_failures_here_and_there() -> None:
    """Ten failures in 1,000 tasks after none: in ten minutes of an hour, or all in one."""
    tasks, none = np.full(50, 20.0), np.zeros(50)
    scattered, burst = none.copy(), none.copy()
    scattered[::5], burst[30] = 1, 10
    before = mean_of(none, tasks)
    assert p_of_shares(before, 1000, mean_of(scattered, tasks), 1000) < 0.01
    assert p_of_shares(before, 1000, mean_of(burst, tasks), 1000) > 0.2


def minutes(random: np.random.Generator, bins: int, per_bin: float, lasts: float) -> tuple[np.ndarray, np.ndarray]:
    """Skewed times, and what slows whole minutes: `lasts` is how much of it is there in the next minute."""
    tasks = random.poisson(per_bin, bins).astype(float)
    drift, sums = 0.0, np.zeros(bins)
    for at, number in enumerate(tasks):
        drift = lasts * drift + math.sqrt(1 - lasts * lasts) * random.normal()
        sums[at] = random.exponential(1.0, int(number)).sum() + 0.3 * drift * number
    return sums, tasks


@pytest.mark.parametrize(
    ("before", "after"),
    [((60, 10, 0.0), (60, 10, 0.0)), ((10, 5, 0.0), (10, 50, 0.0)), ((60, 10, 0.7), (60, 10, 0.7))],
    ids=["alike", "ten times the load", "slow for minutes"],
)
def test_chance_alone_is_seldom_called_a_difference(
    before: tuple[int, float, float], after: tuple[int, float, float]
) -> None:
    random = np.random.default_rng(3)
    ps = [p_of_means(mean_of(*minutes(random, *before)), mean_of(*minutes(random, *after))) for _ in range(300)]
    assert sum(p < 0.05 for p in ps) / len(ps) < 0.09


def test_what_is_twice_as_slow_is_seen() -> None:
    random = np.random.default_rng(4)
    for _ in range(20):
        sums, tasks = minutes(random, 30, 10, 0.5)
        assert p_of_means(mean_of(sums, tasks), mean_of(*_slower(random))) < 0.01


def _slower(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    sums, tasks = minutes(random, 30, 10, 0.5)
    return sums + tasks, tasks
