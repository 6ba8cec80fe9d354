"""Tasks that are worth a look, and tasks that were left open; all others are plain: see `columnar.remarkable`.

Not a table: `task_facts` and the audit share it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from famulus.journal import arrow
from famulus.pipeline.columnar import remarkable as columnar
from famulus.pipeline.tables.hourly import ROWS_AT_ONCE, HourlyRows, hourly, over_hours
from famulus.pipeline.tables.memo import memo

_TASKS, _OPEN = (arrow.schema_of(name) for name in ("tasks", "open_tasks"))
#: Of both, in one table: those of open tasks have a state.
_BOTH: Final = pa.schema(
    [
        pa.field("hour_number", pa.int64()),
        pa.field("of_task", pa.int64()),
        *(field.with_nullable(True) for field in _TASKS),
        *(_OPEN.field(name).with_nullable(True) for name in ("at", "state")),
    ]
)


class Remarkable(NamedTuple):
    both: DataFrame

    @property
    def tasks(self) -> DataFrame:
        """Rows of tasks: all of a task within an hour before and after, if any of them is here."""
        return self.both.where("state IS NULL").select(_TASKS.names)

    @property
    def opened(self) -> DataFrame:
        """The last sign of each task that did not end within an hour before and after it."""
        return self.both.where("state IS NOT NULL").select(_OPEN.names)

    def hashes(self) -> dict[int, np.ndarray[tuple[int], np.dtype[np.uint64]]]:
        """Of the tasks that are here, by hour."""
        rows = self.both.where("state IS NULL").select("hour_number", "of_task").distinct().toArrow()
        hours, numbers = (rows[name].to_numpy() for name in rows.column_names)
        order = np.argsort(hours, kind="stable")
        found, begins = np.unique(hours[order], return_index=True)
        parts = np.split(numbers[order].view(np.uint64), begins[1:])
        return dict(zip(found.tolist(), parts, strict=True)) if len(found) else {}


@memo
def remarkable(tasks: DataFrame, open_tasks: DataFrame) -> Remarkable:
    rows, opened = hourly(tasks), hourly(open_tasks)
    hours = {hour: rows.rows_of.get(hour, 0) for hour in {*rows.rows_of, *opened.rows_of}}
    return Remarkable(over_hours(tasks.sparkSession, hours, partial(_work, rows, opened), _BOTH, runs=True))


def _work(rows: HourlyRows, opened: HourlyRows, hours: Sequence[int]) -> Iterator[pa.Table]:
    shares = 1 + max((rows.rows_of.get(hour, 0) for hour in hours), default=0) // ROWS_AT_ONCE
    for each in columnar.remarkable(hours, rows.kept, opened.kept, shares=shares):
        yield from (_as_both(each.hour, each.tasks, each.hashes), _as_both(each.hour, each.opened, None))


def _as_both(hour: int, rows: pa.Table, hashes: np.ndarray[tuple[int], np.dtype[np.uint64]] | None) -> pa.Table:
    columns = {name: rows[name] for name in rows.column_names}
    columns["hour_number"] = pa.repeat(hour, rows.num_rows)
    if hashes is not None:
        columns["of_task"] = pa.array(hashes.view(np.int64))
    arrays = [columns[field.name] if field.name in columns else pa.nulls(rows.num_rows, field.type) for field in _BOTH]
    return pa.Table.from_arrays(arrays, names=_BOTH.names).cast(_BOTH)
