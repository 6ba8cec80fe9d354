"""From numpy arrays to the journal's columns in Arrow. Knows types only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from famulus.journal.arrow import schema_of
from famulus.lab.synth.arrivals import NOBODY

_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), dtype=np.uint16)


def table_of(table: str, rows: int, columns: dict[str, Any]) -> pa.Table:
    """A plain value stands for a column of it; a column that is not named is null."""
    schema = schema_of(table)
    arrays = [_column(columns.get(field.name), field.type, rows) for field in schema]
    return pa.table(arrays, schema=schema)


def _column(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    if value is None:
        return pa.nulls(rows, kind)
    if isinstance(value, (str, int, bool)):
        return pa.repeat(pa.scalar(value, kind), rows)
    if isinstance(value, np.ndarray):
        return pa.array(value).cast(kind)
    return value if value.type == kind else value.cast(kind)


def chosen(names: list[str], numbers: np.ndarray) -> pa.Array:
    """The name for each number; null for NOBODY."""
    return pa.array(names, pa.string()).take(pa.array(numbers, mask=numbers == NOBODY))


def hexadecimal(codes: np.ndarray) -> pa.Array:
    """One text for each row of bytes."""
    rows, width = codes.shape
    letters = _HEX[codes].tobytes()
    offsets = np.arange(rows + 1, dtype=np.int32) * (2 * width)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))
