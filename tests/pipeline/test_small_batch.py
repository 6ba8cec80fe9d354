"""What Arrow brings to Spark, and back, is what Spark itself would have read and written."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from famulus.errors import FileGone, PlaceError
from famulus.journal.schema import Kind
from famulus.pipeline.io import small_batch
from famulus.pipeline.io.place import Place
from famulus.pipeline.io.small_batch import small_frame
from famulus.pipeline.io.store import Store
from famulus.pipeline.tables import ALL
from famulus.pipeline.tables.scale import Scale, session_for
from famulus.pipeline.tables.table import Grain, Table

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), ("text", pa.string())])


@pytest.fixture
def few(spark: SparkSession) -> SparkSession:
    return session_for(spark, Scale.SMALL)


def write(folder: Path, name: str, rows: dict[str, list[object]]) -> str:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(rows, pa.schema([SCHEMA.field(column) for column in rows])), folder / name)
    return name


def values(rows: DataFrame | None) -> list[tuple[object, ...]]:
    assert rows is not None
    return sorted(tuple(row) for row in rows.collect())


def test_all_files_are_brought_also_after_one_without_rows(few: SparkSession, tmp_path: Path) -> None:
    paths = [
        write(tmp_path, "a.parquet", {"n": [], "text": []}),
        write(tmp_path, "b.parquet", {"n": [1, 2], "text": ["x", None]}),
        write(tmp_path, "c.parquet", {"n": [3], "text": ["z"]}),
    ]
    rows = small_frame(few, Place(tmp_path), paths, SCHEMA)
    assert values(rows) == [(1, "x"), (2, None), (3, "z")]


def test_what_an_older_file_lacks_is_null(few: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path, "a.parquet", {"n": [1]})
    assert values(small_frame(few, Place(tmp_path), [path], SCHEMA)) == [(1, None)]


def test_columns_may_be_in_the_names_of_folders(few: SparkSession, tmp_path: Path) -> None:
    # But not of those above, which are somebody else's.
    folder = tmp_path / "hour=1"
    path = write(folder, "hour=08/a.parquet", {"n": [1]})
    schema = pa.schema([SCHEMA.field("n"), ("hour", pa.int32())])
    assert values(small_frame(few, Place(folder), [path], schema, ["hour"])) == [(1, 8)]


def test_more_than_a_handful_is_left_to_spark(
    few: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_batch, "BATCH_BYTES", 3)
    path = write(tmp_path, "a.parquet", {"n": [1]})
    assert small_frame(few, Place(tmp_path), [path], SCHEMA) is None


def test_what_is_in_one_piece_is_not_moved(few: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path, "a.parquet", {"n": list(range(20)), "text": ["x"] * 20})
    first, second = (small_frame(few, Place(tmp_path), [path], SCHEMA) for _ in range(2))
    assert first is not None
    assert second is not None
    joined = first.groupBy("n").agg(F.count("*").alias("c")).join(second, "n").groupBy("text").agg(F.sum("c"))
    assert "Exchange" not in joined._jdf.queryExecution().executedPlan().toString()
    assert values(joined) == [("x", 20)]


def test_a_file_that_is_gone_is_told_apart_from_one_that_is_damaged(few: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(FileGone):
        small_frame(few, Place(tmp_path), ["a.parquet"], SCHEMA)
    path = write(tmp_path, "b.parquet", {"n": list(range(1000))})
    whole = bytearray((tmp_path / path).read_bytes())
    whole[4:200] = bytes(196)
    (tmp_path / path).write_bytes(whole)
    with pytest.raises(PlaceError, match="cannot be read"):
        small_frame(few, Place(tmp_path), [path], SCHEMA)


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
def test_a_file_of_few_rows_is_like_one_that_spark_wrote(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    """The same columns and types; and a row of it is read back as it was, in either way."""
    seen = []
    for scale in (Scale.SMALL, Scale.LARGE):
        session, store = session_for(spark, scale), Store(Place(tmp_path / scale.value))
        rows = session.range(1).select(*[F.expr(_VALUES[each.kind]).alias(each.name) for each in table.columns])
        if table.grain is Grain.HOURLY:
            made = store.stage_hours(table, rows, frozenset({HOUR}), {}, few=scale is Scale.SMALL)
            store.publish_hours(made, [HOUR])
        else:
            store.publish_whole(made := store.stage_whole(table, rows, few=scale is Scale.SMALL))
        (file,) = store.place.files(table.name)
        back = [store.read(session_for(spark, reader), table).collect() for reader in (Scale.SMALL, Scale.LARGE)]
        # To a third party: Spark also notes of some columns that they are never null, which nobody asks for.
        columns = duckdb.connect().execute(f"DESCRIBE SELECT * FROM '{store.place.full(file.path)}'").fetchall()
        seen.append((made.rows, file.path, columns, back))
    assert seen[0] == seen[1]


#: 2026-11-15 08:00 UTC.
HOUR = 498536
_INSTANT = "TIMESTAMP '2026-11-15 08:09:10.123456'"
_VALUES: dict[Kind, str] = {
    Kind.TEXT: "'x'",
    Kind.INT: "8",
    Kind.LONG: "7L",
    Kind.BOOL: "true",
    Kind.INSTANT: _INSTANT,
    Kind.DOUBLE: "0.5D",
    Kind.DATE: "DATE '2026-11-15'",
    Kind.TEXTS: "array('x', 'y')",
    Kind.HISTOGRAM: "array(named_struct('bucket', 1, 'count', 2L))",
    Kind.ARRIVALS: f"array(named_struct('broker', 'b', 'at', {_INSTANT}, 'delay_ms', 3L))",
}
