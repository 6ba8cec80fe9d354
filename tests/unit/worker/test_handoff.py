"""One thread at a time does the I/O, and none is kept from it by a function for long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from time import monotonic_ns

import pytest

from famulus.worker.handoff import Handoff

DEADLINE_S = 20.0


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def just_now_ns() -> int:
    """The time of going in that is only just now, whenever the deputy looks and however busy the machine is."""
    return monotonic_ns() + 10**15


class Relay:
    """A hand-off in which each I/O thread notes its turn; the first one is in a function until it is let go."""

    def __init__(self, functions: int = 1, turns: list[int] | None = None) -> None:
        self.turns: list[int] = [] if turns is None else turns
        self.inside: list[int] = []
        self.kept: list[tuple[int, bool]] = []
        self.release = threading.Event()
        self.over = threading.Event()
        self._functions = functions
        self.handoff = Handoff(self._lead)
        self.handoff.start()

    def _lead(self, turn: int) -> None:
        self.turns.append(turn)
        if len(self.turns) <= self._functions:
            until(lambda: len(self.inside) == turn - 1)
            self.handoff.enter(monotonic_ns())
            self.inside.append(turn)
            self.release.wait(DEADLINE_S)
            self.kept.append((turn, self.handoff.leave(turn)))
        else:
            self.over.wait(DEADLINE_S)


def test_who_is_in_a_function_for_long_loses_it_once() -> None:
    relay = Relay()
    until(lambda: relay.turns == [1, 2])
    relay.release.set()
    until(lambda: relay.kept == [(1, False)])
    relay.over.set()
    until(relay.handoff.close)
    assert relay.turns == [1, 2]


def test_the_deputy_has_a_deputy() -> None:
    relay = Relay(functions=3)
    until(lambda: relay.turns == [1, 2, 3, 4])
    relay.release.set()
    until(lambda: sorted(relay.kept) == [(1, False), (2, False), (3, False)])
    relay.over.set()
    until(relay.handoff.close)


def test_a_deputy_that_takes_over_while_it_is_started_has_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = threading.Thread.start
    turns: list[int] = []

    def begin_slowly(thread: threading.Thread) -> None:
        before = len(turns)
        begin(thread)
        until(lambda: len(turns) > before)

    monkeypatch.setattr(threading.Thread, "start", begin_slowly)
    relay = Relay(functions=3, turns=turns)
    until(lambda: turns == [1, 2, 3, 4])
    relay.release.set()
    relay.over.set()
    until(relay.handoff.close)


def test_who_comes_back_soon_keeps_it() -> None:
    seen: list[bool] = []
    finished = threading.Event()

    def lead(turn: int) -> None:
        for _ in range(3):
            handoff.enter(just_now_ns())
            until(lambda: not handoff._has_called)
            seen.append(handoff.leave(turn))
        finished.set()

    handoff = Handoff(lead)
    handoff.start()
    assert finished.wait(DEADLINE_S)
    assert handoff.close()
    assert seen == [True] * 3


def test_a_deputy_that_slept_is_woken() -> None:
    first, second = threading.Event(), threading.Event()
    turns: list[int] = []

    def lead(turn: int) -> None:
        turns.append(turn)
        if turn > 1:
            return
        handoff.enter(just_now_ns())
        assert handoff.leave(turn)
        until(lambda: handoff._deputy_sleeps)
        first.set()
        handoff.enter(monotonic_ns())
        second.wait(DEADLINE_S)

    handoff = Handoff(lead)
    handoff.start()
    assert first.wait(DEADLINE_S)
    until(lambda: turns == [1, 2])
    second.set()
    until(handoff.close)


def test_while_somebody_is_in_a_function_the_end_is_told_so() -> None:
    relay = Relay()
    until(lambda: relay.turns == [1, 2])
    relay.over.set()
    assert not relay.handoff.close()
    relay.release.set()
    until(relay.handoff.close)
