"""Finds what journals have about one task: first where its id is, then its rows, then what became of its broker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from famulus.journal import schema
from famulus.journal.fates import Signs, TaskFate
from famulus.journal.groups import Group, Span, read_newest_first
from famulus.journal.ids import Wanted
from famulus.journal.reading import JournalReader
from famulus.journal.trace import Losses
from famulus.wire import reasons

#: Enough to show that many ids begin this way.
IDS_MAX: Final = 10
#: Per task. A client may give the same id to many tasks; the newest ones count.
ROWS_MAX: Final = 10_000
#: Two rows about the same instant may differ by how much the clock was corrected in between.
NEAR: Final = timedelta(seconds=1)
#: How far before a task was seen we look at other tasks of its service, to know how long they take.
BEFORE: Final = timedelta(hours=1)
#: Events that end a broker's life, and the one that may hide the end of a task.
_ENDS: Final = ["start", "stop", "process_died", "gap"]

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FoundTasks:
    """Ids that match; if there is exactly one, its rows."""

    ids: list[str]
    tasks: list[Row]
    open_tasks: list[Row]

    @property
    def is_cut(self) -> bool:
        """There are more rows than anybody would read; these are the newest ones."""
        return max(len(self.tasks), len(self.open_tasks)) >= ROWS_MAX


def find(readings: Sequence[JournalReader], wanted: Wanted, span: Span) -> FoundTasks:
    spots = {table: _spots(readings, table, wanted, span) for table in ("tasks", "open_tasks")}
    ids = sorted({*spots["tasks"], *spots["open_tasks"]})
    if wanted.text in ids:
        ids = [wanted.text]
    if len(ids) != 1:
        return FoundTasks(ids[:IDS_MAX], [], [])
    return FoundTasks(ids, *(_rows(spots[table].get(ids[0], []), table, ids[0]) for table in ("tasks", "open_tasks")))


def _spots(readings: Sequence[JournalReader], table: str, wanted: Wanted, span: Span) -> dict[str, list[Group]]:
    """Where the matching ids are: at most IDS_MAX of them, and the one that matches exactly.

    Only the ids are unpacked here, one row group at a time.
    """
    spots: dict[str, list[Group]] = {}
    for group, rows in read_newest_first(readings, table, span, ["message_id"]):
        fitting = rows["message_id"].filter(_fits(rows["message_id"], wanted))
        if len(fitting):
            for message_id in pc.unique(fitting).to_pylist():
                if message_id in spots or len(spots) < IDS_MAX or message_id == wanted.text:
                    spots.setdefault(message_id, []).append(group)
    return spots


def _fits(ids: pa.ChunkedArray, wanted: Wanted) -> pa.ChunkedArray:
    """Which ids of a column match what somebody wrote."""
    fits = pc.starts_with(ids, wanted.text)
    if wanted.end:
        fits = pc.or_(fits, pc.and_(pc.starts_with(ids, wanted.head), pc.ends_with(ids, wanted.end)))
    return fits


def _rows(groups: Iterable[Group], table: str, message_id: str) -> list[Row]:
    """In order of time, each once, even if a journal was given twice or is a copy of another."""
    time = schema.TIME_COLUMN[table]
    rows: dict[tuple[Any, ...], Row] = {}
    for group in groups:
        if len(rows) >= ROWS_MAX:
            break
        read = group.read()
        if read is not None:
            for row in read.filter(pc.field("message_id") == message_id).to_pylist():
                kind = row.get("outcome") or row.get("state")
                rows[row["broker"], row["boot"], row["ticket"], kind, row[time]] = row
    return sorted(rows.values(), key=lambda row: (row[time], row["ticket"]))


# -- what became of its broker --------------------------------------------------------------------------------------


def evidence(readings: Sequence[JournalReader], seen: Row) -> TaskFate:
    """What journals say about a broker after it was last seen with an open task."""
    since = Span(seen["at"])
    own = pc.field("broker") == seen["broker"]
    signs = Signs()
    for row in _where(readings, "brokers", since, own & pc.field("event").isin(_ENDS)):
        signs.of_itself(row)
    for row in _where(readings, "peers", since, (pc.field("peer") == seen["broker"]) & (pc.field("event") == "lost")):
        signs.of_a_peer(row)
    own &= pc.field("boot") == seen["boot"]
    for table in ("brokers", "tasks"):
        for _, rows in read_newest_first(readings, table, since, ["broker", "boot", schema.TIME_COLUMN[table]]):
            last = pc.max(rows.filter(own)[schema.TIME_COLUMN[table]]).as_py()
            if last is not None:
                signs.alive(seen["boot"], last)
    for _, rows in read_newest_first(readings, "tasks", Span(seen["at"] - BEFORE), ["service", "total_ns"]):
        longest = pc.max(rows.filter(pc.field("service") == seen["service"])["total_ns"]).as_py()
        signs.longest_ns = max(signs.longest_ns, longest or 0)
    return signs.evidence(seen)


def losses(readings: Sequence[JournalReader], tasks: Sequence[Row]) -> Losses:
    """Why workers were lost while they had attempts of the task."""
    found: Losses = {}
    for row in tasks:
        if row["reason"] == reasons.WORKER_LOST and row["worker"] is not None:
            near = Span(row["ended"] - NEAR, row["ended"] + NEAR)
            of_it = (pc.field("broker") == row["broker"]) & (pc.field("boot") == row["boot"])
            of_it &= (pc.field("worker") == row["worker"]) & pc.field("event").isin(["lost", "disconnected"])
            for went in _where(readings, "workers", near, of_it):
                found[row["broker"], row["boot"], row["ticket"]] = went["reason"] or went["event"]
    return found


def _where(readings: Sequence[JournalReader], table: str, span: Span, holds: pc.Expression) -> Iterable[Row]:
    """Rows whose instant is in this span, and for which `holds` is true."""
    for _, rows in read_newest_first(readings, table, span):
        yield from rows.filter(holds & span.holds("at")).to_pylist()
