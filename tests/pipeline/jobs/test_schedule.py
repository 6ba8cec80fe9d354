"""Each in its turn: after what it is made of, side by side with others, or with everything for itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from famulus.pipeline.run.schedule import Schedule


def never(_: str) -> bool:
    return False


def begun(schedule: Schedule) -> list[str]:
    """All that may begin now."""
    names = []
    while (name := schedule.begin()) is not None:
        names.append(name)
    return names


def test_each_comes_as_soon_as_what_it_needs_is_there() -> None:
    schedule = Schedule({"a": ["tasks"], "b": ["a", "tasks"], "c": ["tasks"], "d": ["c", "b"]}, 9, never)
    assert begun(schedule) == ["a", "c"]
    schedule.end("a")
    assert begun(schedule) == ["b"]
    schedule.end("c")
    assert begun(schedule) == []
    schedule.end("b")
    assert begun(schedule) == ["d"]
    assert not schedule.are_over
    schedule.end("d")
    assert schedule.are_over


def test_there_are_no_more_at_a_time_than_threads() -> None:
    schedule = Schedule({name: [] for name in "abc"}, 2, never)
    assert begun(schedule) == ["a", "b"]
    schedule.end("b")
    assert begun(schedule) == ["c"]


def test_one_that_is_alone_comes_after_all_others_that_could_and_nothing_beside_it() -> None:
    schedule = Schedule({"many": [], "few": [], "later": ["few"], "last": ["many"]}, 2, lambda name: name == "many")
    assert begun(schedule) == ["few"]
    schedule.end("few")
    assert begun(schedule) == ["later"]
    schedule.end("later")
    assert begun(schedule) == ["many"]
    schedule.end("many")
    assert begun(schedule) == ["last"]


def test_whether_it_is_alone_is_asked_when_all_is_there_that_it_needs() -> None:
    asked: list[str] = []

    def is_alone(name: str) -> bool:
        asked.append(name)
        return False

    schedule = Schedule({"a": [], "b": ["a"]}, 2, is_alone)
    assert (begun(schedule), asked) == (["a"], ["a"])
    schedule.end("a")
    assert asked == ["a", "b"]


def test_nothing_is_over_at_once() -> None:
    assert Schedule({}, 2, never).are_over


@st.composite
def works(draw: st.DrawFn) -> dict[str, list[str]]:
    names = [str(number) for number in range(draw(st.integers(0, 8)))]
    return {name: draw(st.lists(st.sampled_from(["outside", *names[:place]]))) for place, name in enumerate(names)}


@given(works(), st.integers(1, 3), st.sets(st.integers(0, 7)), st.data())
def test_whatever_ends_when_all_have_their_turn_and_nobody_is_in_the_way(
    needs: dict[str, list[str]], threads: int, alone: set[int], data: st.DataObject
) -> None:
    schedule = Schedule(needs, threads, lambda name: int(name) in alone)
    running: list[str] = []
    ended: list[str] = []
    while not schedule.are_over:
        for name in begun(schedule):
            assert {each for each in needs[name] if each != "outside"} <= set(ended)
            running.append(name)
        assert len(running) <= threads
        assert len(running) == 1 or not alone & {int(name) for name in running}
        ends = running.pop(data.draw(st.integers(0, len(running) - 1)))
        schedule.end(ends)
        ended.append(ends)
    assert sorted(ended) == sorted(needs)
