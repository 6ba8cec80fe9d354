"""How long tasks took, in buckets."""

from __future__ import annotations

import math

import pytest

from famulus.core.dispatch.latency import BUCKETS, PER_E_FOLD, Latency

DAY_NS = 24 * 3600 * 10**9


def bucket_of(duration_ns: int) -> int:
    latency = Latency()
    latency.add(duration_ns)
    return latency.counts.index(1)


def test_nothing_is_kept_for_a_service_that_nobody_uses() -> None:
    assert Latency().counts == []


@pytest.mark.parametrize("duration_ns", [2, 1_000, 123_456, 10**9, 60 * 10**9])
def test_a_bucket_tells_a_duration_to_within_a_few_percent(duration_ns: int) -> None:
    middle = math.exp((bucket_of(duration_ns) + 0.5) / PER_E_FOLD)
    assert middle / duration_ns == pytest.approx(1, abs=0.035)


@pytest.mark.parametrize("duration_ns", [-5, 0, 1])
def test_what_took_no_time_is_in_the_first_bucket(duration_ns: int) -> None:
    assert bucket_of(duration_ns) == 0


def test_what_took_longer_than_a_day_is_in_the_last_one() -> None:
    assert bucket_of(100 * DAY_NS) == BUCKETS - 1


def test_counts_and_sum_grow_by_each_task() -> None:
    latency = Latency()
    for duration_ns in (1_000, 1_000, 5_000):
        latency.add(duration_ns)
    assert (sum(latency.counts), latency.sum_ns) == (3, 7_000)
