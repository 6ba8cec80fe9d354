"""The pipeline's tables as Arrow schemas, for those who read or write them without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from famulus.journal import arrow
from famulus.journal.schema import Kind
from famulus.pipeline.schemas import Column, More

_HISTOGRAM: Final = pa.struct([pa.field("bucket", pa.int32(), False), pa.field("count", pa.int64(), False)])
_ARRIVAL: Final = pa.struct(
    [
        pa.field("broker", pa.string(), False),
        pa.field("at", arrow.TYPES[Kind.INSTANT], False),
        pa.field("delay_ms", pa.int64(), False),
    ]
)

TYPES: Final[dict[Kind | More, pa.DataType]] = {
    **{kind: arrow.TYPES[kind] for kind in Kind},
    More.DOUBLE: pa.float64(),
    More.DATE: pa.date32(),
    More.HISTOGRAM: pa.list_(pa.field("element", _HISTOGRAM, False)),
    More.TEXTS: pa.list_(pa.field("element", pa.string(), False)),
    More.ARRIVALS: pa.list_(pa.field("element", _ARRIVAL, False)),
}


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    # Spark writes all columns as nullable, and one file should not differ from the next.
    return pa.schema([pa.field(each.name, TYPES[each.kind]) for each in columns])
