"""A journal's folder is kept in order: what crashes left, small files, old files, and files of others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from tests.unit.journal.conftest import NOW_US, task

from famulus.journal import folder as folder_module
from famulus.journal import schema
from famulus.journal.files import JournalFile
from famulus.journal.folder import US_PER_DAY, US_PER_HOUR, JournalFolder
from famulus.journal.listing import last_rows
from famulus.journal.parquet import OpenFile, hidden
from famulus.journal.reading import JournalReader
from famulus.journal.upkeep import EVERY_US, Upkeep

if TYPE_CHECKING:
    from tests.unit.journal.conftest import Desk


@pytest.fixture
def three(desk: Desk) -> Desk:
    """Three files of one hour, of two tasks each."""
    for number in range(3):
        desk.tell(task(2 * number), task(2 * number + 1))
        desk.later(61)
    return desk


def compact(desk: Desk, hours: float = 2) -> list[JournalFile]:
    ours = JournalFolder(desk.path, "ann")
    return [file for file in ours.compaction(NOW_US + int(hours * US_PER_HOUR)) if file is not None]


def tickets(desk: Desk) -> list[int]:
    return [row["ticket"] for row in desk.rows()]


def test_small_files_of_a_past_hour_become_one(three: Desk) -> None:
    before = three.rows()
    (whole,) = compact(three)
    assert (whole.first, whole.last) == (1, 3)
    assert three.names() == [whole.path]
    assert three.rows() == before
    assert JournalReader(three.path).verify().whole


def test_the_present_hour_is_left_alone(three: Desk) -> None:
    assert compact(three, hours=0.4) == []
    assert len(three.names()) == 3


def test_a_whole_one_does_not_hide_what_was_lost(three: Desk) -> None:
    (three.path / three.names()[1]).unlink()
    three.tell(task(9))
    three.close()
    (whole,) = compact(three)
    assert (whole.first, whole.last) == (3, 4)
    assert JournalReader(three.path).verify().missing == {"tasks ann b007": [2]}


def test_compacted_files_are_bounded(three: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "COMPACTED_BYTES_MAX", 1)
    assert compact(three) == []


def test_a_crash_between_the_whole_and_its_parts_loses_and_doubles_nothing(three: Desk) -> None:
    parts = {name: (three.path / name).read_bytes() for name in three.names()}
    compact(three)
    for name, content in parts.items():
        (three.path / name).write_bytes(content)
    assert tickets(three) == list(range(6))
    compact(three)
    assert len(three.names()) == 1


def test_a_compaction_that_is_interrupted_leaves_the_parts(three: Desk) -> None:
    steps = JournalFolder(three.path, "ann").compaction(NOW_US + 2 * US_PER_HOUR)
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert len(three.names()) == 3
    assert tickets(three) == list(range(6))


def test_a_file_that_was_whole_but_for_its_name_gets_it(three: Desk) -> None:
    last = three.path / three.names()[2]
    last.rename(hidden(last))
    assert len(tickets(three)) == 4
    recovered = JournalFolder(three.path, "ann").recover()
    assert [(file.first, finished) for file, finished in recovered.items()] == [(3, True)]
    assert len(tickets(three)) == 6


def test_a_file_without_its_end_is_removed_and_named(three: Desk) -> None:
    last = three.path / three.names()[2]
    hidden(last).write_bytes(last.read_bytes()[:-50])
    last.unlink()
    recovered = JournalFolder(three.path, "ann").recover()
    assert [(file.first, finished) for file, finished in recovered.items()] == [(3, False)]
    assert len(three.names()) == 2


def test_what_somebody_writes_right_now_is_left_alone(three: Desk) -> None:
    rows = pq.read_table(three.path / three.names()[0]).replace_schema_metadata(None)
    being_written = OpenFile(three.path, JournalFile("tasks", "2026-11-15", "08", "ann", "cafe", 1, 1), rows.schema)
    assert JournalFolder(three.path, "ann").recover() == {}
    being_written.write(rows)
    being_written.finish({})
    assert len(three.rows()) == 8


def test_another_broker_in_the_same_folder_is_left_alone(three: Desk) -> None:
    bobs = JournalFolder(three.path, "bob")
    assert bobs.files() == []
    assert list(bobs.compaction(NOW_US + US_PER_DAY)) == []
    assert bobs.expire(NOW_US + 100 * US_PER_DAY, 1, 1) == []
    assert len(three.names()) == 3


def test_what_is_too_old_goes(three: Desk) -> None:
    ours = JournalFolder(three.path, "ann")
    assert ours.expire(NOW_US + 29 * US_PER_DAY, 30, 0) == []
    assert len(ours.expire(NOW_US + 31 * US_PER_DAY, 30, 0)) == 3
    assert list((three.path / "tasks").iterdir()) == []


def test_what_is_too_much_goes_oldest_first(three: Desk) -> None:
    ours = JournalFolder(three.path, "ann")
    size = (three.path / three.names()[0]).stat().st_size
    assert [file.first for file in ours.expire(NOW_US, 0, 2 * size + 200)] == [1]
    assert ours.expire(NOW_US, 0, 0) == []


def test_upkeep_goes_in_small_steps_and_waits_for_quiet(three: Desk) -> None:
    upkeep = Upkeep(JournalFolder(three.path, "ann"), 30, 0)
    now_us = NOW_US + 2 * US_PER_HOUR
    assert upkeep.step(now_us)
    upkeep.quiet = False
    assert not upkeep.step(now_us)
    assert len(three.names()) == 3
    upkeep.quiet = True
    while upkeep.step(now_us):
        pass
    assert len(three.names()) == 1
    assert not upkeep.step(now_us + EVERY_US - 1)


# -- reading --------------------------------------------------------------------------------------------------------


def test_figures_of_each_table(three: Desk) -> None:
    figures = JournalReader(three.path).figures()
    assert (figures["tasks"].files, figures["tasks"].rows) == (3, 6)
    assert figures["tasks"].first == "2026-11-15T08:30:00+00:00"
    assert figures["workers"].files == 0


def test_the_last_rows_come_in_the_order_of_their_time(desks: Callable[..., Desk]) -> None:
    desk = desks()
    desk.tell(*(task(number, ended_ns=77_000_000_000_000 + 1000 * (7 - number)) for number in range(5)))
    desk.close()
    assert [row["ticket"] for row in last_rows(JournalReader(desk.path), "tasks", 3)] == [2, 1, 0]


def test_new_rows_are_shown_once(three: Desk) -> None:
    reading = JournalReader(three.path)
    known = set(reading.folder.files())
    assert list(reading.follow("tasks", known)) == []
    three.tell(task(9))
    three.close()
    assert [row["ticket"] for row in reading.follow("tasks", known)] == [9]
    compact(three)
    assert list(reading.follow("tasks", known)) == []


def test_verify_names_what_is_wrong(three: Desk) -> None:
    broken, newer, other = (three.path / name for name in three.names())
    broken.write_bytes(broken.read_bytes()[:100])
    rows = pq.read_table(newer)
    pq.write_table(rows.replace_schema_metadata({schema.VERSION_KEY: "4", schema.TABLE_KEY: "tasks"}), newer)
    pq.write_table(rows.replace_schema_metadata({schema.VERSION_KEY: "1", schema.TABLE_KEY: "peers"}), other)
    (three.path / "tasks" / "notes.txt").write_text("mine")
    hidden(three.path / three.names()[0].replace("0001", "0009")).write_bytes(b"half")
    found = JournalReader(three.path).verify()
    assert set(found.broken) == {str(path.relative_to(three.path)) for path in (broken, other)}
    assert found.newer == [str(newer.relative_to(three.path))]
    assert found.foreign == ["tasks/notes.txt"]
    assert len(found.unfinished) == 1
    assert not found.whole


def test_a_newer_file_is_left_alone(three: Desk, tmp_path: Path) -> None:
    newer = three.path / three.names()[0]
    rows = pq.read_table(newer)
    pq.write_table(rows.replace_schema_metadata({schema.VERSION_KEY: "4", schema.TABLE_KEY: "tasks"}), newer)
    assert len(last_rows(JournalReader(three.path), "tasks", 100)) == 4
    found = JournalReader(three.path).verify()
    assert found.whole
