"""Rows of the journal by way of Arrow, an hour at a time, instead of Spark's own readers.

A DataFrame of the journal's rows knows where to read them: see `pipeline.io.journal_hours`. Few hours are computed at
once, in this process. Of many rows, each of Spark's tasks computes some hours; the rows themselves Spark never sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from famulus.pipeline.columnar.hours import Collected, HourlyRows, Unit, Work, compute_hours, work_on
from famulus.pipeline.tables.memo import cached

#: Up to this many rows are computed in this process: Spark takes seconds to start others.
ROWS_HERE: Final = 1_000_000
#: So that tasks of different lengths end at about the same time.
TASKS_PER_CORE: Final = 4
#: Up to this many rows that were computed are brought here: what is made of them then takes one stage.
RESULTS_HERE: Final = 50_000
_known: WeakKeyDictionary[DataFrame, HourlyRows] = WeakKeyDictionary()


def remember(frame: DataFrame, rows: HourlyRows) -> None:
    """Where else the rows of this DataFrame can be had."""
    _known[frame] = rows


def hourly(frame: DataFrame) -> HourlyRows:
    if frame not in _known:
        _known[frame] = Collected(frame.toArrow())
    return _known[frame]


def computed(
    frame: DataFrame,
    columns: Sequence[str],
    compute: Callable[[pa.Table], pa.Table],
    schema: pa.Schema,
    *,
    by_minute: bool = False,
) -> pa.Table | DataFrame:
    """What is computed of these columns of each hour by itself; `by_minute`: or of each minute by itself."""
    rows = hourly(frame)
    work = partial(compute_hours, rows, columns, compute, schema, by_minute)
    return over_hours(frame.sparkSession, rows.rows_of, work, schema)


def over_hours(
    spark: SparkSession, rows_of: dict[int, int], work: Work[int], schema: pa.Schema
) -> pa.Table | DataFrame:
    """What is computed of these hours: here, unless it is much."""
    if is_here(rows_of):
        return pa.concat_tables([schema.empty_table(), *work(sorted(rows_of))])
    found = cached(in_tasks(spark, rows_of, work, schema))
    return found.toArrow() if found.count() <= RESULTS_HERE else found


def is_here(rows_of: Mapping[Unit, int]) -> bool:
    return sum(rows_of.values()) <= ROWS_HERE


def in_tasks(spark: SparkSession, rows_of: Mapping[Unit, int], work: Work[Unit], schema: pa.Schema) -> DataFrame:
    shares = shares_of(rows_of, TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    tasks = spark.range(0, len(shares), 1, len(shares))
    return tasks.mapInArrow(partial(work_on, shares, work), from_arrow_schema(schema))


def shares_of(rows_of: Mapping[Unit, int], most: int) -> list[list[Unit]]:
    """At most so many shares with about as many rows each, of hours that follow on each other: what is computed of one
    may need its neighbours."""
    shares: dict[int, list[Unit]] = {}
    total, before = sum(rows_of.values()), 0
    for unit, rows in sorted(rows_of.items()):
        shares.setdefault(before * most // max(total, 1), []).append(unit)
        before += rows
    return list(shares.values())
