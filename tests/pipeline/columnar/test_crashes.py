"""What a life of a broker wrote last, before it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from famulus.journal import arrow
from famulus.pipeline.columnar.crashes import last_rows, last_told

HOUR_US = 3_600_000_000
HOUR = 500_000
END = HOUR * HOUR_US + 100_000_000
ENDS = pa.table({"broker": ["b1"], "boot": ["x"], "end_us": [END]})


class Hours:
    def __init__(self, table: str, at: str, rows: list[dict[str, Any]]) -> None:
        known = arrow.schema_of(table)
        self._at, self._rows = at, [{"broker": "b1", "boot": "x", **row} for row in rows]
        self._schema = pa.schema([field.with_nullable(True) for field in known])

    def read(self, hour: int, columns: Sequence[str]) -> pa.Table:
        own = [row for row in self._rows if row[self._at] // HOUR_US == hour]
        return pa.Table.from_pylist(own, self._schema).select(columns)


def signs(found: pa.Table, beside: str) -> list[tuple[int, int | None]]:
    assert set(found["end"].cast(pa.int64()).to_pylist()) <= {END}
    numbers = [found[name].cast(pa.int64()).to_pylist() for name in ("sign", beside)]
    return sorted(zip(*numbers, strict=True), key=repr)


def test_of_tasks_those_before_the_last_one_and_the_first() -> None:
    first, last = HOUR * HOUR_US + 1, END - 5_000_000
    tasks = Hours(
        "tasks",
        "ended",
        [
            {"ended": first, "total_ns": 1},
            {"ended": last - 9_000_000, "total_ns": 2},
            {"ended": last, "total_ns": 3},
            {"ended": END + 1, "total_ns": 4},
            {"ended": last, "total_ns": 5, "boot": "y"},
        ],
    )
    assert signs(last_rows(ENDS, tasks.read, 10), "total_ns") == [(first, None), (last - 9_000_000, 2), (last, 3)]


def test_of_what_dispatchers_told_the_first_the_last_and_the_last_load() -> None:
    before, first, load, last = (HOUR * HOUR_US + each for each in (-1, 10, 20, 30))
    told = Hours(
        "brokers",
        "at",
        [
            {"at": before, "event": "overload_off"},
            {"at": first, "event": "load"},
            {"at": load, "event": "load"},
            {"at": last, "event": "overload_on"},
            # Of others about it; of another life; and after its end.
            {"at": last + 1, "event": "process_died"},
            {"at": last + 1, "event": "load", "boot": "y"},
            {"at": END + 1, "event": "load"},
            # Two hours before: nobody looks that far back.
            {"at": before - HOUR_US, "event": "load"},
        ],
    )
    expected = [(before, None), (before, None), (first, None), (last, load)]
    assert signs(last_told(ENDS, told.read), "checkpoint") == sorted(expected, key=repr)


def test_nothing_was_written() -> None:
    assert last_rows(ENDS, Hours("tasks", "ended", []).read, 10).num_rows == 0
    only_of_others = Hours("brokers", "at", [{"at": END - 1, "event": "start"}])
    assert last_told(ENDS, only_of_others.read).num_rows == 0
