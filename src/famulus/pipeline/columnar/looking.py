"""What is worth a look of some hours, tasks and open tasks in one table: so Spark's tasks return it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from famulus.journal import arrow
from famulus.pipeline.columnar.hours import ROWS_AT_ONCE, HourlyRows
from famulus.pipeline.columnar.remarkable import remarkable
from famulus.pipeline.columnar.rows import Array

TASKS, OPEN = (arrow.schema_of(name) for name in ("tasks", "open_tasks"))
#: Of both, in one table: those of open tasks have a state.
BOTH: Final = pa.schema(
    [
        pa.field("hour_number", pa.int64()),
        pa.field("of_task", pa.int64()),
        *(field.with_nullable(True) for field in TASKS),
        *(OPEN.field(name).with_nullable(True) for name in ("at", "state")),
    ]
)


def work(rows: HourlyRows, opened: HourlyRows, hours: Sequence[int]) -> Iterator[pa.Table]:
    shares = 1 + max((rows.rows_of.get(hour, 0) for hour in hours), default=0) // ROWS_AT_ONCE
    for each in remarkable(hours, rows.kept, opened.kept, shares=shares):
        yield from (_as_both(each.hour, each.tasks, each.hashes), _as_both(each.hour, each.opened, None))


def _as_both(hour: int, rows: pa.Table, hashes: Array | None) -> pa.Table:
    columns = {name: rows[name] for name in rows.column_names}
    columns["hour_number"] = pa.repeat(hour, rows.num_rows)
    if hashes is not None:
        columns["of_task"] = pa.array(hashes.view(np.int64))
    arrays = [columns[field.name] if field.name in columns else pa.nulls(rows.num_rows, field.type) for field in BOTH]
    return pa.Table.from_arrays(arrays, names=BOTH.names).cast(BOTH)
