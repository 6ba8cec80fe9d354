"""Whether a process hangs: by its silence, and by what the system says of it."""

from __future__ import annotations

import pytest

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.hangs import ALIVE_NS, DOUBT_NS, HANG_NS, LATE_NS, LOOK_NS, STILL_LOOKS, STILL_NS, Doubts, pause_ns


def found_after_ns(states: str, works: bool) -> int:
    """When one hangs that says nothing from 0 on, and is in these states in turn; NEVER_NS if not within HANG_NS."""
    doubts = Doubts()
    now_ns = looks = 0
    while (now_ns := doubts.look_ns(0)) < HANG_NS:
        state = states[looks % len(states)]
        looks += 1
        if doubts.hangs(now_ns, 0, state, looks if works else 7):
            return now_ns
    return NEVER_NS


@pytest.mark.parametrize("states", ["T", "t", "S"])
def test_one_that_does_nothing_is_found_early(states: str) -> None:
    assert STILL_NS <= found_after_ns(states, works=False) <= STILL_NS + LOOK_NS
    assert STILL_NS + LOOK_NS < 2 * NS_PER_S


@pytest.mark.parametrize("states", ["R", "D", "RS", "SR", "SSR", "X"])
def test_one_that_runs_or_would_if_it_could_is_not(states: str) -> None:
    """On a machine that has too much to do it is the turn of others for a while; and a disk may be slow."""
    assert found_after_ns(states, works=False) == NEVER_NS


def test_one_that_works_between_two_looks_does_not_hang() -> None:
    assert found_after_ns("S", works=True) == NEVER_NS


def test_one_that_speaks_is_not_looked_at() -> None:
    doubts = Doubts()
    for heard_ns in range(0, 20 * NS_PER_S, ALIVE_NS):
        assert doubts.look_ns(heard_ns) >= heard_ns + DOUBT_NS > heard_ns + ALIVE_NS
        assert not doubts.hangs(heard_ns + ALIVE_NS, heard_ns, "S", 1)


def test_a_word_in_between_ends_all_doubts() -> None:
    doubts = Doubts()
    assert not doubts.hangs(DOUBT_NS, 0, "S", 1)
    heard_ns = DOUBT_NS + 1
    assert not doubts.hangs(heard_ns + 1, heard_ns, "S", 1)
    looks = [doubts.hangs(heard_ns + STILL_NS + number, heard_ns, "S", 1) for number in range(STILL_LOOKS)]
    assert looks == [False] * (STILL_LOOKS - 1) + [True], "counted from the first look after the word"


def test_what_we_missed_ourselves_is_forgiven() -> None:
    assert pause_ns(10 * NS_PER_S, 4 * NS_PER_S) == 6 * NS_PER_S
    assert pause_ns(LATE_NS, 0) == 0
    assert pause_ns(LATE_NS + NS_PER_MS, 0) == LATE_NS + NS_PER_MS
    assert pause_ns(NS_PER_S, 2 * NS_PER_S) == 0
    assert pause_ns(NS_PER_S, NEVER_NS) == 0
