"""A scribe's work on a disk: files that are whole, in their hours, in order; and a row for whatever is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.unit.journal.conftest import NOW_NS, task

from famulus.journal import writing
from famulus.journal.folder import US_PER_HOUR
from famulus.journal.ledger import NOT_TOLD, NOT_WRITTEN
from famulus.journal.writing import Roll

if TYPE_CHECKING:
    from tests.unit.journal.conftest import Desk

HOUR = "date=2026-11-15/hour=08"


def test_a_file_is_seen_when_it_is_finished(desk: Desk) -> None:
    desk.tell(task(1), task(2))
    desk.later(30)
    assert desk.rows() == []
    desk.later(31)
    assert [row["ticket"] for row in desk.rows()] == [1, 2]
    assert desk.names() == [f"tasks/{HOUR}/ann-b007-00000001.parquet"]


def test_files_are_numbered_by_table_and_life(desk: Desk) -> None:
    for number in range(3):
        desk.tell(task(number))
        desk.tell((NOW_NS, b"worker-1", b"ready", b"echo", 4, -1, b""), table="workers")
        desk.later(61)
    assert [name[-16:-8] for name in desk.names()] == ["00000001", "00000002", "00000003"]
    assert len(desk.names("workers")) == 3


def test_a_large_file_is_finished_at_once(desks: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", 100)
    desk = desks(roll=Roll(bytes=1))
    desk.tell(*(task(number) for number in range(250)))
    assert len(desk.rows()) == 250
    assert desk.writing.open_rows == 0


def test_memory_holds_one_row_group(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", 1000)
    for batch in range(20):
        desk.tell(*(task(batch * 300 + number) for number in range(300)))
        assert desk.writing.open_rows < 1000
    desk.close()
    assert [row["ticket"] for row in desk.rows()] == list(range(6000))


def test_what_one_row_group_lacks_another_may_have(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", 2)
    for number in (1, 3, 5):
        other = b"bob" if number == 3 else b""
        desk.tell(task(number, delegated_to=other), task(number + 1, delegated_to=other))
    desk.close()
    assert [row["delegated_to"] for row in desk.rows()] == [None, None, "bob", "bob", None, None]
    assert len(desk.names()) == 1


def test_each_row_lies_in_its_hour(desk: Desk) -> None:
    before_nine_ns = NOW_NS + (US_PER_HOUR // 2) * 1000 - 1000
    desk.now_us += US_PER_HOUR // 2 - 1
    desk.writing.take(_at(desk, task(1, ended_ns=before_nine_ns), task(2, ended_ns=before_nine_ns + 2000)), desk.now_us)
    desk.later(5)
    # The hour is over, so its file is finished; the new one goes on.
    assert [row["ticket"] for row in desk.rows()] == [1]
    desk.close()
    assert [name.split("/")[2] for name in desk.names()] == ["hour=08", "hour=09"]


def _at(desk: Desk, *rows: tuple[object, ...]) -> bytes:
    for row in rows:
        desk.pen._packers["tasks"].add(*row)
    from tests.unit.journal.conftest import NOW_US

    return desk.pen.write(NOW_US, NOW_NS)


def test_what_never_came_is_a_gap_of_its_size(desk: Desk) -> None:
    desk.tell(task(1))
    desk.lose(task(2), task(3))
    desk.tell(task(4))
    desk.later(1)
    assert desk.gaps() == [("tasks", 2, NOT_TOLD)]
    desk.close()
    assert [row["ticket"] for row in desk.rows()] == [1, 4]
    assert desk.writing.counts.lost == 2


def test_a_scribe_that_takes_over_knows_what_the_former_one_took_along(desks: Callable[..., Desk]) -> None:
    first = desks()
    first.tell(task(1))
    first.later(61)
    first.tell(task(2), task(3))  # and it dies
    second = desks()
    second.pen = first.pen
    second.now_us = first.now_us
    second.tell(task(4))
    second.later(1)
    assert second.gaps() == [("tasks", 2, NOT_TOLD)]
    second.close()
    assert [row["ticket"] for row in second.rows()] == [1, 4]


def test_a_number_that_was_used_is_not_used_again(desks: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", 1)
    first = desks()
    first.tell(task(1))  # it is on the disk, hidden, and its writer dies
    second = desks()
    second.tell(task(2))
    second.close()
    assert [name[-16:-8] for name in second.names() if not name.endswith(".tmp")] == ["00000002"]


def test_a_new_life_of_the_dispatcher_has_its_own_files(desk: Desk) -> None:
    desk.tell(task(1))
    desk.writing.boot = "cafe"
    desk.pen = type(desk.pen)("dispatcher", "cafe")
    desk.tell(task(1))
    desk.close()
    assert {row["boot"] for row in desk.rows()} == {"b007", "cafe"}
    assert len(desk.names()) == 2
    assert desk.gaps() == []


def test_who_has_no_life_of_his_own_belongs_to_the_present_one(desk: Desk) -> None:
    desk.pen = type(desk.pen)("steward", "")
    desk.lose(task(1))  # before there was a scribe: nobody can say that it is missing
    desk.tell((NOW_NS, b"bob", b"heard", -1, -1, -1, -1, b""), table="peers")
    desk.writing.boot = "cafe"
    desk.tell((NOW_NS, b"bob", b"lost", -1, -1, -1, -1, b""), table="peers")
    desk.close()
    assert [(row["boot"], row["event"]) for row in desk.rows("peers")] == [("b007", "heard"), ("cafe", "lost")]
    assert desk.gaps() == []


def test_a_disk_that_takes_nothing_is_a_gap_when_it_takes_again(desk: Desk) -> None:
    desk.path.write_text("not a folder")
    desk.tell(task(1), task(2))
    desk.later(61)
    assert any("cannot be written" in warning for warning in desk.warnings)
    desk.tell(task(3))
    desk.later(10)
    assert len(desk.warnings) == 1, "it is said once"
    desk.path.unlink()
    desk.later(10)
    desk.tell(task(4))
    desk.close()
    assert desk.gaps() == [("tasks", 3, NOT_WRITTEN)]
    assert [row["ticket"] for row in desk.rows()] == [4]


def test_rubbish_does_no_harm(desk: Desk) -> None:
    desk.writing.take(b"rubbish", desk.now_us)
    desk.writing.take(b"", desk.now_us)
    desk.tell(task(1))
    desk.close()
    assert desk.writing.counts.faults == 2
    assert len(desk.rows()) == 1
    (warning,) = desk.warnings
    assert warning.startswith("what came for the journal cannot be read")


def test_a_task_has_the_version_of_the_config_that_it_ended_under(desk: Desk) -> None:
    desk.tell(task(1))
    desk.writing.config_version = 8
    desk.tell(task(2))
    desk.close()
    assert [row["config_version"] for row in desk.rows()] == [0, 8]


@pytest.mark.parametrize("rows", [1, 500])
def test_what_is_read_is_what_the_schema_says(desk: Desk, rows: int) -> None:
    from famulus.journal.reading import JournalReader

    desk.tell(*(task(number) for number in range(rows)))
    desk.close()
    found = JournalReader(desk.path).verify()
    assert found.whole, found
    assert found.rows == rows


def test_what_the_last_words_of_a_life_would_have_been_is_a_gap(desk: Desk) -> None:
    desk.tell(task(1))
    desk.lose(task(2), task(3))
    desk.writing.ledger.end("dispatcher", "b007", desk.pen.told, desk.now_us)
    desk.later(1)
    assert desk.gaps() == []
    awaited = [desk.writing.ledger.awaits_rows]
    desk.later(5)
    awaited.append(desk.writing.ledger.awaits_rows)
    assert awaited == [True, False]
    assert desk.gaps() == [("tasks", 2, NOT_TOLD)]
    desk.close()
    assert len(desk.rows()) == 1
