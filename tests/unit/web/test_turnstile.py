"""So many at once, and so many in a row."""

from __future__ import annotations

from famulus.web.turnstile import Turnstile


def test_only_so_many_at_once() -> None:
    turnstile = Turnstile(2)
    assert [turnstile.enter(0) for _ in range(3)] == [True, True, False]
    turnstile.leave()
    assert [turnstile.enter(0) for _ in range(2)] == [True, False]


def test_after_so_many_in_a_row_they_keep_their_distance() -> None:
    turnstile = Turnstile(100, in_a_row=3, distance_ns=10)
    assert [turnstile.enter(1000) for _ in range(4)] == [True, True, True, False]
    assert [turnstile.enter(1009), turnstile.enter(1010), turnstile.enter(1010)] == [False, True, False]
    assert [turnstile.enter(5000) for _ in range(4)] == [True, True, True, False], "who waits has a row again"


def test_who_is_refused_takes_nobodys_turn() -> None:
    turnstile = Turnstile(1, in_a_row=1, distance_ns=10)
    assert turnstile.enter(0)
    turnstile.leave()
    assert not any(turnstile.enter(now_ns) for now_ns in range(10))
    assert turnstile.enter(10)
