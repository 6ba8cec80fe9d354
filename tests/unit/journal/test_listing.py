"""The last tasks of a journal, and where one of them is."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.journal.conftest import NOW_NS, NOW_US, Desk, Row, tail, task

from famulus.journal.finding import IDS_MAX, evidence, find, losses
from famulus.journal.groups import Group, Span
from famulus.journal.ids import short, wanted
from famulus.journal.listing import Query, last_tasks
from famulus.journal.reading import JournalReader

NOW = datetime.fromtimestamp(NOW_US / 1e6, UTC)
HOUR_NS = 3600 * 10**9


@pytest.fixture
def reading(desk: Desk) -> JournalReader:
    """Nine files of some hours, written in no order; number n ended n times 20 minutes after the first."""
    for number in (7, 8, 3, 0, 2, 1, 5, 4, 6):
        passed_ns = (desk.now_us - NOW_US) * 1000
        desk.tell(task(number, ended_ns=NOW_NS + number * HOUR_NS // 3 - passed_ns))
        desk.later(120)
    desk.close()
    return JournalReader(desk.path)


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return [int(row["message_id"][-12:], 16) for row in rows]


def test_the_last_ones_come_in_the_order_of_their_ends(reading: JournalReader) -> None:
    assert numbers(last_tasks([reading], Query(), 4)) == [5, 6, 7, 8]
    assert numbers(last_tasks([reading], Query(), 100)) == list(range(9))


def test_no_more_is_read_than_is_needed(reading: JournalReader, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Group] = []
    real = Group.read

    def note(group: Group, columns: list[str] | None = None) -> Any:
        read.append(group)
        return real(group, columns)

    monkeypatch.setattr(Group, "read", note)
    assert numbers(last_tasks([reading], Query(), 1)) == [8]
    assert len({group.path for group in read}) == 1
    read.clear()
    # What decides is read of all, the rest of none.
    assert last_tasks([reading], Query(equal={"service": "nobody"}), 1) == []
    assert len(read) == 9


def test_a_span_counts_by_the_end_of_a_task(reading: JournalReader) -> None:
    first, last = (NOW + timedelta(minutes=20 * number) for number in (3, 5))
    assert numbers(last_tasks([reading], Query(span=Span(first, last)), 100)) == [3, 4, 5]
    assert numbers(last_tasks([reading], Query(span=Span(None, first)), 2)) == [2, 3]
    # Three files of one hour, the newest one of which is the last by its name.
    assert numbers(last_tasks([reading], Query(span=Span(None, last - timedelta(minutes=1))), 1)) == [4]


def test_filters_hold_together(desk: Desk) -> None:
    desk.tell(
        task(1, service=b"resize", tail=tail("ERROR", "ValueError: no")),
        task(2, service=b"resize", worker=b"worker-2", arrived=NOW_NS - 900_000_000),
        task(3, tail=b',"outcome":"LATE"}'),
        task(4, tail=tail("RETRY", "worker_lost: gone")),
        task(5, tail=tail("UNKNOWN", "worker_lost: gone"), client=b"\0efgh"),
    )
    desk.close()
    readings = [JournalReader(desk.path)]

    def found(**query: Any) -> list[int]:
        return numbers(last_tasks(readings, Query(**query), 10))

    assert found() == [1, 2, 5]
    assert found(equal={"service": "resize"}) == [1, 2]
    assert found(equal={"service": "resize", "worker": "worker-2"}) == [2]
    assert found(equal={"reason": "worker_lost"}) == [5]
    assert found(outcomes=("LATE",)) == [3]
    assert found(outcomes=("RETRY", "ERROR")) == [1, 4]
    assert found(slower_ms=900) == [2]
    assert found(slower_ms=900.1) == []
    (client,) = {row["client"] for row in last_tasks(readings, Query(outcomes=("UNKNOWN",)), 1)}
    assert found(equal={"client": client}) == [5]


def test_a_file_that_cannot_be_read_is_passed_over(reading: JournalReader) -> None:
    newest = sorted(reading.folder.path.glob("tasks/*/*/*.parquet"))[-1]
    newest.write_bytes(b"rubbish")
    assert len(last_tasks([reading], Query(), 100)) == 8


# -- one task -----------------------------------------------------------------------------------------------------


def test_a_task_is_found_by_its_beginning_its_short_form_and_itself(reading: JournalReader) -> None:
    (row,) = last_tasks([reading], Query(), 1)
    for text in (row["message_id"], short(row["message_id"])):
        found = find([reading], wanted(text), Span())
        assert (found.ids, found.tasks, found.open_tasks) == ([row["message_id"]], [row], [])
    many = find([reading], wanted(row["message_id"][:10]), Span())
    assert len(many.ids) == 9
    assert many.tasks == []
    assert find([reading], wanted("nobody"), Span()).ids == []


@pytest.mark.parametrize(
    "text", ["a", "ab..", "ab..cd", "..2c", "7f3a09c1..2c", "7f3a09c1-89ab-4cde-a123-00000000002c"]
)
def test_a_whole_column_is_asked_the_same_as_one_id(desk: Desk, text: str) -> None:
    ids = ["ab", "ab..cd", "abxcd", "a-00000000002c", "7f3a09c1-89ab-4cde-a123-00000000002c", "7f3a09c1-2c", "b"]
    desk.tell(*(task(number, message_id=b'"%b"' % each.encode()) for number, each in enumerate(ids)))
    desk.close()
    whole = wanted(text)
    fits = {each for each in ids if each.startswith(text)}
    fits |= {each for each in ids if whole.end and each.startswith(whole.head) and each.endswith(whole.end)}
    found = find([JournalReader(desk.path)], whole, Span()).ids
    assert found == sorted(fits) or found == [text]


def test_an_id_to_the_letter_wins_over_those_that_begin_with_it(desk: Desk) -> None:
    desk.tell(*(task(number, message_id=b'"task-%d"' % number) for number in range(100, 100 + 3 * IDS_MAX)))
    desk.tell(task(1, message_id=b'"task-1"'))
    desk.close()
    readings = [JournalReader(desk.path)]
    assert find(readings, wanted("task-1"), Span()).ids == ["task-1"]
    assert len(find(readings, wanted("task"), Span()).ids) == IDS_MAX


def test_a_journal_and_its_copy_have_each_row_once(reading: JournalReader, tmp_path: Path) -> None:
    shutil.copytree(reading.folder.path, tmp_path / "copy")
    (row,) = last_tasks([reading], Query(), 1)
    assert find([reading, JournalReader(tmp_path / "copy")], wanted(row["message_id"]), Span()).tasks == [row]


# -- what became of its broker and its workers --------------------------------------------------------------------


def broker_event(event: bytes, seconds: float, process: bytes = b"", table: bytes = b"") -> Row:
    at_ns = NOW_NS + int(seconds * 1e9)
    return (at_ns, event, process, b"", b"", -1, -1, -1, table, -1, b"")


#: A task of `desk` at its last checkpoint.
LAST_SEEN = {"broker": "ann", "boot": "b007", "at": NOW + timedelta(seconds=1), "service": "echo"}


def test_the_fate_of_a_broker_is_read_from_its_rows(desk: Desk) -> None:
    desk.tell(broker_event(b"load", 60), broker_event(b"process_died", 61, b"dispatcher"), table="brokers")
    desk.close()
    found = evidence([JournalReader(desk.path)], LAST_SEEN)
    assert (found.fate, found.at) == ("died", NOW + timedelta(seconds=61))
    assert not found.gap


def test_a_broker_that_went_on_had_forgotten_the_task_unless_such_tasks_take_long(desk: Desk) -> None:
    desk.tell(broker_event(b"load", 200), table="brokers")
    desk.tell(task(1, ended_ns=NOW_NS + 2 * 10**9, arrived=NOW_NS))
    desk.later(120)
    readings = [JournalReader(desk.path)]
    assert evidence(readings, LAST_SEEN).fate == "overdue"
    before_ns = NOW_NS - 1200 * 10**9
    desk.tell(task(2, ended_ns=before_ns, arrived=before_ns - 180 * 10**9))
    desk.close()
    assert evidence(readings, LAST_SEEN).fate == "open"


def test_why_a_worker_went_is_read_from_its_row(desk: Desk) -> None:
    desk.tell(task(1, tail=tail("RETRY", "worker_lost: gone")), task(2))
    desk.tell(
        (NOW_NS - 60 * 10**9, b"worker-1", b"disconnected", b"echo", 4, 0, b""),
        (NOW_NS, b"worker-1", b"lost", b"echo", 4, 1, b"expired"),
        (NOW_NS, b"worker-2", b"lost", b"echo", 4, 1, b"conflict"),
        (NOW_NS + 60 * 10**9, b"worker-1", b"disconnected", b"echo", 4, 0, b""),
        table="workers",
    )
    desk.close()
    readings = [JournalReader(desk.path)]
    rows = last_tasks(readings, Query(outcomes=("RETRY", "OK")), 10)
    (lost,) = [row for row in rows if row["outcome"] == "RETRY"]
    assert losses(readings, rows) == {("ann", "b007", lost["ticket"]): "expired"}
