"""Rows have numbers, so that nobody can take one away unseen; and a crash is told as what it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from tests.unit.journal.conftest import NOW_US, task

from famulus.journal import schema
from famulus.journal.crashes import crashes
from famulus.journal.folder import US_PER_HOUR, JournalFolder
from famulus.journal.listing import last_rows
from famulus.journal.reading import JournalReader

if TYPE_CHECKING:
    from tests.unit.journal.conftest import Desk


def numbers(desk: Desk) -> list[int]:
    return [row["row"] for row in desk.rows()]


@pytest.fixture
def three(desk: Desk) -> Desk:
    """Three files of one hour, of two tasks each."""
    for number in range(3):
        desk.tell(task(2 * number), task(2 * number + 1))
        desk.later(61)
    return desk


def without_rows(path: Path, keep: Callable[[int], bool]) -> None:
    """Somebody writes the file again, and leaves some out."""
    table = pq.read_table(path)
    pq.write_table(table.take([index for index, row in enumerate(table["row"].to_pylist()) if keep(row)]), path)


def as_of_version_1(path: Path) -> None:
    table = pq.read_table(path).drop_columns(["row"])
    pq.write_table(table.replace_schema_metadata({schema.VERSION_KEY: "1", schema.TABLE_KEY: "tasks"}), path)


def test_rows_are_numbered_in_the_order_in_which_they_were_told(three: Desk) -> None:
    assert numbers(three) == [1, 2, 3, 4, 5, 6]


def test_what_is_lost_on_the_way_has_a_number_too(desk: Desk) -> None:
    desk.tell(task(1))
    desk.lose(task(2), task(3))
    desk.tell(task(4))
    desk.later(1)
    desk.close()
    assert numbers(desk) == [1, 4]
    found = JournalReader(desk.path).verify()
    assert (found.gaps, found.missing_rows) == ({"tasks": 2}, {})


def test_a_scribe_that_takes_over_goes_on_with_the_numbers(desks: Callable[..., Desk]) -> None:
    first = desks()
    first.tell(task(1))
    first.later(61)
    first.tell(task(2), task(3))  # and it dies
    second = desks()
    second.pen, second.now_us = first.pen, first.now_us
    second.tell(task(4))
    second.later(1)
    second.close()
    assert numbers(second) == [1, 4]
    assert JournalReader(second.path).verify().missing_rows == {}


def test_a_row_that_somebody_took_away_is_missed(three: Desk) -> None:
    assert JournalReader(three.path).verify().missing_rows == {}
    without_rows(three.path / three.names()[1], lambda row: row != 3)
    found = JournalReader(three.path).verify()
    assert (found.missing_rows, found.whole) == ({"ann b007": 1}, False)


def test_a_gap_explains_no_more_rows_than_it_counts(desk: Desk) -> None:
    desk.tell(*map(task, range(5)))
    desk.later(61)
    desk.lose(task(6), task(7))
    desk.tell(task(8))
    desk.later(61)
    without_rows(desk.path / desk.names()[0], lambda row: row < 3)
    found = JournalReader(desk.path).verify()
    assert (found.gaps, found.missing_rows) == ({"tasks": 2}, {"ann b007": 3})


def test_the_last_file_of_a_life_that_is_over_is_missed(three: Desk) -> None:
    three.writing.ledger.end("dispatcher", "b007", three.pen.told, three.now_us)
    three.later(6)
    three.close()
    (told,) = [row for row in three.rows("brokers") if row["event"] == "told"]
    assert (told["table"], told["rows"], told["boot"]) == ("tasks", 6, "b007")
    assert JournalReader(three.path).verify().whole
    (three.path / three.names()[2]).unlink()
    assert JournalReader(three.path).verify().missing_rows == {"ann b007": 2}


def test_an_hour_with_tasks_says_at_its_end_how_many_were_told(three: Desk) -> None:
    """So the audit misses them even if all rows of that hour are taken away."""
    three.later(3600)
    three.close()
    (told,) = [row for row in three.rows("brokers") if row["event"] == "told"]
    assert (told["table"], told["rows"], told["boot"]) == ("tasks", 6, "b007")
    assert int(told["at"].timestamp() * 1_000_000) == (NOW_US // US_PER_HOUR + 1) * US_PER_HOUR - 1
    (name,) = [name for name in three.names("brokers") if "hour" in name]
    assert name.split("/")[1:3] == three.names()[0].split("/")[1:3]


def test_what_has_expired_is_not_missed(three: Desk) -> None:
    (three.path / three.names()[0]).unlink()
    assert JournalReader(three.path).verify().missing_rows == {}


def test_files_from_before_rows_had_numbers_are_as_good_as_ever(three: Desk) -> None:
    for name in three.names():
        as_of_version_1(three.path / name)
    three.tell(task(9))
    three.close()
    found = JournalReader(three.path).verify()
    assert (found.whole, found.rows) == (True, 7)
    assert [row["row"] for row in last_rows(JournalReader(three.path), "tasks", 2)] == [None, 7]
    ours = JournalFolder(three.path, "ann")
    (whole,) = [file for file in ours.compaction(NOW_US + 2 * US_PER_HOUR) if file is not None]
    assert (whole.first, whole.last) == (1, 4)
    assert JournalReader(three.path).verify().whole
    assert numbers(three) == [None] * 6 + [7]


# -- crashes --------------------------------------------------------------------------------------------------------

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def event(at: int, event: str, boot: str, process: str | None = None, broker: str = "ann") -> dict[str, Any]:
    when = NOON + timedelta(seconds=at)
    return {"broker": broker, "boot": boot, "at": when, "event": event, "process": process, "detail": None}


def test_a_dispatcher_that_dies_has_crashed_and_one_that_stops_has_not() -> None:
    rows = [
        event(0, "process_started", "one", "dispatcher"),
        event(1, "start", "one"),
        event(5, "process_died", "one", "router-1"),
        event(9, "process_died", "one", "dispatcher"),
        event(10, "process_started", "two", "dispatcher"),
        event(20, "stop", "two"),
        event(30, "start", "three"),
    ]
    (crash,) = crashes(rows)
    assert (crash.boot, crash.at) == ("one", NOON + timedelta(seconds=9))
    assert str(crash) == "2026-11-15 12:00:09 at ann: its dispatcher died (for an unknown reason)"


def test_a_broker_that_begins_anew_and_never_ended_has_crashed() -> None:
    rows = [event(0, "start", "one"), event(60, "start", "two"), event(10, "start", "other", broker="bob")]
    (crash,) = crashes(rows)
    assert (crash.broker, crash.boot, crash.at) == ("ann", "one", NOON + timedelta(seconds=60))
