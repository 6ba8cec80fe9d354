"""The rows that a life of a broker wrote last, before it ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from famulus.journal.arrow import TYPES
from famulus.journal.schema import Kind
from famulus.pipeline.columnar.rows import US_PER_HOUR

US_PER_S: Final = 1_000_000
COLUMNS: Final = ("broker", "boot", "ended", "total_ns")
SCHEMA: Final = pa.schema(
    [
        ("broker", pa.string()),
        ("boot", pa.string()),
        ("end", TYPES[Kind.INSTANT]),
        ("sign", TYPES[Kind.INSTANT]),
        ("total_ns", pa.int64()),
    ]
)


def last_rows(ends: pa.Table, read: Callable[[int, Sequence[str]], pa.Table], within_s: int) -> pa.Table:
    """For each of these `ends` of a `broker` and `boot`: the `ended` of rows in the hour of the end and the one before,
    as `sign`. Of each hour all within this time before its last row; and its first one, without its time."""
    found = [SCHEMA.empty_table()]
    wanted = [(end, end["end_us"] // US_PER_HOUR - step) for end in ends.to_pylist() for step in (0, 1)]
    for hour in sorted({hour for _, hour in wanted}):
        rows = read(hour, COLUMNS)
        found += [_of_end(end, rows, within_s) for end, own in wanted if own == hour]
    return pa.concat_tables(found)


def _of_end(end: dict[str, object], rows: pa.Table, within_s: int) -> pa.Table:
    (at,) = _instants([end["end_us"]])
    own = (pc.field("broker") == end["broker"]) & (pc.field("boot") == end["boot"]) & (pc.field("ended") <= at)
    mine = rows.filter(own)
    if not mine.num_rows:
        return SCHEMA.empty_table()
    bounds = pc.min_max(mine["ended"])
    (since,) = _instants([bounds["max"].value - within_s * US_PER_S])
    recent = mine.filter(pc.field("ended") >= since)
    signs = pa.chunked_array([*recent["ended"].chunks, _instants([bounds["min"].value])])
    times = pa.chunked_array([*recent["total_ns"].chunks, pa.nulls(1, pa.int64())])
    same = [pa.repeat(value, len(signs)) for value in (end["broker"], end["boot"], at)]
    return pa.Table.from_arrays([*same, signs, times], schema=SCHEMA)


def _instants(numbers: Sequence[object]) -> pa.Array:
    return pa.array(numbers, pa.int64()).cast(TYPES[Kind.INSTANT])
