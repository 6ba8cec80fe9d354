"""What was done, on disk: whole or not at all."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.pipeline.jobs.conftest import EIGHT, HOUR_US, Tables

from famulus.errors import StateError
from famulus.pipeline.run import state
from famulus.pipeline.run.state import ProcessedFile, RunState


def test_the_highest_number_counts_and_older_ones_go(tables: Tables) -> None:
    assert state.load(tables.place) == RunState()
    for number in (1, 2, 3):
        state.save(tables.place, RunState(number=number, tables={"t": "d"}), RunState())
    assert state.load(tables.place) == RunState(number=3, tables={"t": "d"})
    assert [each.name for each in (tables.folder / "_state").iterdir()] == ["state-00000003.json"]


def test_what_is_known_of_a_day_is_written_only_when_it_changes(tables: Tables) -> None:
    """So nothing that each run reads or writes grows with the days that there were."""
    files = tuple(
        ProcessedFile(f"tasks/date=2026-11-1{day}/hour=08/b1-ab-0000000{day}.parquet", 9, 9) for day in (4, 5)
    )
    one = RunState(number=1, files=files, frozen=(EIGHT // HOUR_US,))
    state.save(tables.place, one, RunState())
    assert state.load(tables.place) == RunState(number=1)
    assert state.days(tables.place, one) == {"2026-11-14", "2026-11-15"}
    assert state.with_days(tables.place, RunState(number=1), {"2026-11-14"}).files == files[:1]
    assert state.with_days(tables.place, RunState(number=1), {"2026-11-14", "2026-11-15", "2026-11-16"}) == one
    before = {each: each.stat().st_mtime_ns for each in (tables.folder / state.DAYS).iterdir()}
    more = (*files, ProcessedFile("tasks/date=2026-11-16/hour=08/b1-ab-00000006.parquet", 9, 9))
    state.save(tables.place, replace(one, number=2, files=more), one)
    after = {each: each.stat().st_mtime_ns for each in (tables.folder / state.DAYS).iterdir()}
    assert [each.name for each in after if after[each] != before.get(each)] == ["2026-11-16.json"]


def test_a_half_written_one_does_not_count(tables: Tables) -> None:
    state.save(tables.place, RunState(number=1), RunState())
    (tables.folder / "_state" / ".state-00000002.json.tmp").write_text('{"number": 2')
    assert state.load(tables.place).number == 1


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("{", "cannot be read"), (f'{{"format": {state.FORMAT + 1}}}', "was written by a newer pipeline")],
)
def test_one_that_cannot_be_read_says_what_to_do(tables: Tables, content: str, complaint: str) -> None:
    state.save(tables.place, RunState(number=1), RunState())
    (tables.folder / "_state" / "state-00000002.json").write_text(content)
    with pytest.raises(StateError, match=f"{complaint}.*remove .*_state to make all tables anew"):
        state.load(tables.place)
