"""Rows that say only what matters, and what a table makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from famulus.journal import schema
from famulus.pipeline.columnar.hours import HOUR
from famulus.pipeline.tables import ALL, Table, schemas
from famulus.pipeline.tables.column_types import struct_of
from famulus.pipeline.tables.frames import frame_of, to_spark
from famulus.pipeline.tables.memo import release_cached

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
MS = 1_000_000


def at(seconds: float = 0) -> datetime:
    """An instant, counted from noon."""
    return NOON + timedelta(seconds=seconds)


DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "tasks": {
        "message_id": "m", "ticket": 1, "attempt": 1, "service": "echo", "worker": "w1", "client": "c",
        "at_most_once": False, "priority": 4, "arrived": at(), "assigned": at(), "outcome": "OK", "ended": at(),
        "queue_ns": 0, "service_ns": MS, "total_ns": MS, "request_bytes": 10, "response_bytes": 20, "config_version": 0,
    },
    "open_tasks": {
        "at": at(), "ticket": 1, "attempt": 1, "service": "echo", "client": "c", "at_most_once": False, "priority": 4,
        "arrived": at(), "state": "running",
    },
    "workers": {"at": at(), "worker": "w1", "services": "echo", "slots": 1},
    "brokers": {"at": at()},
    "peers": {"at": at()},
    "config": {
        "at": at(), "key": "service/echo", "author": "ann", "accepted_by": "b1", "edited": at(), "version": 1,
        "digest": "d",
    },
    "access": {"at": at(), "port": "frontend", "wanted": "call", "principal": "shop", "service": "echo", "times": 1},
}  # fmt: skip


def zero(kind: object) -> Any:
    return {
        "text": "", "int": 0, "long": 0, "bool": False, "instant": at(), "double": 0.0, "date": NOON.date(),
        "histogram": [], "texts": [], "arrivals": [],
    }[kind.value]  # type: ignore[attr-defined]  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """Makes tables of a few rows that say only what matters; `rows.tasks({...}, {...})`."""

    spark: SparkSession

    def of(self, table: str, *rows: Mapping[str, Any]) -> DataFrame:
        if table in schema.TABLES:
            columns = [(each.name, None) for each in schema.TABLES[table]]
            return self.made(self.whole(table, *rows), columns, struct_of(schema.TABLES[table]))
        zeros = [(each.name, None if each.nullable else zero(each.kind)) for each in schemas.TABLES[table]]
        return self.made(rows, zeros, struct_of(schemas.TABLES[table]))

    @staticmethod
    def whole(table: str, *rows: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Rows of the journal, with what they do not say themselves."""
        where = {"broker": "b1", "boot": "boot1", "family": "main"}
        # No two attempts have the same ticket, unless they say so.
        tickets = [{"ticket": 10_000 + number} if table == "tasks" else {} for number in range(len(rows))]
        return [{**where, **DEFAULTS[table], **ticket, **row} for ticket, row in zip(tickets, rows, strict=True)]

    def made(self, rows: Any, columns: list[tuple[str, Any]], struct: Any) -> DataFrame:
        names = {name for name, _ in columns}
        for row in rows:
            assert row.keys() <= names, f"no such column: {row.keys() - names}"
        listed = [{name: row.get(name, zero) for name, zero in columns} for row in rows]
        # By way of Arrow: so Spark has the rows themselves, and not a job in Python that would make them.
        return self.spark.createDataFrame(pa.Table.from_pylist(listed, to_arrow_schema(struct, timezone="UTC")), struct)


@pytest.fixture(autouse=True)
def nothing_stays_cached() -> Iterator[None]:
    """With whatever is cached Spark compares each part of each later plan."""
    yield
    release_cached()


@pytest.fixture(scope="session")
def rows(spark: SparkSession) -> Rows:
    return Rows(spark)


def found(frame: DataFrame) -> list[dict[str, Any]]:
    """All rows, as far as they differ from each other in nothing but their order; instants with their zone."""
    listed: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return sorted(listed, key=repr)


TABLES: dict[str, Table] = {table.name: table for table in ALL}


def _with_hour(rows: pa.Table, hour: int) -> pa.Table:
    date = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=hour)).date()
    columns = {"date": pa.repeat(date, rows.num_rows), "hour": pa.repeat(hour % 24, rows.num_rows)}
    return pa.table({**columns, **{name: rows[name] for name in rows.column_names}})


@dataclass(frozen=True)
class Makes:
    """Makes a table of inputs by name; those that are not given are empty. Checks what holds for every table."""

    rows: Rows

    def frame(self, name: str, **inputs: DataFrame) -> DataFrame:
        table = TABLES[name]
        assert inputs.keys() <= set(table.inputs)
        given = [inputs[each] if each in inputs else self.rows.of(each) for each in table.inputs]
        made = to_spark(self.rows.spark, table.make(*given))
        if table.beside is None:
            return made
        beside = table.beside(*given)
        columns = to_arrow_schema(made.schema, timezone="UTC")
        hours = [_with_hour(beside.of(hour, HOUR), hour).select(columns.names).cast(columns) for hour in beside.rows_of]
        return made.unionByName(frame_of(self.rows.spark, pa.concat_tables([columns.empty_table(), *hours])))

    def __call__(self, name: str, **inputs: DataFrame) -> list[dict[str, Any]]:
        made = found(self.frame(name, **inputs))
        for column in TABLES[name].columns:
            assert column.nullable or all(row[column.name] is not None for row in made), f"{column.name} is null"
        return made


@pytest.fixture(scope="session")
def make(rows: Rows) -> Makes:
    return Makes(rows)
