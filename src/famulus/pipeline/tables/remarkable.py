"""Tasks that are worth a look, and tasks that were left open; all others are plain: see `columnar.remarkable`.

Not a table: `task_facts` and the audit share it.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from famulus.pipeline.columnar.looking import BOTH, OPEN, TASKS, work
from famulus.pipeline.columnar.rows import Array
from famulus.pipeline.tables.frames import rows_of, to_spark
from famulus.pipeline.tables.hourly import hourly, over_hours
from famulus.pipeline.tables.memo import memo


class Remarkable(NamedTuple):
    both: DataFrame

    @property
    def tasks(self) -> DataFrame:
        """Rows of tasks: all of a task within an hour before and after, if any of them is here."""
        return self.both.where("state IS NULL").select(TASKS.names)

    @property
    def opened(self) -> DataFrame:
        """The last sign of each task that did not end within an hour before and after it."""
        return self.both.where("state IS NOT NULL").select(OPEN.names)

    def hashes(self) -> dict[int, Array]:
        """Of the tasks that are here, by hour."""
        rows = rows_of(self.both, ["hour_number", "of_task", "state"])
        rows = rows.filter(pc.is_null(rows["state"]))
        hours, numbers = (rows[name].to_numpy() for name in ("hour_number", "of_task"))
        order = np.argsort(hours, kind="stable")
        found, begins = np.unique(hours[order], return_index=True)
        parts = np.split(numbers[order].view(np.uint64), begins[1:])
        return dict(zip(found.tolist(), parts, strict=True)) if len(found) else {}


@memo
def remarkable(tasks: DataFrame, open_tasks: DataFrame) -> Remarkable:
    rows, opened = hourly(tasks), hourly(open_tasks)
    hours = {hour: rows.rows_of.get(hour, 0) for hour in {*rows.rows_of, *opened.rows_of}}
    found = over_hours(tasks.sparkSession, hours, partial(work, rows, opened), BOTH)
    return Remarkable(to_spark(tasks.sparkSession, found))
