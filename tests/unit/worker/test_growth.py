"""More threads come for slow functions, not for quick ones."""

from __future__ import annotations

from famulus.core.clock import NEVER_NS, NS_PER_MS
from famulus.worker.growth import FEW, LOOK_NS, REMEMBERED, SILENCE_NS, Growth

SLOW = [10 * NS_PER_MS] * REMEMBERED
QUICK = [2_000] * REMEMBERED


def look(growth: Growth, looks: int, threads: int, waiting: int, lasted: list[int], finished_per_look: int) -> int:
    """How many threads there are after some looks."""
    for number in range(looks + 1):
        threads += growth.later(number * LOOK_NS, threads, waiting, number * finished_per_look, lasted)
    return threads


def test_a_few_are_there_at_once_but_not_more_than_tasks_or_slots() -> None:
    assert Growth(100).at_once(0, 50) == FEW
    assert Growth(100).at_once(0, 2) == 2
    assert Growth(1).at_once(0, 50) == 1
    assert Growth(100).at_once(FEW, 50) == 0


def test_slow_calls_double_the_threads_at_each_look_up_to_the_limit() -> None:
    assert look(Growth(256), 1, 4, 1000, SLOW, 1) == 8
    assert look(Growth(256), 6, 4, 1000, SLOW, 1) == 256
    assert look(Growth(256), 20, 4, 1000, SLOW, 1) == 256


def test_no_more_threads_than_tasks_wait() -> None:
    assert look(Growth(256), 1, 4, 3, SLOW, 1) == 7


def test_quick_calls_never_get_more_threads() -> None:
    assert look(Growth(256), 1000, 4, 1000, QUICK, 100) == 4


def test_quick_calls_that_lost_the_interpreter_are_still_quick() -> None:
    unlucky = QUICK[:-4] + [100 * NS_PER_MS] * 4  # one for each thread
    assert look(Growth(256), 1000, 4, 1000, unlucky, 100) == 4


def test_some_slow_calls_among_quick_ones_count() -> None:
    mixed = QUICK[:-100] + SLOW[:100]
    assert look(Growth(256), 3, 4, 1000, mixed, 10) == 32


def test_when_nothing_is_known_and_nothing_ends_threads_come() -> None:
    assert look(Growth(256), 2, 4, 1000, [], 0) == 16


def test_when_quick_calls_are_followed_by_silence_threads_come() -> None:
    looks = SILENCE_NS // LOOK_NS
    assert look(Growth(256), looks - 1, 4, 1000, QUICK, 0) == 4
    assert look(Growth(256), looks, 4, 1000, QUICK, 0) == 8


def test_looks_only_while_somebody_waits_and_threads_may_come() -> None:
    growth = Growth(8)
    assert growth.next_due_ns == NEVER_NS
    growth.later(5, 4, 1, 0, [])
    assert growth.next_due_ns == 5 + LOOK_NS
    growth.later(6, 4, 0, 0, [])
    assert growth.next_due_ns == NEVER_NS
    growth.later(7, 8, 100, 0, [])
    assert growth.next_due_ns == NEVER_NS
