"""The journal as the pipeline finds it: which files count, which are sound, and their rows as DataFrames.

Every file is looked at before Spark sees it, since one bad file would stop a whole job, and a job that is told to
ignore bad files would lose them for good. What is not sound is named, left out, and looked at again next time. At first
only the end is looked at: reading whole files twice would take too long, and one is hardly ever damaged inside.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from famulus.errors import EmptyJournal, PlaceError
from famulus.journal import arrow, files, schema
from famulus.journal.files import JournalFile
from famulus.pipeline.io import hours
from famulus.pipeline.io.journal_hours import JournalHours
from famulus.pipeline.io.place import FoundFile, Place, is_damage
from famulus.pipeline.io.small_batch import small_frame
from famulus.pipeline.tables.column_types import struct_of
from famulus.pipeline.tables.hourly import remember
from famulus.pipeline.tables.scale import BATCH_ROWS, Scale, scale_of

#: Opening a file is mostly waiting, above all when it is remote.
CHECKS_AT_ONCE: Final = 16
#: Reading all of it is work, and takes memory.
READERS: Final = 4


@dataclass(frozen=True, slots=True, order=True)
class Sound:
    """A file that can be read."""

    file: JournalFile
    bytes: int
    rows: int

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def hour(self) -> int:
        return hours.number_of(self.file.date, self.file.hour)


@dataclass(frozen=True, slots=True, order=True)
class Bad:
    """A file that cannot be read, and why."""

    path: str
    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def days_in(journal: Place) -> set[str]:
    """The days that it has; raises an error that says what is wrong if there are none."""
    if not journal.exists():
        raise PlaceError(f"there is no journal at {journal}: give --journal, or start a broker that writes one")
    found = {name.removeprefix("date=") for table in schema.TABLES for name in journal.names(table) if _is_day(name)}
    if not found:
        raise empty(journal)
    return found


def empty(journal: Place) -> EmptyJournal:
    return EmptyJournal(f"the journal at {journal} is empty: no broker has written to it yet")


def found_in(journal: Place, days: Collection[str], tables: Collection[str] = tuple(schema.TABLES)) -> list[FoundFile]:
    """All files of these days that have a name of ours."""
    found = (each for table in tables for day in sorted(days) for each in journal.files(f"{table}/date={day}"))
    return [each for each in found if files.parse(each.path) is not None]


def _is_day(name: str) -> bool:
    return re.fullmatch(r"date=\d{4}-\d\d-\d\d", name) is not None


def check_all(journal: Place, found: Sequence[FoundFile], suspects: Collection[str] = ()) -> list[Sound | Bad]:
    """`suspects`: paths of files to be read from beginning to end."""
    with ThreadPoolExecutor(READERS if suspects else CHECKS_AT_ONCE) as pool:
        return list(pool.map(lambda each: check(journal, each, wholly=each.path in suspects), found))


def damaged(journal: Place, paths: Sequence[str]) -> set[str]:
    """Those with rows that cannot be read."""
    with ThreadPoolExecutor(READERS) as pool:
        verdicts = pool.map(lambda path: _is_damaged(journal, path), paths)
        return {path for path, is_one in zip(paths, verdicts, strict=True) if is_one}


def check(journal: Place, found: FoundFile, *, wholly: bool = False) -> Sound | Bad:
    """Reads the end of a file, where Parquet says what is in it; `wholly`: and all the rest."""
    bad = partial(Bad, found.path)
    file = files.parse(found.path)
    assert file is not None, "it is not one of ours"
    if found.bytes == 0:
        return bad("empty", "the file is empty")
    try:
        with journal.open(found.path) as opened:
            metadata = pq.read_metadata(opened)
            has = metadata.schema.to_arrow_schema()
    except FileNotFoundError:
        return bad("gone", "it vanished while it was read")
    except PermissionError:
        return bad("forbidden", "no permission to read it")
    except (pa.ArrowException, OSError):
        return bad("truncated", "it is no whole Parquet file: cut off, or still being copied")
    told = metadata.metadata or {}
    version = told.get(schema.VERSION_KEY.encode(), b"").decode(errors="replace")
    if told.get(schema.TABLE_KEY.encode(), b"").decode(errors="replace") != file.table or not version.isdecimal():
        return bad("foreign", f"it was not written by Famulus as a file of {file.table}")
    if int(version) > schema.VERSION:
        return bad("newer", f"it has version {version} of the journal, this pipeline knows {schema.VERSION}")
    if misfit := _misfit(has, file.table, older=int(version) < schema.VERSION):
        return bad("foreign", misfit)
    if wholly and _is_damaged(journal, found.path):
        return bad("damaged", "some of its rows cannot be read: it is damaged")
    return Sound(file, found.bytes, metadata.num_rows)


def _is_damaged(journal: Place, path: str) -> bool:
    # Twice, since for a remote file it may have been the connection.
    return all(not _can_be_read(journal, path) for _ in range(2))


def _can_be_read(journal: Place, path: str) -> bool:
    try:
        with journal.open(path) as opened:
            for _ in pq.ParquetFile(opened, pre_buffer=False).iter_batches():
                pass
    except (pa.ArrowException, OSError) as error:
        return not is_damage(error)  # anything else will show when it is really read
    return True


def _misfit(has: pa.Schema, table: str, *, older: bool) -> str:
    """What Spark would stumble over."""
    for field in arrow.schema_of(table):
        at = has.get_field_index(field.name)
        if at < 0 and not older:
            return f"it lacks the column {field.name}"
        if at >= 0 and has.field(at).type != field.type:
            return f"its column {field.name} is of type {has.field(at).type}, not {field.type}"
    return ""


def read(
    spark: SparkSession, journal: Place, table: str, found: Sequence[Sound], *, by_arrow: bool = False
) -> DataFrame:
    """The rows of these files. `by_arrow`: for Spark there are none, only for `pipeline.tables.hourly`."""
    rows = _read(spark, journal, table, () if by_arrow else found)
    paths: dict[int, tuple[str, ...]] = {}
    count: dict[int, int] = {}
    for each in found:
        paths[each.hour] = (*paths.get(each.hour, ()), each.path)
        count[each.hour] = count.get(each.hour, 0) + each.rows
    remember(rows, JournalHours(journal, table, paths, count))
    return rows


def _read(spark: SparkSession, journal: Place, table: str, found: Sequence[Sound]) -> DataFrame:
    wanted, paths = struct_of(schema.TABLES[table]), [each.path for each in found]
    if scale_of(spark) is not Scale.LARGE and sum(each.rows for each in found) <= BATCH_ROWS:
        rows = small_frame(spark, journal, paths, arrow.schema_of(table))
        if rows is not None:
            return rows
    if not paths:
        return spark.createDataFrame([], wanted)
    # Columns that an older file lacks are null. Names of files may have a percent sign, which Hadoop leaves alone.
    return spark.read.schema(wanted).option("recursiveFileLookup", "true").parquet(*map(journal.uri, paths))
