"""Each in its turn: after what it is made of, side by side with others, or with everything for itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from famulus.pipeline.run.turns import Turns


def never(_: str) -> bool:
    return False


def begun(turns: Turns) -> list[str]:
    """All that may begin now."""
    names = []
    while (name := turns.begin()) is not None:
        names.append(name)
    return names


def test_each_comes_as_soon_as_what_it_needs_is_there() -> None:
    turns = Turns({"a": ["tasks"], "b": ["a", "tasks"], "c": ["tasks"], "d": ["c", "b"]}, 9, never)
    assert begun(turns) == ["a", "c"]
    turns.end("a")
    assert begun(turns) == ["b"]
    turns.end("c")
    assert begun(turns) == []
    turns.end("b")
    assert begun(turns) == ["d"]
    assert not turns.are_over
    turns.end("d")
    assert turns.are_over


def test_there_are_no_more_at_a_time_than_lanes() -> None:
    turns = Turns({name: [] for name in "abc"}, 2, never)
    assert begun(turns) == ["a", "b"]
    turns.end("b")
    assert begun(turns) == ["c"]


def test_one_that_is_alone_comes_after_all_others_that_could_and_nothing_beside_it() -> None:
    turns = Turns({"many": [], "few": [], "later": ["few"], "last": ["many"]}, 2, lambda name: name == "many")
    assert begun(turns) == ["few"]
    turns.end("few")
    assert begun(turns) == ["later"]
    turns.end("later")
    assert begun(turns) == ["many"]
    turns.end("many")
    assert begun(turns) == ["last"]


def test_whether_it_is_alone_is_asked_when_all_is_there_that_it_needs() -> None:
    asked: list[str] = []

    def is_alone(name: str) -> bool:
        asked.append(name)
        return False

    turns = Turns({"a": [], "b": ["a"]}, 2, is_alone)
    assert (begun(turns), asked) == (["a"], ["a"])
    turns.end("a")
    assert asked == ["a", "b"]


def test_nothing_is_over_at_once() -> None:
    assert Turns({}, 2, never).are_over


@st.composite
def works(draw: st.DrawFn) -> dict[str, list[str]]:
    names = [str(number) for number in range(draw(st.integers(0, 8)))]
    return {name: draw(st.lists(st.sampled_from(["outside", *names[:place]]))) for place, name in enumerate(names)}


@given(works(), st.integers(1, 3), st.sets(st.integers(0, 7)), st.data())
def test_whatever_ends_when_all_have_their_turn_and_nobody_is_in_the_way(
    needs: dict[str, list[str]], lanes: int, alone: set[int], data: st.DataObject
) -> None:
    turns = Turns(needs, lanes, lambda name: int(name) in alone)
    running: list[str] = []
    ended: list[str] = []
    while not turns.are_over:
        for name in begun(turns):
            assert {each for each in needs[name] if each != "outside"} <= set(ended)
            running.append(name)
        assert len(running) <= lanes
        assert len(running) == 1 or not alone & {int(name) for name in running}
        ends = running.pop(data.draw(st.integers(0, len(running) - 1)))
        turns.end(ends)
        ended.append(ends)
    assert sorted(ended) == sorted(needs)
