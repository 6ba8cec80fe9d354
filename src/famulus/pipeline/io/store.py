"""The tables on disk: plain Parquet that Spark, DuckDB and pandas read alike.

    <tables>/<hourly table>/date=2026-11-15/part-0000.parquet
    <tables>/<whole table>/part-00.parquet

What is made is written below `_staging`, where nobody looks. Then each file is moved to its place in one step,
replacing the one that is there. So no reader ever sees an hour twice, whatever dies and whenever. Which hours of a day
share a file is decided in `day_files`.

An hour with very many rows is cut into parts of whole minutes, one file each. When it is made again, each part replaces
the same part. If it needs more parts than before, the parts are moved in order of time: then some minutes may be
missing for a moment, but none is there twice. An hour never gets fewer parts than it has.

A row that is filed under another day would be missing here and wrong there. So rows are checked before they are
published: all must be of the hour that they are to be published for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial, reduce
from hashlib import sha256
from itertools import accumulate, pairwise
from operator import or_
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from famulus.errors import Misfiled
from famulus.pipeline.columnar.hours import HourlyMade
from famulus.pipeline.io import day_files, hours
from famulus.pipeline.io.day_files import DayFile, FileWork, NewHour
from famulus.pipeline.io.place import FoundFile, Place
from famulus.pipeline.io.small_batch import file_of, nullable, rows_of, small_frame
from famulus.pipeline.io.writing import WRITTEN, write_parts
from famulus.pipeline.tables.column_types import arrow_schema, struct_of
from famulus.pipeline.tables.hourly import RESULTS_HERE, in_tasks, is_here
from famulus.pipeline.tables.scale import Scale, scale_of
from famulus.pipeline.tables.table import Grain, Table

STAGING: Final = "_staging"
#: An hour of a table with a row per task is cut when it has more tasks than this: no file is larger than some ten
#: megabytes, and several cores write an hour.
ROWS_PER_FILE: Final = 1_000_000
#: Folders in which Spark lays out what it makes, one inside the other; `hour_` is the number of the hour since 1970.
_PARTS: Final = ["hour_", "part_"]
_STAGED: Final = re.compile(r"(?:.*/)?hour_=(\d+)/part_=(\d+)/[^/]+\.parquet")
_DAY: Final = re.compile(r"date=(\d{4}-\d\d-\d\d)")
#: The instant of a row in tables with a row per task; and what it may be called in other tables that have one.
_ENDED: Final = "ended"
_INSTANTS: Final = (_ENDED, "minute", "at")
_HOUR_US: Final = 3_600_000_000
#: Rows are not in memory in this form, but in files: about this many times as large.
_UNPACKED: Final = 4
#: An hour, by its number since 1970, and a part of it.
HourPart = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Made:
    """A table, or some hours of it, ready to be published."""

    table: Table
    folder: str
    hours: frozenset[int]
    rows: int
    #: Hours that are cut, and into how many parts.
    parts: Mapping[int, int] = field(default_factory=dict)
    #: Few rows are not written before it is known which file they go to.
    few: Mapping[HourPart, pa.Table] = field(default_factory=dict)


def digest_of(table: Table) -> str:
    """Changes with the columns."""
    return sha256(struct_of(table.columns).json().encode()).hexdigest()[:16]


class Store:
    def __init__(self, place: Place) -> None:
        self.place = place

    # -- reading ------------------------------------------------------------------------------------------------------

    def days(self, name: str) -> list[str]:
        """Those that an hourly table has."""
        found = map(_DAY.fullmatch, self.place.names(name))
        return sorted(each[1] for each in found if each is not None)

    def paths(self, table: Table, wanted: Collection[int] | None = None, since: str = "") -> list[str]:
        """The files with these hours, or all from this day on. Other days are not looked into."""
        if table.grain is not Grain.HOURLY:
            return [each.path for each in self.place.files(table.name)]
        chosen = {hours.day_of(each) for each in wanted} if wanted is not None else None
        days = [day for day in self.days(table.name) if day >= since and (chosen is None or day in chosen)]
        return [each.path for day in days for each in self.place.files(f"{table.name}/date={day}")]

    def read(
        self,
        spark: SparkSession,
        table: Table,
        wanted: Collection[int] | None = None,
        columns: Sequence[str] | None = None,
        since: str = "",
    ) -> DataFrame:
        """These hours of a table, or all from a day on, and these columns, or all, in its order; no rows if it was
        never made."""
        chosen = [each for each in table.columns if columns is None or each.name in columns]
        paths = self.paths(table, wanted, since)
        if scale_of(spark) is not Scale.LARGE:
            in_path = [each.name for each in table.columns if each.name in _BY_HOUR and table.grain is Grain.HOURLY]
            where = None if wanted is None else _are_of(wanted)
            whole = arrow_schema(table.columns)
            few = small_frame(spark, self.place, paths, arrow_schema(chosen), in_path, where=where, whole=whole)
            if few is not None:
                return few
        if not paths:
            return spark.createDataFrame([], struct_of(chosen))
        # Each file by its name where only some are wanted: otherwise Spark would list the whole table.
        chosen_paths = [table.name] if wanted is None and not since else paths
        reader = spark.read.schema(struct_of(table.columns)).option("basePath", self.place.uri(table.name))
        rows = reader.parquet(*map(self.place.uri, chosen_paths))
        kept = rows if wanted is None else rows.where(_number().isin(sorted(wanted)))
        return kept.select(*[each.name for each in chosen])

    def has_values(self, table: Table, column: str, since: str = "") -> bool:
        """Whether any row has a value there. Looked up without Spark, which would take longer to plan a query."""
        wanted = arrow_schema(each for each in table.columns if each.name == column)
        values = rows_of(self.place, self.paths(table, since=since), wanted)[column]
        return bool(values.null_count < len(values))

    def newest_day(self, table: Table) -> str | None:
        """The last day of which an hourly table has rows."""
        for day in reversed(self.days(table.name)):
            if any(each.hours is not None for each in self._day_files(table, day)):
                return day
        return None

    def bytes_of(self, table: Table, since: str = "") -> int:
        days = [day for day in self.days(table.name) if day >= since] if table.grain is Grain.HOURLY else []
        folders = [f"{table.name}/date={day}" for day in days] or [table.name]
        return sum(each.bytes for folder in folders for each in self.place.files(folder))

    # -- writing ------------------------------------------------------------------------------------------------------

    def clean(self) -> None:
        """Removes what a run that died has left behind."""
        self.place.remove_folder(STAGING)

    def stage_hours(
        self,
        table: Table,
        rows: pa.Table | DataFrame,
        wanted: frozenset[int],
        parts: Mapping[int, int],
        *,
        few: bool,
        beside: HourlyMade | None = None,
    ) -> Made:
        """`parts`: hours that are to be cut, and into how many. `few`: so few rows that we write them ourselves."""
        folder = f"{STAGING}/{table.name}"
        if not isinstance(rows, DataFrame):
            assert not parts, "tables with a row per task are made by Spark, and beside it"
            return Made(table, folder, wanted, rows.num_rows, {}, dict(slices(table, _of_hours(rows, wanted))))
        if beside is None:
            return self._stage_rows(table, rows, wanted, parts, folder, few=few)
        apart = self._stage_rows(table, rows, wanted, parts, f"{folder}-apart", few=few)
        for (hour, part), piece in apart.few.items():
            self.put_rows(table, f"{apart.folder}/hour_={hour}/part_={part}/few.parquet", [piece])
        paths = {_place_of(each.path): each.path for each in self.place.files(apart.folder)}
        made = {hour: count for hour, count in beside.rows_of.items() if hour in wanted}
        units = {
            (hour, part): made.get(hour, 0) // parts.get(hour, 1)
            for hour in {*made, *(hour for hour, _ in paths)}
            for part in range(parts.get(hour, 1))
        }
        work = partial(write_parts, self.place, _file_schema(table), parts, beside, paths, folder)
        if is_here(units):
            _ = [*work(sorted(units))]
        else:
            in_tasks(rows.sparkSession, units, work, WRITTEN).toArrow()
        return Made(table, folder, wanted, self._checked(table, folder), parts)

    def _stage_rows(
        self, table: Table, rows: DataFrame, wanted: frozenset[int], parts: Mapping[int, int], folder: str, *, few: bool
    ) -> Made:
        number = _number()
        if is_cut(table):
            rows = rows.where(_is_near(F.col(_ENDED), wanted))
        kept = rows.where(number.isin(sorted(wanted))).withColumns({"hour_": number, "part_": _part(number, parts)})
        found = kept.toArrow() if few else None
        if found is None and table.by_arrow:
            # What takes a look at tasks is mostly a few of them; and of sums there are not many.
            first = kept.limit(RESULTS_HERE + 1).toArrow()
            found = first if first.num_rows <= RESULTS_HERE else None
        if found is not None:
            return Made(table, folder, wanted, found.num_rows, parts, dict(slices(table, found)))
        # One task for each part, hence one file for each; and no task has two parts while another one has none.
        *begins, files = accumulate((parts.get(each, 1) for each in sorted(wanted)), initial=0)
        tasks = min(files, int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1))
        turn = (_looked_up(dict(zip(sorted(wanted), begins, strict=True)), number) + F.col("part_")) % tasks
        laid_out = kept.repartitionById(tasks, turn.cast("int")).sortWithinPartitions(*_PARTS, *_order_of(table))
        laid_out.drop("date").write.partitionBy(*_PARTS).parquet(self.place.uri(folder))
        return Made(table, folder, wanted, self._checked(table, folder), parts)

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

    def publish_hours(self, made: Made, with_files: Collection[int]) -> None:
        """`with_files`: hours that the journal has. Their days get a file even if it has no rows."""
        pieces: dict[HourPart, pa.Table | FoundFile] = dict(made.few)
        for each in self.place.files(made.folder):
            of = _place_of(each.path)
            assert of not in pieces, f"two files for one part: {each.path}"
            pieces[of] = each
        for day, numbers in hours.by_day(made.hours).items():
            self._publish_day(made, day, numbers, pieces)
            folder = f"{made.table.name}/date={day}"
            empty = numbers.intersection(with_files)
            if empty and next(self.place.files(folder), None) is None:
                # Whoever looks for the table by a pattern of file names finds something.
                self.place.make_folder(folder)
                content = file_of(_file_schema(made.table).empty_table(), _file_schema(made.table))
                self.place.write(f"{folder}/{day_files.name_of(min(empty) % 24)}", content)

    def _publish_day(
        self, made: Made, day: str, numbers: set[int], pieces: Mapping[HourPart, pa.Table | FoundFile]
    ) -> None:
        own = {(number % 24, part): piece for (number, part), piece in pieces.items() if number in numbers}
        sizes: dict[int, dict[int, int]] = {each % 24: {} for each in numbers}
        for (hour, part), piece in own.items():
            sizes[hour][part] = piece.bytes if isinstance(piece, FoundFile) else piece.nbytes // _UNPACKED
        new = {each % 24: NewHour(each % 24, sizes[each % 24], made.parts.get(each, 1)) for each in numbers}
        for work in day_files.arrange(self._day_files(made.table, day), new):
            self._write(made, day, work, own)

    def _write(self, made: Made, day: str, work: FileWork, pieces: Mapping[HourPart, pa.Table | FoundFile]) -> None:
        """One file of a day, in one step."""
        folder = f"{made.table.name}/date={day}"
        target = f"{folder}/{work.name}"
        if work.is_gone:
            self.place.remove(target)
            return
        self.place.make_folder(folder)
        added = [pieces[each] for each in work.added]
        if work.is_all_new and len(added) == 1 and isinstance(added[0], FoundFile):
            self.place.settle(added[0].path, target)
            return
        found = [self.rows_of_file(made.table, each.path) if isinstance(each, FoundFile) else each for each in added]
        if not work.is_all_new:
            of_day = [each % 24 for each in made.hours if hours.day_of(each) == day]
            found.append(self.rows_of_file(made.table, target).filter(~pc.field("hour").isin(of_day)))
        staged = f"{made.folder}/{work.name}.new"
        self.put_rows(made.table, staged, found)
        self.place.settle(staged, target)

    def rows_of_file(self, table: Table, path: str) -> pa.Table:
        """All columns but the one that is in the path; null if the file has none of that name."""
        return rows_of(self.place, [path], _file_schema(table))

    def put_rows(self, table: Table, path: str, pieces: Sequence[pa.Table]) -> None:
        """A file of a day, in order of time: so whoever wants an hour need not read the others."""
        schema = _file_schema(table)
        rows = pa.concat_tables([each.select(schema.names).cast(nullable(schema)) for each in pieces])
        in_order = rows.sort_by([(name, "ascending") for name in ("hour", *_order_of(table))])
        self.place.put(path, file_of(in_order, _fitting(schema, in_order)))

    def _day_files(self, table: Table, day: str) -> list[DayFile]:
        found = []
        for each in self.place.files(f"{table.name}/date={day}"):
            if (of := day_files.parse(each.path.rpartition("/")[2])) is not None:
                with self.place.open(each.path) as file:
                    told = list(_bounds(pq.read_metadata(file), "hour"))
                span = (min(first for first, _ in told), max(last for _, last in told)) if told else None
                found.append(DayFile(*of, each.bytes, span))
        return found

    def publish_whole(self, made: Made) -> None:
        (staged,) = [each.path for each in self.place.files(made.folder)]
        self.place.make_folder(made.table.name)
        self.place.settle(staged, f"{made.table.name}/part-00.parquet")

    def parts(self, table: Table, wanted: Collection[int]) -> dict[int, int]:
        """Into how many parts each of these hours is cut."""
        found: dict[int, int] = {}
        for day, numbers in hours.by_day(wanted).items():
            there = self._day_files(table, day)
            found |= {number: day_files.parts_there(there, number % 24) for number in numbers}
        return found

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


def _of_hours(rows: pa.Table, wanted: Collection[int]) -> pa.Table:
    """Only these hours, with the columns that say for which part of which hour they are to be published."""
    number = pc.cast(rows["date"], pa.int32()).to_numpy() * 24 + rows["hour"].to_numpy()
    is_wanted = np.isin(number, sorted(wanted))
    kept = rows.filter(pa.array(is_wanted))
    hour, part = pa.array(number[is_wanted]), pa.repeat(pa.scalar(0, pa.int32()), kept.num_rows)
    return kept.append_column(_PARTS[0], hour).append_column(_PARTS[1], part)


def slices(table: Table, rows: pa.Table) -> Iterator[tuple[HourPart, pa.Table]]:
    """The rows of each part of each hour, checked."""
    rows = rows.sort_by([(name, "ascending") for name in (*_PARTS, *_order_of(table))])
    for begin, end in pairwise([*cuts(rows), rows.num_rows]):
        own = rows.slice(begin, end - begin)
        number, part = (int(own[name][0].as_py()) for name in _PARTS)
        _check(table, number, *_hours_within(table, own))
        yield (number, part), own


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
    """The first and the last hour of these rows: by their date and hour, and by their instants."""
    days, of_day = (pc.cast(rows[name], pa.int32()).to_numpy() for name in ("date", "hour"))
    numbers = [days * 24 + of_day]
    if (instant := _instant_of(table)) is not None:
        numbers.append(pc.cast(rows[instant], pa.int64()).to_numpy() // _HOUR_US)
    return int(min(each.min() for each in numbers)), int(max(each.max() for each in numbers))


def _hours_told(table: Table, about: pq.FileMetaData) -> Iterator[tuple[int, int]]:
    """The same by the bounds that a file notes for its instants; Spark itself made the path from date and hour."""
    if (instant := _instant_of(table)) is not None:
        for first, last in _bounds(about, instant):
            yield first // _HOUR_US, last // _HOUR_US


def _bounds(about: pq.FileMetaData, name: str) -> Iterator[tuple[int, int]]:
    """What a file notes of a column."""
    for group in map(about.row_group, range(about.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema == name and column.is_stats_set and column.statistics.has_min_max:
                yield column.statistics.min_raw, column.statistics.max_raw


def _instant_of(table: Table) -> str | None:
    names = {column.name for column in table.columns}
    return next((name for name in _INSTANTS if name in names), None)


def _place_of(staged: str) -> HourPart:
    found = _STAGED.fullmatch(staged)
    assert found is not None, staged
    return int(found[1]), int(found[2])


def _number() -> Column:
    """The number of the hour, as everywhere else."""
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
    count = F.coalesce(_looked_up(parts, number), F.lit(1))
    return F.floor(F.minute(_ENDED) * count / 60).cast("int")


def _looked_up(known: Mapping[int, int], number: Column) -> Column:
    return F.create_map(*[F.lit(each) for pair in sorted(known.items()) for each in pair])[number]


def _order_of(table: Table) -> list[str]:
    """Of the rows in a file."""
    return [_ENDED] if is_cut(table) else []


#: Columns of every hourly table. The date is in the path and not in the file.
_BY_HOUR: Final = ("date", "hour")


def _file_schema(table: Table) -> pa.Schema:
    """Of a file: all columns but the one that is in the path."""
    return arrow_schema(each for each in table.columns if each.name != "date" or table.grain is not Grain.HOURLY)


def _fitting(schema: pa.Schema, rows: pa.Table) -> pa.Schema:
    """Hours that the journal no longer has may lack columns that there are now."""
    return pa.schema([field.with_nullable(field.nullable or rows[field.name].null_count > 0) for field in schema])


def _are_of(wanted: Collection[int]) -> ds.Expression:
    each_day = [
        (ds.field("date") == date.fromisoformat(day)) & ds.field("hour").isin([each % 24 for each in sorted(numbers)])
        for day, numbers in hours.by_day(wanted).items()
    ]
    return reduce(or_, each_day, ds.scalar(False)) if each_day else ds.scalar(False)
