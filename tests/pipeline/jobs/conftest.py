"""Small journals, and two toy tables that are made of them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.journal import arrow, files, schema
from famulus.journal.schema import Column, Kind
from famulus.pipeline.io.place import Place
from famulus.pipeline.tables import schemas
from famulus.pipeline.tables.column_types import contract
from famulus.pipeline.tables.table import Grain, Table

HOUR_US = 3_600_000_000
#: 2026-11-15 08:00 UTC.
EIGHT = int(datetime(2026, 11, 15, 8, tzinfo=UTC).timestamp()) * 1_000_000
_PLAIN: dict[Kind, Any] = {
    Kind.TEXT: "x",
    Kind.INT: 1,
    Kind.LONG: 1,
    Kind.BOOL: True,
    Kind.INSTANT: EIGHT,
}


class Journal:
    """A journal below a folder of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = Place(folder)

    def row(self, table: str, **values: Any) -> dict[str, Any]:
        """With something in each column that must have a value."""
        plain = {each.name: None if each.nullable else _PLAIN[each.kind] for each in schema.TABLES[table]}
        return plain | values

    def task(self, number: int, at_us: int, **values: Any) -> dict[str, Any]:
        """One that ended then, after a second."""
        return self.row(
            "tasks",
            **{
                "message_id": f"m{number:06d}",
                "ticket": number,
                "service": f"s{number % 3}",
                "outcome": "OK",
                "worker": f"w{number % 5}",
                "arrived": at_us - 1_000_000,
                "assigned": at_us - 500_000,
                "ended": at_us,
                "queue_ns": 500_000_000,
                "service_ns": 500_000_000,
                "total_ns": 1_000_000_000,
            }
            | values,
        )

    def tasks(self, hour: int, first: int, count: int = 30) -> list[dict[str, Any]]:
        """So many, spread over the hour that begins so many hours after eight."""
        return [self.task(first + n, EIGHT + hour * HOUR_US + n * (HOUR_US // count) + 1_000_000) for n in range(count)]

    def write(
        self,
        rows: list[dict[str, Any]],
        first: int,
        *,
        last: int | None = None,
        table: str = "tasks",
        broker: str = "b1",
    ) -> Path:
        """One file, in the folder of the hour of its first row."""
        date, hour = files.hour_of(rows[0][schema.TIME_COLUMN[table]])
        file = files.JournalFile(table, date, hour, broker, "ab12", first, first if last is None else last)
        path = self.folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, arrow.schema_of(table)), path)
        return path


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


def damaged_inside(path: Path, column: str = "message_id") -> None:
    """Its end is as it was."""
    group = pq.read_metadata(path).row_group(0)
    (chunk,) = [each for at in range(group.num_columns) if (each := group.column(at)).path_in_schema == column]
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    whole = bytearray(path.read_bytes())
    whole[begin : begin + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(whole)


# -- toy tables -----------------------------------------------------------------------------------------------------

TOY_TASKS = (
    Column("date", Kind.DATE, "UTC"),
    Column("hour", Kind.INT, "UTC"),
    Column("message_id", Kind.TEXT, ""),
    Column("service", Kind.TEXT, ""),
    Column("ended", Kind.INSTANT, "of its last attempt"),
    Column("attempts", Kind.LONG, "all of them, also those of the hour before"),
)
TOY_SERVICES = (
    Column("service", Kind.TEXT, ""),
    Column("tasks", Kind.LONG, ""),
    Column("events", Kind.LONG, ""),
)


def toy_tasks(tasks: DataFrame) -> DataFrame:
    """An attempt may end in the hour before the last one: so neighbours count."""
    rows = tasks.groupBy("message_id", "service").agg(F.max("ended").alias("ended"), F.count("*").alias("attempts"))
    hours = rows.select("*", F.to_date("ended").alias("date"), F.hour("ended").alias("hour"))
    return hours.transform(contract, TOY_TASKS)


def toy_services(toys: DataFrame, workers: DataFrame) -> DataFrame:
    counted = toys.groupBy("service").agg(F.count("*").alias("tasks"))
    events = workers.agg(F.count("*").alias("events"))
    return counted.crossJoin(events).transform(contract, TOY_SERVICES)


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> list[Table]:
    return toy_registry(monkeypatch)


def toy_registry(monkeypatch: pytest.MonkeyPatch) -> list[Table]:
    monkeypatch.setitem(schemas.TABLES, "toy_tasks", TOY_TASKS)
    monkeypatch.setitem(schemas.TABLES, "toy_services", TOY_SERVICES)
    return [
        Table("toy_tasks", Grain.HOURLY, ("tasks",), toy_tasks, neighbours=True),
        Table("toy_services", Grain.WHOLE, ("toy_tasks", "workers"), toy_services),
    ]


# -- what came out --------------------------------------------------------------------------------------------------


class Tables:
    """Tables below a folder of the test, read without Spark."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = Place(folder)

    def rows(self, name: str) -> list[dict[str, Any]]:
        table = ds.dataset(self.folder / name, format="parquet", partitioning="hive").to_table()
        return sorted(table.to_pylist(), key=repr)

    def all(self) -> dict[str, list[dict[str, Any]]]:
        names = sorted(each.name for each in self.folder.iterdir() if not each.name.startswith("_"))
        return {name: self.rows(name) for name in names}

    def files(self) -> list[str]:
        found = (path.relative_to(self.folder) for path in self.folder.rglob("*.parquet"))
        return sorted(str(path) for path in found if not path.parts[0].startswith("_"))


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path / "tables")
