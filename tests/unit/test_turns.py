"""The order in which files of tests are begun, where several are run at once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.turns import LONGEST, in_turn

REPOSITORY = Path(__file__).parents[2]


def order(*names: str) -> list[str]:
    items: list[Any] = [SimpleNamespace(nodeid=f"tests/{name}::test_it") for name in names]
    return [item.nodeid.removeprefix("tests/").partition("::")[0] for item in in_turn(items)]


def test_the_pipeline_is_first_and_the_short_ones_are_last() -> None:
    names = ("unit/test_a.py", "processes/test_a.py", "property/test_a.py", "pipeline/test_a.py")
    assert order(*names) == ["pipeline/test_a.py", "processes/test_a.py", "property/test_a.py", "unit/test_a.py"]


def test_those_that_take_longest_come_before_the_others() -> None:
    longest = [name.removeprefix("tests/") for name in LONGEST]
    assert longest[0].startswith("docs/")
    assert longest[-1].startswith("unit/")
    others = ["browser/test_a.py", "unit/test_a.py"]
    of_units = longest.index("unit/test_plain.py")
    assert order(*others, *reversed(longest)) == [*longest[:of_units], others[0], *longest[of_units:], others[1]]


def test_none_of_them_is_gone() -> None:
    assert [name for name in LONGEST if not (REPOSITORY / name).exists()] == []


def test_the_tests_of_a_file_stay_in_their_order() -> None:
    items: list[Any] = [SimpleNamespace(nodeid=f"tests/unit/test_a.py::test_{letter}") for letter in "zay"]
    assert in_turn(items) == items
