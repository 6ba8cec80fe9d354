"""Waits double, are bounded, and differ between those who lost the same broker."""

from __future__ import annotations

from random import Random

from famulus.core.backoff import Backoff


def test_waits_double_up_to_the_bound() -> None:
    backoff = Backoff(100, 1000, lambda: 1.0)
    assert [backoff.next_ns() for _ in range(6)] == [100, 200, 400, 800, 1000, 1000]


def test_the_luckiest_one_waits_half_as_long() -> None:
    backoff = Backoff(100, 1000, lambda: 0.0)
    assert [backoff.next_ns() for _ in range(6)] == [50, 100, 200, 400, 500, 500]


def test_every_wait_is_between_half_and_all_of_the_bound_and_they_differ() -> None:
    chance = Random(7).random
    waits = []
    for _ in range(100):
        backoff = Backoff(1000, 8000, chance)
        backoff.next_ns()
        waits.append(backoff.next_ns())
    assert all(1000 <= wait <= 2000 for wait in waits)
    assert len(set(waits)) > 80


def test_a_reset_starts_anew() -> None:
    backoff = Backoff(100, 1000, lambda: 1.0)
    for _ in range(5):
        backoff.next_ns()
    backoff.reset()
    assert backoff.next_ns() == 100


def test_a_million_tries_neither_overflow_nor_exceed_the_bound() -> None:
    backoff = Backoff(100, 1000, lambda: 1.0)
    backoff.tries = 1_000_000
    assert backoff.next_ns() == 1000
