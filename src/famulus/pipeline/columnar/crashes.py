"""What a life of a broker wrote last, before it ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from famulus.journal.arrow import TYPES
from famulus.journal.schema import Kind
from famulus.pipeline.columnar.rows import US_PER_HOUR, US_PER_S, instants

#: Reads some columns of an hour.
Read = Callable[[int, Sequence[str]], pa.Table]
_LIFE: Final = [pa.field("broker", pa.string()), pa.field("boot", pa.string())]
_SIGN: Final = [*_LIFE, pa.field("end", TYPES[Kind.INSTANT]), pa.field("sign", TYPES[Kind.INSTANT])]
ROWS: Final = pa.schema([*_SIGN, pa.field("total_ns", pa.int64())])
TOLD: Final = pa.schema([*_SIGN, pa.field("checkpoint", TYPES[Kind.INSTANT])])
#: What the dispatcher itself reports; the other rows of its life are from others, even after its death.
_BY_DISPATCHER: Final = pa.array(["load", "overload_on", "overload_off"])


def last_rows(ends: pa.Table, read: Read, within_s: int) -> pa.Table:
    """For each of these `ends` of a `broker` and `boot`: as `sign` the `ended` of tasks in its hour and the one
    before.
    Of each hour all within this time before its last row; and its first one, without its time."""
    columns = ("broker", "boot", "ended", "total_ns")
    return _of_ends(ends, read, columns, partial(_last_within, within_s=within_s), ROWS)


def last_told(ends: pa.Table, read: Read) -> pa.Table:
    """The same of what dispatchers told of themselves: of each hour the first sign and the last one; and as
    `checkpoint` the last load, which comes with one."""
    return _of_ends(ends, read, ("broker", "boot", "at", "event"), _first_and_last, TOLD)


def _of_ends(
    ends: pa.Table,
    read: Read,
    columns: Sequence[str],
    of_end: Callable[[pa.Table], Sequence[pa.ChunkedArray]],
    schema: pa.Schema,
) -> pa.Table:
    found = [schema.empty_table()]
    wanted = [(end, end["end_us"] // US_PER_HOUR - step) for end in ends.to_pylist() for step in (0, 1)]
    for hour in sorted({hour for _, hour in wanted}):
        rows = read(hour, columns)
        for end in (end for end, own in wanted if own == hour):
            before = _before(end, rows, columns[2])
            if before.num_rows:
                signs, more = of_end(before)
                same = [pa.repeat(value, len(signs)) for value in (end["broker"], end["boot"], _instant(end["end_us"]))]
                found.append(pa.Table.from_arrays([*same, signs, more], schema=schema))
    return pa.concat_tables(found)


def _before(end: dict[str, Any], rows: pa.Table, at: str) -> pa.Table:
    """Rows of that life until its end."""
    own = (pc.field("broker") == end["broker"]) & (pc.field("boot") == end["boot"])
    return rows.filter(own & (pc.field(at) <= _instant(end["end_us"])))


def _last_within(rows: pa.Table, within_s: int) -> Sequence[pa.ChunkedArray]:
    bounds = pc.min_max(rows["ended"])
    recent = rows.filter(pc.field("ended") >= _instant(bounds["max"].value - within_s * US_PER_S))
    signs = pa.chunked_array([*recent["ended"].chunks, instants([bounds["min"].value])])
    return signs, pa.chunked_array([*recent["total_ns"].chunks, pa.nulls(1, pa.int64())])


def _first_and_last(rows: pa.Table) -> Sequence[pa.ChunkedArray]:
    told = rows.filter(pc.is_in(rows["event"], _BY_DISPATCHER))
    if not told.num_rows:
        return instants([]), instants([])
    bounds, load = pc.min_max(told["at"]), pc.max(told.filter(pc.field("event") == "load")["at"])
    return instants([bounds["min"].value, bounds["max"].value]), instants([None, load.value])


def _instant(number: int) -> pa.Scalar:
    return instants([number])[0]
