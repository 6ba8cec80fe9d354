"""Reads the pipeline's tables, in pieces. Knows files, and nothing of what a report says about them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

BATCH_ROWS: Final = 20_000
_INSTANT: Final = pa.timestamp("us", tz="UTC")


class Tables:
    """A folder of tables. One that is not there has no rows."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)

    def files(self, table: str) -> list[Path]:
        """Nothing that is hidden: that is still being written."""
        base = self._folder / table
        found = base.rglob("*.parquet") if base.is_dir() else []
        return sorted(
            path for path in found if not any(part.startswith((".", "_")) for part in path.relative_to(base).parts)
        )

    def batches(self, table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """With exactly these columns, whichever way the instants were written."""
        for path in self.files(table):
            with pq.ParquetFile(path) as file:
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
