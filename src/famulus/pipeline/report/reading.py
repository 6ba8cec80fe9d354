"""Reads the pipeline's tables, in pieces. Knows files, but not what a report says about them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from famulus.pipeline.io.place import Place
from famulus.tables.reading import zoned

BATCH_ROWS: Final = 20_000


class Tables:
    """A folder of tables. A table that is not there has no rows."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._place = Place(folder)

    def batches(self, table: str, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """With these columns in their order, or all, whichever way the instants were written."""
        for found in self._place.files(table):
            if not found.path.endswith(".parquet"):
                continue
            with self._place.open(found.path) as source, pq.ParquetFile(source) as file:
                for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=columns):
                    names = columns or batch.schema.names
                    yield pa.RecordBatch.from_arrays([zoned(batch.column(name)) for name in names], names=names)

    def rows(self, table: str, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
        for batch in self.batches(table, columns):
            yield from batch.to_pylist()
