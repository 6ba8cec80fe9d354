"""DataFrames of few rows: they are in this process as well, where what they say can be looked up without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

_here: WeakKeyDictionary[DataFrame, pa.Table] = WeakKeyDictionary()


def rows_of(frame: DataFrame, columns: Sequence[str]) -> pa.Table:
    """Some columns of a result, without asking Spark for them if they are few."""
    return _here[frame].select(columns) if frame in _here else frame.select(*columns).toArrow()


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Few rows, in one partition."""
    # In one piece: Spark would stop at the first batch without rows. And with a batch for each column: PySpark asks
    # that of nested ones for their type.
    whole = rows.combine_chunks() if rows.num_rows else rows.schema.empty_table()
    frame = spark.createDataFrame(whole).coalesce(1)
    _here[frame] = rows
    return frame


def to_spark(spark: SparkSession, rows: pa.Table | DataFrame) -> DataFrame:
    return rows if isinstance(rows, DataFrame) else frame_of(spark, rows)


def newest_us(rows: DataFrame, column: str) -> int | None:
    """The latest instant in this column, or null without rows: the tables do not know the current time."""
    if rows in _here:
        last = pc.max(_here[rows][column]).cast(pa.int64()).as_py()
    else:
        ((last,),) = rows.agg(F.unix_micros(F.max(column))).collect()
    found: int | None = last
    return found


def newest(rows: DataFrame, column: str) -> Column:
    """It is looked up at once and is a constant from then on. A join with it would make the rows again each time that
    it is used."""
    return F.timestamp_micros(F.lit(newest_us(rows, column)).cast("long"))
