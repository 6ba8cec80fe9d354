"""The page about the tables says what the code says, and its queries run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from famulus.journal.schema import Column
from famulus.pipeline.tables import schemas
from famulus.pipeline.tables.column_types import struct_of

PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text("utf-8")


def kind_of(column: Column) -> str:
    return f"{column.kind.value}, may be null" if column.nullable else column.kind.value


@pytest.mark.parametrize("table", schemas.TABLES)
def test_every_column_is_there_and_no_other(table: str) -> None:
    found = re.search(rf"^### `{table}`\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"docs/tables.md has no section on {table}"
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (.+) \|$", found[1], re.MULTILINE)
    assert rows == [(column.name, kind_of(column), column.meaning) for column in schemas.TABLES[table]]


def test_every_query_runs(spark: SparkSession) -> None:
    for table in schemas.TABLES:
        spark.createDataFrame([], struct_of(schemas.TABLES[table])).createOrReplaceTempView(table)
    queries = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(queries) == 5
    for query in queries:
        assert spark.sql(query).collect() == []
