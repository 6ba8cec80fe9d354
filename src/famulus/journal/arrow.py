"""The journal's tables as Arrow schemas."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from famulus.journal import schema
from famulus.journal.schema import Kind

TYPES = {
    Kind.TEXT: pa.string(),
    Kind.INT: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.BOOL: pa.bool_(),
    # With a zone, and never in nanoseconds: Spark reads instants without a zone as local time, and refuses nanoseconds.
    Kind.INSTANT: pa.timestamp("us", tz="UTC"),
}


def with_all_columns(rows: pa.Table, table: str) -> pa.Table:
    """Rows of an older file, with nulls in the columns that were added later."""
    for place, field in enumerate(schema_of(table)):
        if field.name not in rows.column_names:
            rows = rows.add_column(place, field, pa.nulls(rows.num_rows, field.type))
    return rows


@cache
def schema_of(table: str) -> pa.Schema:
    """With the version and the name of the table in its metadata, so that they are written into each file."""
    fields = [pa.field(column.name, TYPES[column.kind], column.nullable) for column in schema.TABLES[table]]
    return pa.schema(fields, {schema.VERSION_KEY: str(schema.VERSION), schema.TABLE_KEY: table})
