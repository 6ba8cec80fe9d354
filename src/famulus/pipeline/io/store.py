"""The tables on disk: plain Parquet that Spark, DuckDB and pandas read alike.

    <tables>/<hourly table>/date=2026-11-15/hour=08/part-00.parquet
    <tables>/<whole table>/part-00.parquet

What is made is written below `_staging`, where nobody looks. Then each file is moved to its place in one step,
replacing the one that is there. Names are fixed, so no reader ever sees an hour twice, whatever dies and whenever.

An hour with very many rows is cut into parts of whole minutes, one file each. When it is made again, each part replaces
the same part. If it needs more parts than before, the parts are moved in order of time: then some minutes may be
missing for a moment, but none is there twice. An hour never gets fewer parts than it has.

A row in the folder of another hour would be missing here and wrong there. So each file is checked before it is
published: all of its rows must be of the hour of its folder.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from famulus.errors import Misfiled
from famulus.pipeline.columnar.hours import HourlyMade
from famulus.pipeline.io import hours
from famulus.pipeline.io.place import Place
from famulus.pipeline.io.small_batch import file_of, rows_of, small_frame
from famulus.pipeline.io.writing import WRITTEN, write_parts
from famulus.pipeline.tables.column_types import arrow_schema, struct_of
from famulus.pipeline.tables.hourly import RESULTS_HERE, in_tasks, is_here
from famulus.pipeline.tables.scale import Scale, scale_of
from famulus.pipeline.tables.table import Table

STAGING: Final = "_staging"
#: An hour of a table with a row per task is cut when it has more tasks than this.
ROWS_PER_FILE: Final = 4_000_000
#: Folders in which Spark lays out the hours of a table, one inside the other.
_PARTS: Final = ["date", "hour", "part_"]
_STAGED: Final = re.compile(r"(?:.*/)?date=(\d{4}-\d\d-\d\d)/hour=(\d+)/part_=(\d+)/[^/]+\.parquet")
_PUBLISHED: Final = re.compile(r"\w+/date=(\d{4}-\d\d-\d\d)/hour=(\d\d)/part-(\d\d)\.parquet")
#: The instant of a row in tables with a row per task; and what it may be called in other tables that have one.
_ENDED: Final = "ended"
_INSTANTS: Final = (_ENDED, "minute", "at")
_HOUR_US: Final = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Made:
    """A table, or some hours of it, ready to be published."""

    table: Table
    folder: str
    hours: frozenset[int]
    rows: int


def digest_of(table: Table) -> str:
    """Changes with the columns."""
    return sha256(struct_of(table.columns).json().encode()).hexdigest()[:16]


class Store:
    def __init__(self, place: Place) -> None:
        self.place = place

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(
        self,
        spark: SparkSession,
        table: Table,
        wanted: Collection[int] | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """These hours of a table, or all, and these columns, or all, in its order; no rows if it was never made."""
        chosen = [each for each in table.columns if columns is None or each.name in columns]
        if scale_of(spark) is not Scale.LARGE:
            paths = [each.path for each in self.place.files(table.name) if _is_of(each.path, wanted)]
            in_path = [each.name for each in chosen if _is_in_path(table, each.name)]
            few = small_frame(spark, self.place, paths, arrow_schema(chosen), in_path)
            if few is not None:
                return few
        if next(self.place.files(table.name), None) is None:
            return spark.createDataFrame([], struct_of(chosen))
        rows = spark.read.schema(struct_of(table.columns)).parquet(self.place.uri(table.name))
        kept = rows if wanted is None else rows.where(_number().isin(sorted(wanted)))
        return kept.select(*[each.name for each in chosen])

    def has_values(self, table: Table, column: str) -> bool:
        """Whether any row has a value there. Looked up without Spark, which would take longer to plan a query."""
        wanted = arrow_schema(each for each in table.columns if each.name == column)
        values = rows_of(self.place, [each.path for each in self.place.files(table.name)], wanted)[column]
        return bool(values.null_count < len(values))

    def bytes_of(self, name: str) -> int:
        return sum(each.bytes for each in self.place.files(name))

    # -- writing ------------------------------------------------------------------------------------------------------

    def clean(self) -> None:
        """Removes what a run that died has left behind."""
        self.place.remove_folder(STAGING)

    def stage_hours(
        self,
        table: Table,
        rows: DataFrame,
        wanted: frozenset[int],
        parts: Mapping[int, int],
        *,
        few: bool,
        beside: HourlyMade | None = None,
    ) -> Made:
        """`parts`: hours that are to be cut, and into how many. `few`: so few rows that we write them ourselves."""
        folder = f"{STAGING}/{table.name}"
        if beside is None:
            return Made(table, folder, wanted, self._stage_rows(table, rows, wanted, parts, folder, few=few))
        self._stage_rows(table, rows, wanted, parts, f"{folder}-apart", few=few)
        made = {hour: count for hour, count in beside.rows_of.items() if hour in wanted}
        apart: dict[tuple[int, int], tuple[str, ...]] = {}
        for each in self.place.files(f"{folder}-apart"):
            at = _place_of(each.path)
            apart[at] = (*apart.get(at, ()), each.path)
        units = {
            (hour, part): made.get(hour, 0) // parts.get(hour, 1)
            for hour in {*made, *(hour for hour, _ in apart)}
            for part in range(parts.get(hour, 1))
        }
        work = partial(write_parts, self.place, _file_schema(table), parts, beside, apart, folder)
        if is_here(units):
            _ = [*work(sorted(units))]
        else:
            in_tasks(rows.sparkSession, units, work, WRITTEN).toArrow()
        return Made(table, folder, wanted, self._checked(table, folder))

    def _stage_rows(
        self, table: Table, rows: DataFrame, wanted: frozenset[int], parts: Mapping[int, int], folder: str, *, few: bool
    ) -> int:
        """Returns how many there are."""
        number = _number()
        if is_cut(table):
            rows = rows.where(_is_near(F.col(_ENDED), wanted))
        kept = rows.where(number.isin(sorted(wanted))).withColumn("part_", _part(number, parts))
        if few:
            return self.put_hours(table, kept.toArrow(), folder)
        if table.by_arrow:
            # What takes a look at tasks is mostly a few of them; and of sums there are not many.
            first = kept.limit(RESULTS_HERE + 1).toArrow()
            if first.num_rows <= RESULTS_HERE:
                return self.put_hours(table, first, folder)
        # One task for each part, hence one file for each.
        files = sum(parts.get(each, 1) for each in wanted)
        tasks = min(files, int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1))
        laid_out = kept.repartition(tasks, *_PARTS).sortWithinPartitions(*_PARTS, *_order_of(table))
        laid_out.write.partitionBy(*_PARTS).parquet(self.place.uri(folder))
        return self._checked(table, folder)

    def stage_whole(self, table: Table, rows: DataFrame, *, few: bool) -> Made:
        folder = f"{STAGING}/{table.name}"
        if few:
            made = rows.toArrow()
            self.place.put(f"{folder}/few.parquet", file_of(made, arrow_schema(table.columns)))
            return Made(table, folder, frozenset(), made.num_rows)
        rows.repartition(1).write.parquet(self.place.uri(folder))
        return Made(table, folder, frozenset(), sum(about.num_rows for _, about in self._ends(folder)))

    def stage_nothing(self, table: Table) -> Made:
        """A whole table without rows."""
        folder, columns = f"{STAGING}/{table.name}", arrow_schema(table.columns)
        self.place.put(f"{folder}/few.parquet", file_of(columns.empty_table(), columns))
        return Made(table, folder, frozenset(), 0)

    def put_hours(self, table: Table, rows: pa.Table, folder: str) -> int:
        """Where Spark would have written them; returns how many there are."""
        rows = rows.sort_by([(name, "ascending") for name in (*_PARTS, *_order_of(table))])
        for begin, end in pairwise([*cuts(rows), rows.num_rows]):
            own = rows.slice(begin, end - begin)
            day, hour, part = (own[name][0].as_py() for name in _PARTS)
            _check(table, hours.number_of(str(day), str(hour)), *_hours_within(table, own))
            path = f"{folder}/date={day}/hour={hour}/part_={part}/few.parquet"
            self.place.put(path, file_of(own, _file_schema(table)))
        return int(rows.num_rows)

    def publish_hours(self, made: Made, with_files: Collection[int]) -> None:
        """`with_files`: hours that the journal has. They get a file even if it has no rows."""
        staged: dict[int, dict[int, str]] = defaultdict(dict)
        for each in self.place.files(made.folder):
            hour, part = _place_of(each.path)
            assert part not in staged[hour], f"two files for one part: {each.path}"
            staged[hour][part] = each.path
        before = self.parts(made.table.name)
        for hour in sorted(made.hours):
            self._publish_hour(made.table, hour, staged.get(hour, {}), before.get(hour, set()), hour in with_files)

    def _publish_hour(self, table: Table, hour: int, staged: dict[int, str], before: set[int], always: bool) -> None:
        folder = f"{table.name}/{hours.folder_of(hour)}"
        if staged or always:
            self.place.make_folder(folder)
        for part in sorted({*staged, *before, *([0] if always else [])}):
            target = f"{folder}/part-{part:02d}.parquet"
            if part in staged:
                self.place.settle(staged[part], target)
            elif part == 0 and always:
                # Whoever looks for the table by a pattern of file names finds something.
                self.place.write(target, file_of(_file_schema(table).empty_table(), _file_schema(table)))
            else:
                self.place.remove(target)

    def publish_whole(self, made: Made) -> None:
        (staged,) = [each.path for each in self.place.files(made.folder)]
        self.place.make_folder(made.table.name)
        self.place.settle(staged, f"{made.table.name}/part-00.parquet")

    def parts(self, name: str) -> dict[int, set[int]]:
        """The parts that each hour of a table has."""
        found: dict[int, set[int]] = defaultdict(set)
        for each in self.place.files(name):
            if (match := _PUBLISHED.fullmatch(each.path)) is not None:
                found[hours.number_of(match[1], match[2])].add(int(match[3]))
        return dict(found)

    def _checked(self, table: Table, folder: str) -> int:
        """How many rows Spark has written, by the metadata of the files, which also tells the span of their rows."""
        rows = 0
        for path, about in self._ends(folder):
            rows += about.num_rows
            for first, last in _hours_told(table, about):
                _check(table, _place_of(path)[0], first, last)
        return rows

    def _ends(self, folder: str) -> Iterator[tuple[str, pq.FileMetaData]]:
        for each in self.place.files(folder):
            with self.place.open(each.path) as file:
                yield each.path, pq.read_metadata(file)


def cuts(rows: pa.Table) -> list[int]:
    """Where each part begins, in rows that are sorted by it.

    From these columns themselves: whoever groups by them, such as Arrow, has the groups in an order of its own.
    """
    if not rows.num_rows:
        return []
    begins = np.zeros(rows.num_rows, dtype=bool)
    begins[0] = True
    for name in _PARTS:
        numbers = pc.cast(rows[name], pa.int32()).to_numpy()
        begins[1:] |= numbers[1:] != numbers[:-1]
    return [int(begin) for begin in np.flatnonzero(begins)]


def _check(table: Table, hour: int, first: int, last: int) -> None:
    if (first, last) != (hour, hour):
        found = " and ".join(hours.folder_of(each) for each in sorted({first, last}))
        raise Misfiled(
            f"rows of {table.name} that are of {found} would have been filed under {hours.folder_of(hour)}; "
            "these were not published. This is a mistake of the pipeline: please report it"
        )


def _hours_within(table: Table, rows: pa.Table) -> tuple[int, int]:
    """The first and the last hour of these rows: by the columns that are in the path, and by their instants."""
    days, of_day = (pc.cast(rows[name], pa.int32()).to_numpy() for name in ("date", "hour"))
    numbers = [days * 24 + of_day]
    if (instant := _instant_of(table)) is not None:
        numbers.append(pc.cast(rows[instant], pa.int64()).to_numpy() // _HOUR_US)
    return int(min(each.min() for each in numbers)), int(max(each.max() for each in numbers))


def _hours_told(table: Table, about: pq.FileMetaData) -> Iterator[tuple[int, int]]:
    """The same by the bounds that a file notes for its columns. It has none for those in the path: Spark itself made
    the path from them."""
    instant = _instant_of(table)
    for group in map(about.row_group, range(about.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema == instant and column.is_stats_set and column.statistics.has_min_max:
                yield column.statistics.min_raw // _HOUR_US, column.statistics.max_raw // _HOUR_US


def _instant_of(table: Table) -> str | None:
    names = {column.name for column in table.columns}
    return next((name for name in _INSTANTS if name in names), None)


def _place_of(staged: str) -> tuple[int, int]:
    """The hour and the part."""
    found = _STAGED.fullmatch(staged)
    assert found is not None, staged
    return hours.number_of(found[1], found[2]), int(found[3])


def _number() -> Column:
    """The number of the hour, as everywhere else, from the columns that are in the path."""
    return F.datediff(F.col("date"), F.lit("1970-01-01").cast("date")) * 24 + F.col("hour")


def is_cut(table: Table) -> bool:
    """Whether an hour of it may be cut into parts: it has a row per task."""
    return {"message_id", _ENDED} <= {column.name for column in table.columns}


def _is_near(at: Column, wanted: Collection[int]) -> Column:
    """Weaker than the number of the hour, but in a form that lets Spark skip files without such rows."""
    first, last = (F.timestamp_seconds(F.lit(hour * 3600)) for hour in (min(wanted), max(wanted) + 1))
    return (at >= first) & (at < last)


def _part(number: Column, parts: Mapping[int, int]) -> Column:
    if not parts:
        return F.lit(0)
    pairs = [F.lit(each) for hour, count in sorted(parts.items()) for each in (hour, count)]
    count = F.coalesce(F.create_map(*pairs)[number], F.lit(1))
    return F.floor(F.minute(_ENDED) * count / 60).cast("int")


def _order_of(table: Table) -> list[str]:
    """Of the rows in a file."""
    return [_ENDED] if is_cut(table) else []


def _is_in_path(table: Table, column: str) -> bool:
    return table.grain.value == "hourly" and column in ("date", "hour")


def _file_schema(table: Table) -> pa.Schema:
    """Of a file of an hour: all columns but those that are in the path."""
    return arrow_schema(each for each in table.columns if not _is_in_path(table, each.name))


def _is_of(path: str, wanted: Collection[int] | None) -> bool:
    """Whether a published file is of one of these hours; with None, all are."""
    if wanted is None:
        return True
    found = _PUBLISHED.fullmatch(path)
    return found is not None and hours.number_of(found[1], found[2]) in wanted
