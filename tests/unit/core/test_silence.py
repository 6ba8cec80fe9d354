"""When the other side of a connection counts as lost, in the arithmetic of the settings."""

from __future__ import annotations

import pytest

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.session.brokers import PATIENCE_NS
from famulus.core.silence import EXCUSES_MAX, LATE_NS, SELDOM_NS, SILENT_MAX, SOON_NS, Silence


def lost_after_ns(silent_from_ns: int, every_ns: int, late_ns: int = 0) -> int:
    """When a side that says nothing more from that instant on is lost, if we look that much late each time."""
    silence = Silence(0, every_ns)
    last_ns = 0
    while True:
        now_ns = silence.due_ns + late_ns
        heard = last_ns <= silent_from_ns
        last_ns = now_ns
        if silence.is_lost(now_ns, heard, every_ns):
            return now_ns - silent_from_ns
        assert now_ns < 1000 * NS_PER_S


@pytest.mark.parametrize("moment_ns", range(0, SOON_NS, SOON_NS // 10))
def test_who_waits_for_something_knows_within_two_seconds(moment_ns: int) -> None:
    after_ns = lost_after_ns(SOON_NS + moment_ns, SOON_NS)
    assert SILENT_MAX * SOON_NS <= after_ns <= (SILENT_MAX + 1) * SOON_NS
    # And has a second left to be with another broker within three.
    assert after_ns + PATIENCE_NS[1] < 2500 * NS_PER_MS


def test_who_waits_for_nothing_has_more_time() -> None:
    assert lost_after_ns(SELDOM_NS, SELDOM_NS) >= 6 * NS_PER_S


def test_a_task_makes_an_idle_connection_look_soon() -> None:
    """However long ago the other side fell silent: as soon as if the task had been there all the time."""
    silence = Silence(0, SELDOM_NS)
    asked_ns = 100 * NS_PER_MS
    silence.hurry(asked_ns, SOON_NS)
    assert silence.due_ns == asked_ns + SOON_NS
    looks = 0
    while not silence.is_lost(silence.due_ns, looks == 0, SOON_NS):
        looks += 1
    assert silence.due_ns - SOON_NS - asked_ns <= (SILENT_MAX + 1) * SOON_NS


def test_a_look_that_is_due_is_not_put_off_by_a_task() -> None:
    silence = Silence(0, SELDOM_NS)
    silence.hurry(SELDOM_NS - 1, SOON_NS)
    assert silence.due_ns == SELDOM_NS


def test_anything_that_is_heard_begins_anew() -> None:
    silence = Silence(0, SOON_NS)
    for heard in [False, False, True] * 5:
        assert not silence.is_lost(silence.due_ns, heard, SOON_NS)


def test_late_looks_are_our_own_fault() -> None:
    """We were starved: whoever answered meanwhile was not heard, and whoever is on the same machine was starved too."""
    silence = Silence(0, SOON_NS)
    for _ in range(EXCUSES_MAX):
        assert not silence.is_lost(silence.due_ns + LATE_NS + 1, False, SOON_NS)
    assert not silence.is_lost(silence.due_ns, True, SOON_NS)
    for _ in range(EXCUSES_MAX):
        assert not silence.is_lost(silence.due_ns + LATE_NS + 1, False, SOON_NS)


def test_but_who_is_always_late_finds_out_as_well() -> None:
    assert lost_after_ns(SOON_NS, SOON_NS, LATE_NS + 1) < 3 * (SILENT_MAX + EXCUSES_MAX) * SOON_NS


def test_a_little_late_is_not_late() -> None:
    assert lost_after_ns(SOON_NS, SOON_NS, LATE_NS) < 4 * (SOON_NS + LATE_NS)
