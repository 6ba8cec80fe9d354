"""What was done, on disk: whole or not at all."""

from __future__ import annotations

import pytest
from tests.pipeline.jobs.conftest import Tables

from famulus.errors import StateError
from famulus.pipeline.run import state
from famulus.pipeline.run.state import ProcessedFile, RunState


def test_the_highest_number_counts_and_older_ones_go(tables: Tables) -> None:
    assert state.load(tables.place) == RunState()
    for number in (1, 2, 3):
        state.save(tables.place, RunState(number=number, files=(ProcessedFile("a", number, 1),), tables={"t": "d"}))
    assert state.load(tables.place) == RunState(number=3, files=(ProcessedFile("a", 3, 1),), tables={"t": "d"})
    assert [each.name for each in (tables.folder / "_state").iterdir()] == ["state-00000003.json"]


def test_a_half_written_one_does_not_count(tables: Tables) -> None:
    state.save(tables.place, RunState(number=1))
    (tables.folder / "_state" / ".state-00000002.json.tmp").write_text('{"number": 2')
    assert state.load(tables.place).number == 1


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("{", "cannot be read"), (f'{{"format": {state.FORMAT + 1}}}', "was written by a newer pipeline")],
)
def test_one_that_cannot_be_read_says_what_to_do(tables: Tables, content: str, complaint: str) -> None:
    state.save(tables.place, RunState(number=1))
    (tables.folder / "_state" / "state-00000002.json").write_text(content)
    with pytest.raises(StateError, match=f"{complaint}.*remove .*_state to make all tables anew"):
        state.load(tables.place)
