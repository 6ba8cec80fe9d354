"""The tables of the journal and of the pipeline as Spark schemas."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from famulus.journal import schema
from famulus.journal.schema import Kind
from famulus.pipeline.tables import schemas
from famulus.pipeline.tables.schemas import More

#: Parallel arrays or a map would do as well. Of this one alone Spark, DuckDB and pandas all make rows without a detour,
#: two of them can be compared, and no array can be longer than its twin. Inside of arrays all may be null, as in any
#: file that Spark reads back.
HISTOGRAM: Final = T.ArrayType(
    T.StructType([T.StructField("bucket", T.IntegerType()), T.StructField("count", T.LongType())])
)
ARRIVALS: Final = T.ArrayType(
    T.StructType(
        [
            T.StructField("broker", T.StringType()),
            T.StructField("at", T.TimestampType()),
            T.StructField("delay_ms", T.LongType()),
        ]
    )
)

TYPES: Final[dict[Kind | More, T.DataType]] = {
    Kind.TEXT: T.StringType(),
    Kind.INT: T.IntegerType(),
    Kind.LONG: T.LongType(),
    Kind.BOOL: T.BooleanType(),
    Kind.INSTANT: T.TimestampType(),
    More.DOUBLE: T.DoubleType(),
    More.DATE: T.DateType(),
    More.HISTOGRAM: HISTOGRAM,
    More.TEXTS: T.ArrayType(T.StringType()),
    More.ARRIVALS: ARRIVALS,
}


def struct_of(columns: Iterable[schema.Column | schemas.TableColumn]) -> T.StructType:
    return T.StructType([T.StructField(each.name, TYPES[each.kind], each.nullable) for each in columns])


def journal_schema(table: str) -> T.StructType:
    return struct_of(schema.TABLES[table])


def output_schema(table: str) -> T.StructType:
    return struct_of(schemas.TABLES[table])


def union_all(parts: Iterable[DataFrame]) -> DataFrame:
    """One under the other; a column that one of them lacks is null there."""
    return reduce(lambda above, below: above.unionByName(below, allowMissingColumns=True), parts)


def contract(rows: DataFrame, columns: Iterable[schemas.TableColumn]) -> DataFrame:
    """The columns of a table in their order and types: what each transformation ends in."""
    return rows.select(*[F.col(each.name).cast(TYPES[each.kind]).alias(each.name) for each in columns])
