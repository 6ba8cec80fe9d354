"""Hours of the journal: how their rows are read, whatever is done with them, and what is computed of each by itself.

This is what Spark's tasks run. So it imports nothing of Spark, nor of the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from famulus.pipeline.columnar.rows import US_PER_HOUR, US_PER_MINUTE

#: About so many rows of an hour are in memory at once, in each of Spark's tasks: some 200 bytes each, or a few times
#: that while they are computed. Those of more are computed one part after the other.
ROWS_AT_ONCE: Final = 3_000_000
#: The minutes of an hour.
HOUR: Final = range(60)
#: Rows that Spark is sent at a time.
_BATCH_ROWS: Final = 65_536
#: Hours, or parts of hours.
Unit = TypeVar("Unit")
#: Computes some of them.
Work = Callable[[Sequence[Unit]], Iterator[pa.Table]]


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


class Collected:
    """Those that are in memory."""

    def __init__(self, rows: pa.Table) -> None:
        self._at = "ended" if "ended" in rows.column_names else "at"
        at = rows[self._at]
        hours = pc.divide(at.cast(pa.int64()), US_PER_HOUR)
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
    # Not by Arrow's `minute`, which wants to know the time zones of the machine.
    own = pc.cast(rows[at], pa.int64()).to_numpy() // US_PER_MINUTE % len(HOUR)
    return rows.filter(pa.array((own >= minutes.start) & (own < minutes.stop)))


def work_on(
    shares: Sequence[Sequence[Unit]], work: Work[Unit], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What runs in Spark's tasks."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for table in work(shares[number]):
                yield from table.to_batches(max_chunksize=_BATCH_ROWS)


def compute_hours(
    rows: HourlyRows,
    columns: Sequence[str],
    compute: Callable[[pa.Table], pa.Table],
    schema: pa.Schema,
    by_minute: bool,
    hours: Sequence[int],
) -> Iterator[pa.Table]:
    for hour in hours:
        for part in in_parts(rows, columns, hour) if by_minute else [rows.read(hour, columns)]:
            yield compute(part).select(schema.names).cast(schema)


def in_parts(rows: HourlyRows, columns: Sequence[str], hour: int) -> Iterator[pa.Table]:
    """The rows of an hour: some of its minutes at a time, if there are many."""
    parts = min(1 + rows.rows_of[hour] // ROWS_AT_ONCE, len(HOUR))
    for part in range(parts):
        yield rows.read(hour, columns, minutes_of(part, parts))
