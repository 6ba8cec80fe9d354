"""Writes hours of a table with a row per task, with what Spark made of the few tasks that take more than a look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from famulus.pipeline.columnar.hours import HourlyMade, minutes_of
from famulus.pipeline.io.place import Place

WRITTEN: Final = pa.schema([("hour_number", pa.int64()), ("part", pa.int32()), ("rows", pa.int64())])
#: The instant of a row.
ENDED: Final = "ended"


def write_parts(
    place: Place,
    schema: pa.Schema,
    parts: Mapping[int, int],
    beside: HourlyMade,
    apart: Mapping[tuple[int, int], str],
    folder: str,
    wanted: Sequence[tuple[int, int]],
) -> Iterator[pa.Table]:
    """`wanted`: hours, and the part of each. `parts`: into how many an hour is cut, if it is. `apart`: files with
    rows that belong to a part as well."""
    for hour, part in wanted:
        plain = beside.of(hour, minutes_of(part, parts.get(hour, 1)))
        of_day = pa.repeat(pa.scalar(hour % 24, schema.field("hour").type), plain.num_rows)
        rows = [plain.append_column("hour", of_day)]
        if (path := apart.get((hour, part))) is not None:
            with place.open(path) as file:
                rows.append(pq.read_table(file, schema=schema))
        count = _write(place, schema, rows, f"{folder}/hour_={hour}/part_={part}")
        yield pa.table([[hour], [part], [count]], schema=WRITTEN)


def _write(place: Place, schema: pa.Schema, rows: Sequence[pa.Table], folder: str) -> int:
    texts = {name for name in schema.names if pa.types.is_dictionary(rows[0].schema.field(name).type)}
    written_as = pa.schema(
        [pa.field(field.name, DICTIONARY if field.name in texts else field.type) for field in schema]
    )
    whole = pa.concat_tables([_as(each, written_as) for each in rows])
    if len(rows) > 1:
        whole = whole.sort_by(ENDED)
    if not whole.num_rows:
        return 0
    place.make_folder(folder)
    with place.filesystem.open_output_stream(place.full(f"{folder}/hour.parquet")) as file:
        pq.write_table(
            whole, file, compression="zstd", compression_level=1, store_schema=False, use_dictionary=[*texts, "brokers"]
        )
    return int(whole.num_rows)


DICTIONARY: Final = pa.dictionary(pa.int32(), pa.string())


def _as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = []
    for field in schema:
        column = rows[field.name]
        if field.type == DICTIONARY and not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        columns.append(column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema).unify_dictionaries()
