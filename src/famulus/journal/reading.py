"""Reads a journal for people: what is there, whether it is whole, its last rows. Needs no Spark."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from famulus.journal import schema
from famulus.journal.arrow import schema_of
from famulus.journal.crashes import COLUMNS, EVENTS, crashes
from famulus.journal.files import JournalFile
from famulus.journal.folder import JournalFolder
from famulus.journal.footers import UNREADABLE, Footer, footer_of
from famulus.journal.parquet import is_being_written


@dataclass(slots=True)
class TableFigures:
    files: int = 0
    rows: int = 0
    bytes: int = 0
    first: str | None = None
    last: str | None = None
    #: Rows that are known to be missing.
    gaps: int = 0


@dataclass(slots=True)
class Findings:
    """What `verify` found."""

    files: int = 0
    rows: int = 0
    #: Files that cannot be read, with the reason.
    broken: dict[str, str] = field(default_factory=dict)
    #: Files of a later version, which are not read.
    newer: list[str] = field(default_factory=list)
    #: Files that do not belong to the journal.
    foreign: list[str] = field(default_factory=list)
    #: Files that a crash left without an end; the next scribe of that broker takes care of them.
    unfinished: list[str] = field(default_factory=list)
    #: Numbers that no file has, by table, broker and boot.
    missing: dict[str, list[int]] = field(default_factory=dict)
    #: Rows that the journal itself says are missing, by table.
    gaps: dict[str, int] = field(default_factory=dict)
    #: Rows of tasks that were reported and are neither there nor in a gap, by broker and boot.
    missing_rows: dict[str, int] = field(default_factory=dict)
    #: Moments when a dispatcher died with rows that it had not reported yet: nobody can say how many.
    crashes: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Nothing that was reported is lost or unreadable. Foreign files and those of later versions do no harm."""
        return not (self.broken or self.missing or self.gaps or self.missing_rows or self.unfinished)

    def as_dict(self) -> dict[str, Any]:
        return {"whole": self.whole, **asdict(self)}


class JournalReader:
    def __init__(self, path: Path) -> None:
        self.folder = JournalFolder(path)

    def figures(self) -> dict[str, TableFigures]:
        """Figures of each table; files that cannot be read are skipped."""
        figures = {table: TableFigures() for table in schema.TABLES}
        for file in self.folder.visible():
            footer = footer_of(self.folder.path / file.path)
            if footer is None:
                continue
            of_table = figures[file.table]
            of_table.files += 1
            of_table.rows += footer.metadata.num_rows
            of_table.bytes += self.folder.size_of(file)
            for first, last in filter(None, footer.spans(file.table)):
                of_table.first = min(filter(None, (of_table.first, first.isoformat())))
                of_table.last = max(filter(None, (of_table.last, last.isoformat())))
        for table, rows in self.gaps().items():
            if table in figures:
                figures[table].gaps = rows
        return figures

    def gaps(self) -> dict[str, int]:
        """Rows of each table that are missing, as the rows of event `gap` say."""
        gaps: Counter[str] = Counter()
        for row in self._events(["gap"], ["event", "table", "rows"]):
            gaps[row["table"]] += row["rows"] or 0
        return dict(gaps)

    def verify(self) -> Findings:
        """Read every row of every file."""
        found = Findings(foreign=self.folder.foreign(), gaps=self.gaps())
        numbers: dict[tuple[str, str, str], list[JournalFile]] = defaultdict(list)
        for file in self.folder.visible():
            found.files += 1
            numbers[file.table, file.broker, file.boot].append(file)
            self._check(file, found)
        for (table, broker, boot), counted in numbers.items():
            if lacking := _missing(counted):
                found.missing[f"{table} {broker} {boot}"] = lacking
        found.missing_rows = self._missing_rows(numbers)
        found.crashes = [str(crash) for crash in crashes(self._events(EVENTS, COLUMNS))]
        found.unfinished = [file.path for file, path in self.folder.unfinished() if not is_being_written(path)]
        return found

    def _missing_rows(self, numbers: dict[tuple[str, str, str], list[JournalFile]]) -> dict[str, int]:
        """Found by the rows' numbers. Rows older than the oldest file have expired, and do not count as missing."""
        known: Counter[tuple[str, str]] = Counter()
        told: dict[tuple[str, str], int] = {}
        for row in self._events(["gap", "told"], ["broker", "boot", "event", "table", "rows"]):
            if row["table"] == "tasks" and row["event"] == "gap":
                known[row["broker"], row["boot"]] += row["rows"] or 0
            elif row["table"] == "tasks":
                told[row["broker"], row["boot"]] = max(row["rows"], told.get((row["broker"], row["boot"]), 0))
        missing: dict[str, int] = {}
        for (table, broker, boot), counted in numbers.items():
            spans = [span for file in counted if table == "tasks" and (span := self._row_numbers(file)) is not None]
            if len(spans) < len(counted):
                # Nobody knows what is in files that cannot be read, or whose rows have no numbers.
                continue
            first = 1 if min(file.first for file in counted) == 1 else min(low for low, _, _ in spans)
            last = max(told.get((broker, boot), 0), *(high for _, high, _ in spans))
            lacking = last - first + 1 - sum(rows for _, _, rows in spans) - known[broker, boot]
            if lacking > 0:
                missing[f"{broker} {boot}"] = lacking
        return missing

    def _row_numbers(self, file: JournalFile) -> tuple[int, int, int] | None:
        """The lowest, the highest and how many; None if the file cannot be read or its rows have no numbers."""
        rows = self.rows_of(file, ["row"])
        if rows is None or "row" not in rows.column_names or not rows.num_rows or rows["row"].null_count:
            return None
        ends = pc.min_max(rows["row"]).as_py()
        return ends["min"], ends["max"], rows.num_rows

    def _events(self, events: list[str], columns: list[str]) -> Iterator[dict[str, Any]]:
        """Rows of the table of brokers with these events."""
        for file in self.folder.visible():
            if file.table == "brokers":
                rows = self.rows_of(file, columns)
                if rows is not None:
                    yield from rows.filter(pc.field("event").isin(events)).to_pylist()

    def _check(self, file: JournalFile, found: Findings) -> None:
        try:
            with pq.ParquetFile(self.folder.path / file.path) as opened:
                footer = Footer(opened.metadata)
                version, table = footer.version, footer.table
                if version > schema.VERSION:
                    found.newer.append(file.path)
                    return
                if version < 1 or table != file.table:
                    found.broken[file.path] = f"it says that it is of table {table!r}, version {version}"
                    return
                if not _fits(opened.schema_arrow, schema_of(table), older=version < schema.VERSION):
                    found.broken[file.path] = "its columns are not those of its table"
                    return
                for batch in opened.iter_batches():
                    found.rows += batch.num_rows
        except UNREADABLE as error:
            found.broken[file.path] = " ".join(str(error).split())[:300]

    # -- rows ---------------------------------------------------------------------------------------------------

    def rows_of(self, file: JournalFile, columns: list[str] | None = None) -> pa.Table | None:
        """All rows of a file; None if it cannot be read, or is of a later version."""
        try:
            with pq.ParquetFile(self.folder.path / file.path) as opened:
                return opened.read(columns) if Footer(opened.metadata).version <= schema.VERSION else None
        except UNREADABLE:
            return None

    def follow(self, table: str, known: set[JournalFile]) -> Iterator[dict[str, Any]]:
        """Rows of files that are not yet in `known`; adds these files to it."""
        for file in self.folder.visible():
            # A file merged from files that were already shown is not new.
            if file.table == table and file not in known and file.first == file.last:
                known.add(file)
                rows = self.rows_of(file)
                if rows is not None:
                    yield from map(plain, rows.sort_by(schema.TIME_COLUMN[table]).to_pylist())


def _fits(has: pa.Schema, wanted: pa.Schema, *, older: bool) -> bool:
    """An older file may lack columns that were added later."""
    if older:
        wanted = pa.schema([field for field in wanted if field.name in has.names or not field.nullable])
    return bool(has.remove_metadata().equals(wanted.remove_metadata()))


def _missing(counted: list[JournalFile]) -> list[int]:
    in_order = sorted(counted, key=lambda file: file.first)
    return [number for one, next_one in pairwise(in_order) for number in range(one.last + 1, next_one.first)]


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """With values that JSON can express."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}
