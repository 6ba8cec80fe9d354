"""Rows of the journal by way of Arrow, an hour at a time, instead of Spark's own readers.

A DataFrame of the journal's rows knows where to read them: see `pipeline.io.journal_hours`. Few hours are computed at
once, in this process. Of many rows, each of Spark's tasks computes some hours; the rows themselves Spark never sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from famulus.pipeline.tables.memo import cached

#: Up to this many rows are computed in this process: Spark takes seconds to start others.
ROWS_HERE: Final = 1_000_000
#: So that tasks of different lengths end at about the same time.
TASKS_PER_CORE: Final = 4
#: About so many rows of an hour are in memory at once, in each of Spark's tasks: some 200 bytes each, or a few times
#: that while they are computed. Those of more are computed one part after the other.
ROWS_AT_ONCE: Final = 3_000_000
#: Up to this many rows that were computed are brought here: what is made of them then takes one stage.
RESULTS_HERE: Final = 50_000
#: The minutes of an hour.
HOUR: Final = range(60)
_US_PER_HOUR: Final = 3_600_000_000


class HourlyRows(Protocol):
    """Rows of one table of the journal. Can be sent to Spark's tasks."""

    @property
    def rows_of(self) -> dict[int, int]:
        """The hours that there are, and how many rows each has."""

    def read(self, hour: int, columns: Sequence[str], minutes: range = HOUR) -> pa.Table:
        """These columns of an hour, or of some of its minutes; none if there is no such hour."""

    def kept(self, hour: int, columns: Sequence[str], keep: Callable[[pa.Table], pa.Table]) -> pa.Table:
        """What is to be kept of them. It is asked file by file, so that never all are in memory."""


class HourlyMade(Protocol):
    """Rows of a table that are computed hour by hour. Can be sent to Spark's tasks."""

    @property
    def rows_of(self) -> dict[int, int]:
        """About how many rows each hour has."""

    def of(self, hour: int, minutes: range) -> pa.Table:
        """Of some minutes of an hour, in the order of their instants; without the columns of the hour itself."""


_known: WeakKeyDictionary[DataFrame, HourlyRows] = WeakKeyDictionary()


def remember(frame: DataFrame, rows: HourlyRows) -> None:
    """Where else the rows of this DataFrame can be had."""
    _known[frame] = rows


def hourly(frame: DataFrame) -> HourlyRows:
    if frame not in _known:
        _known[frame] = _Collected(frame.toArrow())
    return _known[frame]


class _Collected:
    """Those of a DataFrame of unknown origin, which has to be small."""

    def __init__(self, rows: pa.Table) -> None:
        self._at = "ended" if "ended" in rows.column_names else "at"
        at = rows[self._at]
        hours = pc.divide(at.cast(pa.int64()), _US_PER_HOUR)
        self._hours = {each: rows.filter(pc.equal(hours, each)) for each in hours.unique().to_pylist()}
        self._none = rows.slice(0, 0)

    @property
    def rows_of(self) -> dict[int, int]:
        return {hour: rows.num_rows for hour, rows in self._hours.items()}

    def read(self, hour: int, columns: Sequence[str], minutes: range = HOUR) -> pa.Table:
        return of_minutes(self._hours.get(hour, self._none), self._at, minutes).select(columns)

    def kept(self, hour: int, columns: Sequence[str], keep: Callable[[pa.Table], pa.Table]) -> pa.Table:
        return keep(self.read(hour, columns))


def minutes_of(part: int, parts: int) -> range:
    """The minutes of a part, where an hour is cut into so many: those of which `minute * parts // 60` is the part."""
    return range(-(-60 * part // parts), -(-60 * (part + 1) // parts))


def of_minutes(rows: pa.Table, at: str, minutes: range) -> pa.Table:
    """Rows of an hour that are of some of its minutes."""
    if minutes == HOUR:
        return rows
    own = pc.minute(rows[at])
    return rows.filter(pc.and_(pc.greater_equal(own, minutes.start), pc.less(own, minutes.stop)))


def computed(
    frame: DataFrame,
    columns: Sequence[str],
    compute: Callable[[pa.Table], pa.Table],
    schema: pa.Schema,
    *,
    by_minute: bool = False,
) -> DataFrame:
    """What is computed of these columns of each hour by itself; `by_minute`: or of each minute by itself."""
    rows = hourly(frame)
    work = partial(_compute, rows, columns, compute, schema, by_minute)
    return over_hours(frame.sparkSession, rows.rows_of, work, schema)


Unit = TypeVar("Unit")
#: Computes some hours, or parts of hours.
Work = Callable[[Sequence[Unit]], Iterator[pa.Table]]


def over_hours(
    spark: SparkSession, rows_of: dict[int, int], work: Work[int], schema: pa.Schema, *, runs: bool = False
) -> DataFrame:
    """What is computed of these hours. `runs`: it takes less if several that follow on each other are done at once."""
    if is_here(rows_of):
        return frame_of(spark, pa.concat_tables([schema.empty_table(), *work(sorted(rows_of))]))
    found = cached(in_tasks(spark, rows_of, work, schema, runs=runs))
    return frame_of(spark, found.toArrow()) if found.count() <= RESULTS_HERE else found


def is_here(rows_of: Mapping[Unit, int]) -> bool:
    return sum(rows_of.values()) <= ROWS_HERE


def in_tasks(
    spark: SparkSession, rows_of: Mapping[Unit, int], work: Work[Unit], schema: pa.Schema, *, runs: bool = False
) -> DataFrame:
    units = sorted(rows_of)  # type: ignore[type-var]
    most = TASKS_PER_CORE * spark.sparkContext.defaultParallelism
    step = -(-len(units) // most) if runs else 1
    shares = [tuple(units[begin : begin + step]) for begin in range(0, len(units), step)]
    tasks = spark.range(0, len(shares), 1, len(shares))
    return tasks.mapInArrow(partial(_share, shares, work), from_arrow_schema(schema))


def _share(
    shares: Sequence[Sequence[Unit]], work: Work[Unit], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What runs in Spark's tasks."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for table in work(shares[number]):
                yield from table.to_batches(max_chunksize=65_536)


def _compute(
    rows: HourlyRows,
    columns: Sequence[str],
    compute: Callable[[pa.Table], pa.Table],
    schema: pa.Schema,
    by_minute: bool,
    hours: Sequence[int],
) -> Iterator[pa.Table]:
    for hour in hours:
        parts = min(1 + rows.rows_of[hour] // ROWS_AT_ONCE, len(HOUR)) if by_minute else 1
        for part in range(parts):
            yield compute(rows.read(hour, columns, minutes_of(part, parts))).select(schema.names).cast(schema)


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Few rows, in one partition."""
    # In one piece: Spark would stop at the first batch without rows. And with a batch for each column: PySpark asks
    # that of nested ones for their type.
    whole = rows.combine_chunks() if rows.num_rows else rows.schema.empty_table()
    return spark.createDataFrame(whole).coalesce(1)
