"""The hybrid logical clock: later than what was seen, unless that was absurd."""

from __future__ import annotations

from famulus.core.config.clock import AHEAD_MS_MAX, COUNT_BITS, HybridClock, time_ms
from famulus.wire import limits

NOW_MS = 1_800_000_000_000
YEAR_MS = 365 * 24 * 3600 * 1000


def test_it_moves_on_with_every_edit_also_within_a_millisecond() -> None:
    clock = HybridClock()
    instants = [clock.next(NOW_MS) for _ in range(3000)]
    assert instants == sorted(set(instants))
    assert time_ms(instants[0]) == NOW_MS
    assert time_ms(instants[-1]) == NOW_MS + 2, "a thousand a millisecond, and more run ahead of the time"


def test_it_follows_time() -> None:
    clock = HybridClock()
    clock.next(NOW_MS)
    assert clock.next(NOW_MS + 5) == (NOW_MS + 5) << COUNT_BITS


def test_an_edit_is_later_than_those_that_its_broker_has_seen() -> None:
    clock = HybridClock()
    seen = (NOW_MS + 30_000) << COUNT_BITS
    clock.observe(seen, NOW_MS)
    assert clock.next(NOW_MS) == seen + 1
    clock.observe(seen - 1000, NOW_MS)
    assert clock.next(NOW_MS) == seen + 2


def test_a_clock_that_goes_back_a_little_does_not_take_us_back() -> None:
    clock = HybridClock()
    before = clock.next(NOW_MS)
    assert clock.next(NOW_MS - 50_000) == before + 1


def test_a_peer_from_the_future_is_not_followed() -> None:
    clock = HybridClock()
    for hlc in (((NOW_MS + AHEAD_MS_MAX) << COUNT_BITS) + 1, (NOW_MS + YEAR_MS) << COUNT_BITS, limits.INTEGER_MAX):
        clock.observe(hlc, NOW_MS)
    assert clock.next(NOW_MS) == NOW_MS << COUNT_BITS


def test_one_absurd_clock_does_not_make_us_forget_the_others() -> None:
    clock = HybridClock()
    seen = (NOW_MS + 30_000) << COUNT_BITS
    clock.observe(seen, NOW_MS)
    clock.observe(limits.INTEGER_MAX, NOW_MS)
    assert clock.next(NOW_MS) == seen + 1


def test_our_own_visit_to_the_future_is_forgotten() -> None:
    clock = HybridClock()
    clock.next(NOW_MS + YEAR_MS)
    assert clock.next(NOW_MS) == NOW_MS << COUNT_BITS


def test_whatever_the_time_is_the_instant_can_be_written() -> None:
    for now_ms in (-(10**20), -1, 0, 1 << 43, 10**20):
        clock = HybridClock()
        for _ in range(3):
            assert 0 < clock.next(now_ms) <= limits.INTEGER_MAX
