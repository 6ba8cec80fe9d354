"""A process that died is started again: at once, then later and later, and not for ever."""

from __future__ import annotations

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.restarts import DELAY_MAX_NS, STORM_DEATHS, STORM_NS, Restarts

START_NS = 1000 * NS_PER_S


def test_a_single_death_costs_no_time() -> None:
    assert Restarts().delay_ns(START_NS) == 0


def test_deaths_in_a_row_wait_longer_each_time_and_end_in_a_storm() -> None:
    restarts = Restarts()
    delays = [restarts.delay_ns(START_NS + number * NS_PER_MS) for number in range(STORM_DEATHS)]
    assert delays == [0, 100 * NS_PER_MS, 200 * NS_PER_MS, 400 * NS_PER_MS, 800 * NS_PER_MS, None]
    assert all(delay is None or delay <= DELAY_MAX_NS for delay in delays)


def test_deaths_far_from_each_other_are_single_ones() -> None:
    restarts = Restarts()
    assert [restarts.delay_ns(START_NS + number * STORM_NS) for number in range(50)] == [0] * 50


def test_a_process_that_dies_now_and_then_is_never_given_up() -> None:
    restarts = Restarts()
    step_ns = STORM_NS // (STORM_DEATHS - 1) + 1
    assert all(restarts.delay_ns(START_NS + number * step_ns) is not None for number in range(100))
