"""Quantiles and bounds from counts in buckets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from famulus.core.dispatch.latency import BUCKETS, Latency
from famulus.web.status.durations import difference, quantile_ms, up_to

DURATIONS_NS = st.lists(st.integers(1, 86_400 * 10**9), min_size=1, max_size=200)


def counted(durations_ns: list[int]) -> Latency:
    latency = Latency()
    for each in durations_ns:
        latency.add(each)
    return latency


def test_nothing_counted_says_nothing() -> None:
    assert quantile_ms([], 0.5) is None
    assert quantile_ms([0] * BUCKETS, 0.99) is None


@given(DURATIONS_NS, st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_right_to_within_a_bucket(durations_ns: list[int], share: float) -> None:
    exact_ms = next(
        each / 1e6 for rank, each in enumerate(sorted(durations_ns), 1) if rank >= share * len(durations_ns)
    )
    assert quantile_ms(counted(durations_ns).counts, share) == pytest.approx(exact_ms, rel=0.065, abs=0.001)


@given(DURATIONS_NS)
def test_nothing_is_lost_in_the_buckets(durations_ns: list[int]) -> None:
    latency = counted(durations_ns)
    assert sum(latency.counts) == len(durations_ns)
    assert latency.sum_ns == sum(durations_ns)
    sums = up_to(latency.counts, [0.001, 1.0, 1e9])
    assert sums == sorted(sums)
    assert sums[-1] == len(durations_ns)


@pytest.mark.parametrize("duration_ns", [-5, 0, 1, 10**30])
def test_whatever_the_clock_says_has_a_bucket(duration_ns: int) -> None:
    assert sum(counted([duration_ns]).counts) == 1


def test_bounds_part_what_is_clearly_apart() -> None:
    counts = counted([1_000_000] * 3 + [200_000_000] * 2).counts
    assert up_to(counts, [0.0005, 0.01, 0.1, 1.0]) == [0, 3, 3, 5]


def test_a_difference_is_what_came_in_between() -> None:
    assert difference([3, 5], [1, 5]) == [2, 0]
    assert difference([3, 5], []) == [3, 5], "there is nothing earlier"
