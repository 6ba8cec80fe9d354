"""How often those at one address may begin: few at once, then one after another, and the others do not notice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from famulus.core.clock import NS_PER_S
from famulus.net import handshake_rate
from famulus.net.handshake_rate import AT_ONCE, PER_SECOND, WAIT_NS, HandshakeRate

HERE = "10.0.0.1"
EVERY_NS = NS_PER_S // PER_SECOND
#: Those who wait no longer than anybody may.
WAITING = WAIT_NS // EVERY_NS


def turns(rate: HandshakeRate, host: str, times: int, now_ns: int = 0) -> list[int]:
    """Of those who are not sent away."""
    found = [rate.turn_ns(host, now_ns) for _ in range(times)]
    return [turn for turn in found if turn is not None]


def test_some_begin_at_once_and_the_others_one_after_another() -> None:
    found = turns(HandshakeRate(), HERE, AT_ONCE + PER_SECOND)
    assert found[:AT_ONCE] == [0] * AT_ONCE
    assert found[AT_ONCE:] == [number * EVERY_NS for number in range(1, PER_SECOND + 1)]


def test_after_a_while_some_may_begin_at_once_again() -> None:
    rate = HandshakeRate()
    turns(rate, HERE, AT_ONCE + PER_SECOND)
    later_ns = 1000 * NS_PER_S
    assert turns(rate, HERE, AT_ONCE, later_ns) == [later_ns] * AT_ONCE


def test_who_would_wait_too_long_is_sent_away() -> None:
    found = turns(HandshakeRate(), HERE, 2 * WAITING)
    assert len(found) == AT_ONCE + WAITING
    assert WAIT_NS - EVERY_NS < found[-1] <= WAIT_NS


def test_those_who_are_sent_away_take_nothing_from_those_who_come_after_them() -> None:
    """Otherwise nobody at an address would get in while somebody there tries more often than is allowed."""
    rate = HandshakeRate()
    turns(rate, HERE, AT_ONCE + WAITING)
    tries = 10 * PER_SECOND
    found = sum(rate.turn_ns(HERE, number * NS_PER_S // tries) is not None for number in range(tries))
    assert PER_SECOND * 0.9 <= found <= PER_SECOND


@given(some.lists(some.integers(0, NS_PER_S // 10), max_size=300))
def test_never_more_begin_than_are_allowed(pauses: list[int]) -> None:
    rate, now_ns, found = HandshakeRate(), 0, []
    for pause_ns in pauses:
        now_ns += pause_ns
        turn_ns = rate.turn_ns(HERE, now_ns)
        assert turn_ns is not None
        assert turn_ns >= now_ns
        found.append(turn_ns)
    assert found == sorted(found), "in the order in which they came"
    for number, turn_ns in enumerate(found[AT_ONCE:]):
        assert turn_ns - found[number] >= EVERY_NS, "of one more than that, not all at once"


def test_those_at_another_address_do_not_notice() -> None:
    rate = HandshakeRate()
    turns(rate, HERE, 2 * WAITING)
    assert rate.turn_ns(HERE, 0) is None
    assert rate.turn_ns("10.0.0.2", 0) == 0


def test_a_machine_has_many_addresses_of_ipv6_and_counts_once() -> None:
    rate = HandshakeRate()
    found = [rate.turn_ns(f"2001:db8:1:2::{number:x}", 0) for number in range(2 * AT_ONCE)]
    assert found.count(0) == AT_ONCE
    assert rate.turn_ns("2001:db8:1:3::1", 0) == 0


def test_it_remembers_a_bounded_number_of_addresses() -> None:
    rate = HandshakeRate()
    for number in range(handshake_rate.ADDRESSES_MAX + 10):
        rate.turn_ns(f"10.0.{number >> 8}.{number & 255}", 0)
    assert len(rate._all_done_ns) == handshake_rate.ADDRESSES_MAX
