"""Buckets against the truth: the sorted list of all values."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from famulus.lab.bench.buckets import MILLION, PERCENTILES, STEPS, LatencyBuckets, highest_in, index_of

VALUES = st.integers(min_value=0, max_value=10**13)


def filled(values: list[int]) -> LatencyBuckets:
    buckets = LatencyBuckets()
    for value in values:
        buckets.add(value)
    return buckets


@given(VALUES)
def test_a_value_is_known_to_within_one_step(value: int) -> None:
    highest = highest_in(index_of(value))
    assert value <= highest <= value + value // STEPS


def test_buckets_are_neighbours_without_gaps() -> None:
    """The highest value of each bucket is followed by the lowest of the next."""
    for index in range(5000):
        assert index_of(highest_in(index)) == index
        assert index_of(highest_in(index) + 1) == index + 1


@given(st.lists(VALUES, min_size=1, max_size=300), st.integers(min_value=1, max_value=MILLION))
def test_percentiles_are_those_of_the_sorted_values(values: list[int], share_ppm: int) -> None:
    rank = max(1, -(-len(values) * share_ppm // MILLION))
    truth = sorted(values)[rank - 1]
    assert truth <= filled(values).percentile(share_ppm) <= truth + truth // STEPS


@given(st.lists(VALUES), st.lists(VALUES))
def test_two_tables_can_be_added(some: list[int], others: list[int]) -> None:
    merged = filled(some)
    merged.merge(filled(others))
    whole = filled(some + others)
    assert (merged.counts, merged.highest, len(merged)) == (whole.counts, whole.highest, len(some + others))


@pytest.mark.parametrize("seed", range(5))
def test_a_long_tail_keeps_its_percentiles(seed: int) -> None:
    chance = random.Random(seed)
    values = [int(chance.lognormvariate(12, 1.5)) for _ in range(20_000)]
    ordered = sorted(values)
    for name, found in filled(values).percentiles().items():
        truth = ordered[-(-len(values) * PERCENTILES[name] // MILLION) - 1]
        assert found == pytest.approx(truth, rel=1 / STEPS), name


def test_a_percentile_that_needs_more_values_is_left_out() -> None:
    few = filled([1] * 999).percentiles()
    assert few["p99"] == 1
    assert few["p99.9"] is None
    assert filled([1] * 1000).percentiles()["p99.9"] == 1


def test_without_values_there_is_nothing() -> None:
    assert LatencyBuckets().percentile(500_000) == 0
    assert LatencyBuckets().percentiles()["p50"] is None
    assert LatencyBuckets().cumulated() == []


def test_cumulated_ends_with_all_values_and_the_largest() -> None:
    assert filled([3, 3, 100_003]).cumulated() == [(3, 2), (100_003, 3)]


def test_what_is_written_can_be_read() -> None:
    buckets = filled([1, 5, 5, 123_456_789])
    again = LatencyBuckets(dict(sorted(buckets.counts.items())), buckets.highest)
    assert again.percentiles() == buckets.percentiles()
    assert again.written() == buckets.written()
