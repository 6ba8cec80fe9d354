"""The window of a map: what can be given out, in which order, and that nothing is given out twice."""

from __future__ import annotations

import random

import pytest

from famulus.client.window import Window
from famulus.core.session.client import Done
from famulus.core.session.task_kind import TaskKind


def done(number: int) -> Done:
    ended = Done(None, TaskKind("s", 1000), "", b"", b"", b"", 0, 0)
    ended.place, ended.body = number, str(number).encode()
    return ended


def bodies(taken: list[Done]) -> list[int]:
    return [int(each.body) for each in taken]


def test_in_order_it_waits_for_the_next_one() -> None:
    window = Window(True, lambda: None)
    window(done(1))
    window(done(2))
    assert window.take() == []
    window(done(0))
    assert bodies(window.take()) == [0, 1, 2]
    assert window.take() == []
    window(done(3))
    assert bodies(window.take()) == [3]


def test_as_they_come() -> None:
    window = Window(False, lambda: None)
    for number in (2, 0, 1):
        window(done(number))
    assert bodies(window.take()) == [2, 0, 1]
    assert window.take() == []


def test_each_answer_wakes_the_taker() -> None:
    woken = []
    window = Window(True, lambda: woken.append(True))
    window(done(1))
    window(done(0))
    assert len(woken) == 2


@pytest.mark.parametrize("seed", range(20))
def test_in_any_order_of_coming_all_are_given_once_and_in_order(seed: int) -> None:
    chance = random.Random(seed)
    numbers = list(range(100))
    chance.shuffle(numbers)
    window = Window(True, lambda: None)
    given: list[int] = []
    for number in numbers:
        window(done(number))
        if chance.random() < 0.3:
            given += bodies(window.take())
    assert given + bodies(window.take()) == list(range(100))
