"""The order in which files of tests are begun, where several are run at once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.turns import APART, LONGEST, in_turn, shares_spark

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
    assert [name for name in (*LONGEST, *APART) if not (REPOSITORY / name).exists()] == []


def test_those_that_are_apart_do_not_ask_for_the_session_that_the_others_share() -> None:
    assert [name for name in APART if "spark: SparkSession" in (REPOSITORY / name).read_text()] == []
    assert [shares_spark(f"{name}::test_it") for name in ("tests/pipeline/test_store.py", APART[0])] == [True, False]
    assert order("unit/test_a.py", "processes/test_a.py", "pipeline/jobs/test_java.py") == [
        "processes/test_a.py",
        "pipeline/jobs/test_java.py",
        "unit/test_a.py",
    ]


def test_the_tests_of_a_file_stay_in_their_order() -> None:
    items: list[Any] = [SimpleNamespace(nodeid=f"tests/unit/test_a.py::test_{letter}") for letter in "zay"]
    assert in_turn(items) == items
