"""One Spark session for all tests of the pipeline, and the rows that they begin with."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from famulus.journal import schema
from famulus.pipeline import schemas
from famulus.pipeline.spark_types import TYPES, journal_schema, output_schema
from famulus.pipeline.tables import ALL

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
MS = 1_000_000


def at(seconds: float = 0) -> datetime:
    """An instant, counted from noon."""
    return NOON + timedelta(seconds=seconds)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "1",
        # A few rows are computed long before code for them would be compiled.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }
    builder = SparkSession.builder.master("local[2]").appName("famulus tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "tasks": {
        "ticket": 1, "attempt": 1, "service": "echo", "worker": "w1", "client": "c", "at_most_once": False, "priority": 4,
        "arrived": at(), "assigned": at(), "outcome": "OK", "ended": at(), "queue_ns": 0, "service_ns": MS,
        "total_ns": MS, "request_bytes": 10, "response_bytes": 20, "config_version": 0,
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
}  # fmt: skip


def _zero(kind: object) -> Any:
    return {
        "text": "", "int": 0, "long": 0, "bool": False, "instant": at(), "double": 0.0, "date": at().date(),
        "histogram": [], "texts": [], "arrivals": [],
    }[kind.value]  # type: ignore[attr-defined]  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """Makes tables of a few rows that say only what matters; `rows.tasks({...}, {...})`."""

    spark: SparkSession

    def of(self, table: str, *rows: Mapping[str, Any]) -> DataFrame:
        if table in schema.TABLES:
            where = {"broker": "b1", "boot": "boot1", "family": "main"}
            whole = [{**where, **DEFAULTS[table], **row} for row in rows]
            columns = [(each.name, None) for each in schema.TABLES[table]]
            return self.made(whole, columns, journal_schema(table))
        zeros = [(each.name, None if each.nullable else _zero(each.kind)) for each in schemas.TABLES[table]]
        return self.made(rows, zeros, output_schema(table))

    def made(self, rows: Any, columns: list[tuple[str, Any]], struct: Any) -> DataFrame:
        names = {name for name, _ in columns}
        for row in rows:
            assert row.keys() <= names, f"no such column: {row.keys() - names}"
        listed = [{name: row.get(name, zero) for name, zero in columns} for row in rows]
        # By way of Arrow: so Spark has the rows themselves, and not a job in Python that would make them.
        return self.spark.createDataFrame(pa.Table.from_pylist(listed, to_arrow_schema(struct, timezone="UTC")), struct)


@pytest.fixture(scope="session")
def rows(spark: SparkSession) -> Rows:
    return Rows(spark)


def found(frame: DataFrame) -> list[dict[str, Any]]:
    """All rows, as far as they differ from each other in nothing but their order; instants with their zone."""
    listed: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return sorted(listed, key=repr)
