"""The pipeline's tables as Arrow schemas, for those who read or write them without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from famulus.journal import arrow
from famulus.journal.schema import Kind
from famulus.pipeline.tables.schemas import More, TableColumn

_HISTOGRAM: Final = pa.struct([("bucket", pa.int32()), ("count", pa.int64())])
_ARRIVAL: Final = pa.struct([("broker", pa.string()), ("at", arrow.TYPES[Kind.INSTANT]), ("delay_ms", pa.int64())])

TYPES: Final[dict[Kind | More, pa.DataType]] = {
    **{kind: arrow.TYPES[kind] for kind in Kind},
    More.DOUBLE: pa.float64(),
    More.DATE: pa.date32(),
    More.HISTOGRAM: pa.list_(pa.field("element", _HISTOGRAM)),
    More.TEXTS: pa.list_(pa.field("element", pa.string())),
    More.ARRIVALS: pa.list_(pa.field("element", _ARRIVAL)),
}


def arrow_schema(columns: Iterable[TableColumn]) -> pa.Schema:
    # Of most columns Spark does not know that they are never null, and one file should not differ from the next.
    return pa.schema([pa.field(each.name, TYPES[each.kind]) for each in columns])
