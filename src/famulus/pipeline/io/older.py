"""Puts the tables of an older pipeline, which had a folder for each hour, into files of days.

    <table>/date=2026-11-15/hour=08/part-00.parquet     as it was

A day is written aside as a whole. Only then are its old files removed, and the new ones moved to their place. Whoever
dies in between leaves a day that is complete aside, and the next run goes on with it. For that moment a reader does not
see the day; nothing is ever twice.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from famulus.pipeline.io import day_files
from famulus.pipeline.io.day_files import NewHour

if TYPE_CHECKING:
    from famulus.pipeline.io.store import Store
    from famulus.pipeline.tables.table import Table

ASIDE: Final = "_days"
#: Its name says that a day aside is complete.
_COMPLETE: Final = "complete"
_OLD: Final = re.compile(r"hour=(\d\d)/part-(\d\d)\.parquet")


def arrange(store: Store, tables: Iterable[Table]) -> None:
    for table in tables:
        for day in store.days(table.name):
            old = _old_files(store, f"{table.name}/date={day}")
            if old:
                _write_aside(store, table, day, old)
                _move(store, f"{table.name}/date={day}")
    store.place.remove_folder(ASIDE)
    # Where Spark had noted the files that a stream had seen.
    store.place.remove_folder("_state/follow")


def finish(store: Store) -> None:
    """What a run that died has left aside: moved if it is complete, and otherwise made again."""
    for table in store.place.names(ASIDE):
        for day in store.place.names(f"{ASIDE}/{table}"):
            if _COMPLETE in store.place.names(f"{ASIDE}/{table}/{day}"):
                _move(store, f"{table}/{day}")
    store.place.remove_folder(ASIDE)


def _old_files(store: Store, folder: str) -> dict[tuple[int, int], tuple[str, int]]:
    """Path and size, by hour and part."""
    found = {}
    for each in store.place.files(folder):
        if (match := _OLD.fullmatch(each.path.removeprefix(f"{folder}/"))) is not None:
            found[int(match[1]), int(match[2])] = each.path, each.bytes
    return found


def _write_aside(store: Store, table: Table, day: str, old: dict[tuple[int, int], tuple[str, int]]) -> None:
    sizes: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for (hour, part), (_, size) in old.items():
        sizes[hour][part] = size
    new = {hour: NewHour(hour, parts, max(parts) + 1) for hour, parts in sizes.items()}
    aside = f"{ASIDE}/{table.name}/date={day}"
    store.place.remove_folder(aside)
    for work in day_files.arrange([], new):
        with_hours = [_with_hour(store, table, old[each][0], each[0]) for each in work.added]
        store.put_rows(table, f"{aside}/{work.name}", with_hours)
    store.place.write(f"{aside}/{_COMPLETE}", b"")


def _with_hour(store: Store, table: Table, path: str, hour: int) -> pa.Table:
    rows = store.rows_of_file(table, path)
    at = rows.schema.get_field_index("hour")
    return rows.set_column(at, rows.schema.field(at), pa.repeat(pa.scalar(hour, pa.int32()), rows.num_rows))


def _move(store: Store, folder: str) -> None:
    """Also if some of it was moved before."""
    place = store.place
    for name in place.names(folder):
        if name.startswith("hour="):
            place.remove_folder(f"{folder}/{name}")
    for name in place.names(f"{ASIDE}/{folder}"):
        if name != _COMPLETE:
            place.settle(f"{ASIDE}/{folder}/{name}", f"{folder}/{name}")
    place.remove_folder(f"{ASIDE}/{folder}")
