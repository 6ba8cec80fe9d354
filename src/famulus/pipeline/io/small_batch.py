"""Small batches: Arrow brings them to Spark and back, in less time than Spark takes to open and to write files.

For each file that it opens, Spark copies all settings of Hadoop; for each one that it writes, Hadoop starts a process
that sets its mode. And rows that are in one piece need not be brought together before they are joined or counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from famulus.errors import FileDamaged, FileGone, PlaceError
from famulus.pipeline.io.place import Place, first_line, is_damage
from famulus.pipeline.tables.frames import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: In memory. Spark sends them along with the task, which must not exceed 128 MiB with all nine inputs of a table.
BATCH_BYTES: Final = 12 * 1024 * 1024


def small_frame(
    spark: SparkSession,
    place: Place,
    paths: Sequence[str],
    schema: pa.Schema,
    in_path: Sequence[str] = (),
    *,
    where: ds.Expression | None = None,
    whole: pa.Schema | None = None,
) -> DataFrame | None:
    """The rows of these files; None if there are too many for that. `in_path`: columns that may be in folder names.
    `where`: only the rows for which this holds, which may be about any column of the `whole` schema.

    A column that a file lacks is null.
    """
    found: list[pa.RecordBatch] = []
    left = BATCH_BYTES
    for batch in _batches(place, paths, schema, in_path, where, whole):
        left -= batch.nbytes
        if left < 0:
            return None
        found.append(batch)
    return frame_of(spark, pa.Table.from_batches(found, nullable(schema)))


def rows_of(place: Place, paths: Sequence[str], schema: pa.Schema) -> pa.Table:
    """These columns of all these files."""
    return pa.Table.from_batches(_batches(place, paths, schema), nullable(schema))


def _batches(
    place: Place,
    paths: Sequence[str],
    schema: pa.Schema,
    in_path: Sequence[str] = (),
    where: ds.Expression | None = None,
    whole: pa.Schema | None = None,
) -> Iterator[pa.RecordBatch]:
    if not paths:
        return
    whole = whole or schema
    folders = ds.partitioning(pa.schema([whole.field(name) for name in in_path]), flavor="hive") if in_path else None
    try:
        yield from ds.dataset(
            [place.full(path) for path in paths],
            nullable(whole),
            format="parquet",
            filesystem=place.filesystem,
            partitioning=folders,
            partition_base_dir=place.full(""),
        ).to_batches(columns=schema.names, filter=where)
    except FileNotFoundError as error:
        raise FileGone(f"{place} has lost a file: {first_line(error)}") from None
    except (pa.ArrowException, OSError) as error:
        kind = FileDamaged if is_damage(error) else PlaceError
        raise kind(f"{place} cannot be read: {first_line(error)}") from None


def nullable(schema: pa.Schema) -> pa.Schema:
    """As in everything that Spark reads."""
    return pa.schema([field.with_nullable(True) for field in schema])


def file_of(rows: pa.Table, schema: pa.Schema) -> bytes:
    """A file as Spark would write it."""
    sink = pa.BufferOutputStream()
    columns = rows.select(schema.names).cast(schema)
    pq.write_table(columns, sink, compression="zstd", compression_level=1, store_schema=False)
    return bytes(sink.getvalue())
