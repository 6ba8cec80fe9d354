"""Finds the hours that have nothing to do with new rows in the hour after them.

Such an hour need not be made again: while an hour is in progress, that is the one before it, and half of the work. What
a table with a row for each task says about an hour depends on the next one only in these ways: by rows of the same
tasks, by what became of tasks that were open and did not end, or that one of two brokers knows nothing about, and by
rows that are missing. An hour in which a peer was lost is never unaffected: whether the peer went on writing shows only
in the next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from famulus.errors import FileDamaged
from famulus.journal import arrow
from famulus.pipeline.columnar.rows import FINAL
from famulus.pipeline.io.place import Place
from famulus.pipeline.io.small_batch import rows_of
from famulus.pipeline.io.source import Sound

#: The ids of this many fit into memory.
ROWS_MAX: Final = 5_000_000
_ID: Final = "message_id"
_COLUMNS: Final = (_ID, "outcome", "delegated_from", "delegated_to", "broker", "boot", "row", "event")


def unaffected_hours(
    journal: Place, sound: Iterable[Sound], new: Collection[Sound], candidates: Iterable[int]
) -> set[int]:
    """Those candidates that are unaffected. A candidate has no new rows itself, and none in the hour before."""
    fresh = {each.path for each in new}
    by_hour: dict[int, list[Sound]] = {}
    for each in sound:
        if each.file.table in ("tasks", "open_tasks", "peers"):
            by_hour.setdefault(each.hour, []).append(each)

    def is_one(hour: int) -> bool:
        try:
            return is_quiet(hour)
        except FileDamaged:
            return False  # which file it is turns out when the hour is made

    def is_quiet(hour: int) -> bool:
        own, after = by_hour.get(hour, []), by_hour.get(hour + 1, [])
        if sum(each.rows for each in (*own, *after) if each.file.table != "peers") > ROWS_MAX:
            return False  # checking would take too long, and too much memory
        new_after = [each for each in after if each.path in fresh]
        old_tasks = _rows(journal, "tasks", [each for each in after if each.path not in fresh])
        new_tasks, new_opened = (_rows(journal, table, new_after) for table in ("tasks", "open_tasks"))
        if pc.any(pc.equal(_rows(journal, "peers", own)["event"], "lost"), min_count=0).as_py():
            return False
        return is_unaffected(
            tasks=_rows(journal, "tasks", own),
            opened=_rows(journal, "open_tasks", own),
            tasks_after=pa.concat_tables([old_tasks, new_tasks]),
            new=pa.concat_tables([new_tasks.select([_ID]), new_opened.select([_ID])]),
        )

    return {hour for hour in candidates if is_one(hour)}


def is_unaffected(*, tasks: pa.Table, opened: pa.Table, tasks_after: pa.Table, new: pa.Table) -> bool:
    """`tasks` and `opened` of the hour, all tasks of the hour after it, and the ids of what is `new` in that one."""
    ids = pa.chunked_array([*tasks[_ID].chunks, *opened[_ID].chunks], pa.string())
    if pc.any(pc.is_in(ids, new[_ID]), min_count=0).as_py():
        return False
    if not _halves_are_whole(pa.concat_tables([tasks, tasks_after])) or not _numbers_are_whole(tasks):
        return False
    is_own = pc.field("delegated_from").is_null()
    again = tasks.filter(is_own & (pc.field("outcome") == "RETRY"))[_ID]
    own = pa.chunked_array([*opened.filter(is_own)[_ID].chunks, *again.chunks], pa.string())
    if not len(own):
        return True
    is_settled = pc.field("delegated_from").is_null() & pc.field("outcome").isin(FINAL)
    settled = pa.concat_tables([tasks, tasks_after]).filter(is_settled)[_ID]
    # First find the few among the many: Arrow takes longer the more values it has to search.
    found = settled.filter(pc.is_in(settled, own))
    return bool(pc.all(pc.is_in(own, found)).as_py())


def _halves_are_whole(tasks: pa.Table) -> bool:
    """Whether each task that was handed over has a row at both brokers: the other row may still come, or be missing."""
    handed = tasks.filter(~pc.field("delegated_from").is_null() | ~pc.field("delegated_to").is_null())
    counts = handed.group_by(_ID).aggregate([([], "count_all")])["count_all"]
    return bool(pc.all(pc.greater(counts, 1), min_count=0).as_py())


def _numbers_are_whole(tasks: pa.Table) -> bool:
    """Whether no row of a life is missing within the hour: the next hour may have it, or a gap for it."""
    life = tasks.filter(~pc.field("row").is_null()).group_by(["broker", "boot"])
    found = life.aggregate([("row", "min"), ("row", "max"), ([], "count_all")])
    wanted = pc.add(pc.subtract(found["row_max"], found["row_min"]), 1)
    return bool(pc.all(pc.less_equal(wanted, found["count_all"]), min_count=0).as_py())


def _rows(journal: Place, table: str, of: Iterable[Sound]) -> pa.Table:
    """The columns that matter here, of the rows of these files."""
    known = arrow.schema_of(table)
    wanted = pa.schema([known.field(name) for name in _COLUMNS if name in known.names])
    paths = [each.path for each in of if each.file.table == table]
    return rows_of(journal, paths, wanted)
