"""Reads findings from the pipeline's table. Trusts nothing in the file.

The file is made by `famulus pipeline run`, but anybody may have put another one there. So it is checked before it is
read: its columns, its size, and how long its texts are. What is wrong with it is said in one sentence. How much a page
unpacks to is known only to Arrow, and too late: whoever must not grow by that reads it `apart`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from famulus.errors import NotFindings
from famulus.tables.finding import Finding, Findings

ROWS_MAX: Final = 10_000
UNPACKED_BYTES_MAX: Final = 64 * 1024 * 1024
TEXT_BYTES_MAX: Final = 16 * 1024

_TEXTS: Final = ["id", "severity", "kind", "subject", "title", "evidence", "advice", "key", "value"]
_COLUMNS: Final = [*_TEXTS, "rank", "last_seen"]
_INSTANT: Final = pa.timestamp("us", tz="UTC")
#: Whatever Arrow and Python raise for a file that is broken or was made to do harm.
_BROKEN: Final = (
    pa.ArrowException, OSError, EOFError, ValueError, TypeError, KeyError, OverflowError, MemoryError, RecursionError,
    msgspec.MsgspecError,
)  # fmt: skip


def read(file: Any, rows_max: int = ROWS_MAX) -> Findings:
    """From an open file; the first `rows_max` of them."""
    try:
        about = _check(pq.ParquetFile(file))
        # Texts stay dictionaries until they are measured: one that is stored once is not repeated for each row.
        table = pq.ParquetFile(file, metadata=about, read_dictionary=_TEXTS, pre_buffer=False)
        rows = table.read(columns=_COLUMNS, use_threads=False)
        urgent = rows.sort_by("rank").slice(0, rows_max)
        _check_texts(urgent)
        urgent = urgent.set_column(urgent.schema.get_field_index("last_seen"), "last_seen", zoned(urgent["last_seen"]))
        return Findings([_finding(row) for row in urgent.to_pylist()], int(rows.num_rows))
    except _BROKEN as error:
        raise NotFindings(_first_line(error)) from None


# -- what is in the file -------------------------------------------------------------------------------------------


def _check(table: pq.ParquetFile) -> pq.FileMetaData:
    """Before anything is unpacked."""
    schema, about = table.schema_arrow, table.metadata
    if missing := [name for name in _COLUMNS if len(schema.get_all_field_indices(name)) != 1]:
        raise NotFindings(f"it has no column {missing[0]}: these are no findings")
    for name in _COLUMNS:
        if not _fits(name, schema.field(name).type):
            raise NotFindings(f"its column {name} is of another kind: these are no findings")
    if about.num_rows > ROWS_MAX:
        raise NotFindings(f"it has {about.num_rows:,} rows, and {ROWS_MAX:,} at most are read")
    unpacked = sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups))
    if unpacked > UNPACKED_BYTES_MAX:
        raise NotFindings(f"it has {unpacked:,} bytes, and {UNPACKED_BYTES_MAX:,} at most are read")
    return about


def _fits(name: str, kind: pa.DataType) -> bool:
    if name in _TEXTS:
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
    return bool(pa.types.is_timestamp(kind) if name == "last_seen" else pa.types.is_integer(kind))


def _check_texts(rows: pa.Table) -> None:
    """A text that is stored once may be that of every row: so texts are measured before they are created."""
    for name in _TEXTS:
        for chunk in rows[name].chunks:
            texts = chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk
            longest = pc.max(pc.binary_length(texts)).as_py()
            if longest is not None and longest > TEXT_BYTES_MAX:
                raise NotFindings(f"a text in it has {longest:,} bytes, and {TEXT_BYTES_MAX:,} at most are read")


def zoned(values: Any) -> Any:
    """Instants in UTC, to the microsecond. Spark's older way to write them has neither: UTC is meant."""
    if not pa.types.is_timestamp(values.type) or values.type == _INSTANT:
        return values
    if values.type.tz is None:
        values = values.cast(pa.timestamp("us"), safe=False)
    return values.cast(_INSTANT, safe=False)


def _finding(row: dict[str, Any]) -> Finding:
    fields = msgspec.json.decode(row["value"]) if row["value"] is not None else None
    return msgspec.convert({**row, "value": fields}, Finding)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:300] or type(error).__name__
