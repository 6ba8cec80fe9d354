"""Reads the pipeline's tables, in pieces. Knows files, and nothing of what a report says about them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq

BATCH_ROWS: Final = 20_000
_INSTANT: Final = pa.timestamp("us", tz="UTC")


class Tables:
    """A folder of tables, here or at a URI that Arrow knows. A table that is not there has no rows."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        place = os.fspath(folder)
        if "://" in place:
            # Arrow and Hadoop have different names for the same store.
            self._fs, self._base = fs.FileSystem.from_uri(place.replace("s3a://", "s3://", 1))
        else:
            self._fs, self._base = fs.LocalFileSystem(), os.path.abspath(place)

    def files(self, table: str) -> list[str]:
        """Nothing that is hidden: that is still being written."""
        base = f"{self._base.rstrip('/')}/{table}"
        found = self._fs.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=True))
        inside = [each.path[len(base) + 1 :] for each in found if each.path.endswith(".parquet")]
        shown = [path for path in inside if not any(part.startswith((".", "_")) for part in path.split("/"))]
        return [f"{base}/{path}" for path in sorted(shown)]

    def batches(self, table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """With exactly these columns, whichever way the instants were written."""
        for path in self.files(table):
            with self._fs.open_input_file(path) as source, pq.ParquetFile(source) as file:
                for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=list(columns)):
                    arrays = [_zoned(batch.column(name)) for name in columns]
                    yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        for batch in self.batches(table, columns):
            yield from batch.to_pylist()


def _zoned(array: pa.Array) -> pa.Array:
    """Spark's older way to write instants has neither a zone nor microseconds; UTC is meant."""
    if not pa.types.is_timestamp(array.type) or array.type == _INSTANT:
        return array
    if array.type.tz is None:
        return array.cast(pa.timestamp("us"), safe=False).cast(_INSTANT)
    return array.cast(_INSTANT, safe=False)
