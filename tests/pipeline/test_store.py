"""Every row is in the folder of its own hour, whoever wrote it, whatever the dates and the numbers of rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.pipeline.tables.conftest import zero

from famulus.errors import Misfiled
from famulus.pipeline.io import hours, store
from famulus.pipeline.io.place import Place
from famulus.pipeline.io.store import Store
from famulus.pipeline.tables import TABLES
from famulus.pipeline.tables.column_types import arrow_schema
from famulus.pipeline.tables.scale import Scale, session_for
from famulus.pipeline.tables.table import Table

#: An hour of the first one may be cut; the other has no instant from which one could tell the hour of a row.
BY_TASK, BY_SERVICE = TABLES["task_facts"], TABLES["service_loads"]


class Rows:
    """Rows of some hours in a row, in no order; each knows by its name in which hour it belongs."""

    def __init__(self, table: Table, chance: random.Random, hours_max: int = 30) -> None:
        self.table = table
        first = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=chance.randrange(365 * 24))
        instants = [first + timedelta(hours=number) for number in range(chance.randint(2, hours_max))]
        listed = [self._row(at, number) for at in instants for number in range(chance.choice((0, 1, 1, 2, 5, 40)))]
        chance.shuffle(listed)
        self.listed = listed
        self.hours = frozenset(int(at.timestamp()) // 3600 for at in instants)

    def _row(self, at: datetime, number: int) -> dict[str, Any]:
        plain = {each.name: None if each.nullable else zero(each.kind) for each in self.table.columns}
        own = {"date": at.date(), "hour": at.hour, "service": _name(at.date(), at.hour)}
        if self.table is BY_TASK:
            own |= {"ended": at + timedelta(minutes=number % 60), "message_id": str(number)}
        return plain | own

    def arrow(self, **more: Any) -> pa.Table:
        rows = pa.Table.from_pylist(self.listed, arrow_schema(self.table.columns))
        for name, value in more.items():
            rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.int32()), rows.num_rows))
        return rows

    def by_hour(self) -> Counter[str]:
        return Counter(row["service"] for row in self.listed)


def _name(day: date, hour: int) -> str:
    return f"{day}T{hour:02d}"


def filed(folder: Path) -> Iterator[tuple[str, str]]:
    """Of each row the hour that it is filed under, and the one that it says it is of."""
    for path in folder.rglob("*.parquet"):
        named = dict(part.split("=") for part in path.parts if "=" in part)
        for row in pq.read_table(path, columns=["hour", "service"], partitioning=None).to_pylist():
            yield _name(date.fromisoformat(named["date"]), row["hour"]), row["service"]


@pytest.mark.parametrize("table", [BY_TASK, BY_SERVICE], ids=lambda table: table.name)
@pytest.mark.parametrize("seed", range(40))
def test_rows_are_cut_into_their_own_hours(table: Table, seed: int) -> None:
    rows = Rows(table, random.Random(seed))
    listed = rows.arrow(part_=0).append_column("hour_", pa.array([_number(row) for row in rows.listed], pa.int32()))
    found = {number: part for (number, _), part in store.slices(table, listed)}
    assert sum(part.num_rows for part in found.values()) == len(rows.listed)
    assert {number: {_number(row) for row in part.to_pylist()} for number, part in found.items()} == {
        number: {number} for number in found
    }


def _number(row: dict[str, Any]) -> int:
    return hours.number_of(str(row["date"]), str(row["hour"]))


@pytest.mark.parametrize("scale", [Scale.SMALL, Scale.LARGE], ids=["arrow", "spark"])
@pytest.mark.parametrize("table", [BY_TASK, BY_SERVICE], ids=lambda table: table.name)
@pytest.mark.parametrize("seed", range(3))
def test_both_writers_file_rows_under_their_own_hours(
    spark: SparkSession, tmp_path: Path, table: Table, scale: Scale, seed: int
) -> None:
    rows, place = Rows(table, random.Random(seed), hours_max=6), Store(Place(tmp_path))
    frame = session_for(spark, scale).createDataFrame(rows.arrow())
    parts = dict.fromkeys(rows.hours, 3) if table is BY_TASK else {}
    made = place.stage_hours(table, frame, rows.hours, parts, few=scale is Scale.SMALL)
    place.publish_hours(made, rows.hours)
    found = list(filed(tmp_path / table.name))
    assert [(folder, row) for folder, row in found if folder != row] == []
    assert (Counter(row for _, row in found), made.rows) == (rows.by_hour(), len(rows.listed))
    # An hour that is made again replaces what it had, and nothing else.
    again = frozenset(sorted(rows.hours)[1:2])
    place.clean()
    place.publish_hours(place.stage_hours(table, frame, again, parts, few=scale is Scale.SMALL), again)
    assert Counter(row for _, row in filed(tmp_path / table.name)) == rows.by_hour()


@pytest.mark.parametrize("scale", [Scale.SMALL, Scale.LARGE], ids=["arrow", "spark"])
def test_rows_of_another_hour_are_noticed_before_they_are_published(
    spark: SparkSession, tmp_path: Path, scale: Scale
) -> None:
    """Columns that say one hour, and an instant that says another."""
    rows = Rows(BY_TASK, random.Random(1))
    first = min(rows.listed, key=lambda row: row["ended"])
    hour = _number(first)
    first["ended"] += timedelta(hours=1)
    frame = session_for(spark, scale).createDataFrame(rows.arrow())
    with pytest.raises(Misfiled, match=rf"task_facts .* {hours.folder_of(hour)}"):
        Store(Place(tmp_path)).stage_hours(BY_TASK, frame, rows.hours, {}, few=scale is Scale.SMALL)
    assert not (tmp_path / "task_facts").exists()


def test_a_cut_in_the_wrong_place_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was once cut: in the order in which Arrow names its groups, and not in that of the rows."""
    rows = Rows(BY_SERVICE, random.Random(1))
    listed = rows.arrow(part_=0).append_column("hour_", pa.array([_number(row) for row in rows.listed], pa.int32()))
    right = store.cuts
    monkeypatch.setattr(store, "cuts", lambda each: [right(each)[0], *(cut + 1 for cut in right(each)[1:])])
    with pytest.raises(Misfiled, match="service_loads"):
        list(store.slices(BY_SERVICE, listed))


def test_whether_a_column_has_values_is_known_without_spark(tmp_path: Path) -> None:
    """Also where an older pipeline wrote no such column."""
    tables = Store(Place(tmp_path))
    assert not tables.has_values(BY_SERVICE, "objective")
    columns = arrow_schema(each for each in BY_SERVICE.columns if each.name != "date")
    plain = {each.name: None if each.nullable else zero(each.kind) for each in BY_SERVICE.columns}

    def write(hour: str, rows: pa.Table) -> None:
        folder = tmp_path / BY_SERVICE.name / "date=2026-03-02"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, folder / f"part-{hour}00.parquet")

    write("00", pa.Table.from_pylist([plain], columns).drop_columns(["objective"]))
    write("01", pa.Table.from_pylist([plain, plain], columns))
    assert not tables.has_values(BY_SERVICE, "objective")
    assert tables.has_values(BY_SERVICE, "samples")
    write("02", pa.Table.from_pylist([plain, plain | {"objective": "{}"}], columns))
    assert tables.has_values(BY_SERVICE, "objective")


def test_a_table_without_rows_has_its_columns(tmp_path: Path) -> None:
    tables, table = Store(Place(tmp_path)), TABLES["objectives"]
    made = tables.stage_nothing(table)
    tables.publish_whole(made)
    assert made.rows == 0
    (path,) = (tmp_path / "objectives").glob("*.parquet")
    assert pq.read_table(path).schema.names == [column.name for column in table.columns]
