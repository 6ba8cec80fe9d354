"""The stages of a task: the table in the code is the one in the docs, and whatever it does not have cannot happen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from famulus.core.dispatch import task
from famulus.core.dispatch.task import DELAYED, DONE, JUDGING, NEW, NEXT, QUEUED, RUNNING

STAGES = {"NEW": NEW, "QUEUED": QUEUED, "RUNNING": RUNNING, "JUDGING": JUDGING, "DELAYED": DELAYED, "DONE": DONE}
PAGE = Path(__file__).parents[3] / "docs" / "architecture.md"


def table_of_the_page() -> dict[str, dict[int, int]]:
    lines = PAGE.read_text().split("## The life of a task")[1].split("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    events = [found.group(1) for cell in rows[0] if (found := re.search(r"\*(\w+)\*", cell))]
    table: dict[str, dict[int, int]] = {event: {} for event in events}
    for name, *cells in rows[1:]:
        stage = STAGES[name.partition(":")[0].strip("`")]
        for event, cell in zip(events, cells, strict=True):
            if cell:
                table[event][stage] = STAGES[cell.strip("`")]
    return table


def test_the_page_and_the_code_have_the_same_table() -> None:
    assert table_of_the_page() == NEXT


def test_nothing_happens_to_a_task_that_has_its_outcome() -> None:
    assert all(DONE not in where for where in NEXT.values())
    for row in (task.GIVEN, task.ENDED):
        with pytest.raises(IndexError):
            row[DONE]


@pytest.mark.parametrize(("event", "row"), [("given", task.GIVEN), ("ended", task.ENDED)])
def test_a_row_by_number_is_the_row_of_the_table(event: str, row: list[int]) -> None:
    assert dict(enumerate(row)) == NEXT[event]


def test_every_stage_can_end() -> None:
    assert set(NEXT["ended"]) == set(STAGES.values()) - {DONE}
    assert set(NEXT["ended"].values()) == {DONE}
