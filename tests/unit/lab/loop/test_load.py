"""Whether a service got better, by what was measured."""

from __future__ import annotations

from famulus.lab.loop.cast import ORDER, THUMB
from famulus.lab.loop.load import Answers, is_better


def test_the_p99_is_that_of_the_tasks_that_were_ok() -> None:
    assert Answers(200, [float(number) for number in range(1, 101)]).p99_s == 99.0
    assert (Answers().p99_s, Answers().ok, Answers(4, [1.0]).ok) == (0.0, 0.0, 0.25)


def test_slow_tasks_take_half_as_long_or_it_is_not_better() -> None:
    before = Answers(10, [1.0] * 10)
    assert is_better(THUMB, before, Answers(10, [0.5] * 10))
    assert not is_better(THUMB, before, Answers(10, [0.6] * 10))
    assert not is_better(THUMB, before, Answers(10))


def test_nearly_all_tasks_are_ok_and_were_not_before() -> None:
    bad, good = Answers(100, [1.0] * 98), Answers(100, [1.0] * 99)
    assert is_better(ORDER, bad, good)
    assert not is_better(ORDER, bad, bad)
    assert not is_better(ORDER, good, good)
