"""The columns of the journal and of the tables as Arrow and Spark represent them: Spark's types follow from Arrow's."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from famulus.journal import arrow
from famulus.journal.schema import Column, Kind

#: Parallel arrays or a map would do as well. But this is the only type that Spark, DuckDB and pandas all turn into rows
#: directly; two of them can be compared, and no array can be longer than its twin. Inside arrays anything may be null,
#: as in any file that Spark reads back.
_HISTOGRAM: Final = pa.struct([("bucket", pa.int32()), ("count", pa.int64())])
_ARRIVAL: Final = pa.struct([("broker", pa.string()), ("at", arrow.TYPES[Kind.INSTANT]), ("delay_ms", pa.int64())])

ARROW: Final = arrow.TYPES | {
    Kind.DOUBLE: pa.float64(),
    Kind.DATE: pa.date32(),
    Kind.HISTOGRAM: pa.list_(pa.field("element", _HISTOGRAM)),
    Kind.TEXTS: pa.list_(pa.field("element", pa.string())),
    Kind.ARRIVALS: pa.list_(pa.field("element", _ARRIVAL)),
}
SPARK: Final = {kind: from_arrow_type(each) for kind, each in ARROW.items()}


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    # For most columns Spark does not know that they are never null, and one file should not differ from the next.
    return pa.schema([pa.field(each.name, ARROW[each.kind]) for each in columns])


def struct_of(columns: Iterable[Column]) -> T.StructType:
    return T.StructType([T.StructField(each.name, SPARK[each.kind], each.nullable) for each in columns])


def union_all(parts: Iterable[DataFrame]) -> DataFrame:
    """One under the other; a column that one of them lacks is null there."""
    return reduce(lambda above, below: above.unionByName(below, allowMissingColumns=True), parts)


def contract(rows: DataFrame, columns: Iterable[Column]) -> DataFrame:
    """The columns of a table in their order and types: what each transformation ends in."""
    casts = [f"CAST(`{each.name}` AS {SPARK[each.kind].simpleString()}) `{each.name}`" for each in columns]
    return rows.selectExpr(*casts)
