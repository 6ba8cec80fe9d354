"""Reads the pipeline's tables, in pieces. Knows files, but not what a report says about them."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from famulus.errors import PlaceError
from famulus.pipeline.io import hours
from famulus.pipeline.io.place import Place, first_line
from famulus.tables.reading import zoned

BATCH_ROWS: Final = 20_000
#: An older pipeline had the hour in the path, and not in the file.
_OF_A_DAY: Final = re.compile(r".*/date=(\d{4}-\d\d-\d\d)/(?:hour=(\d\d)/)?[^/]+\.parquet")


class Tables:
    """A folder of tables. A table that is not there has no rows."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._place = Place(folder)

    def batches(self, table: str, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """With these columns in their order, or all, whichever way the instants were written."""
        for found in self._place.files(table):
            if found.path.endswith(".parquet"):
                yield from self._batches_of(found.path, columns)

    def hours(self, table: str) -> list[int]:
        """The hours of which an hourly table has rows, by their numbers."""
        return sorted({hour for hour, _ in self.hourly(table, [])})

    def hourly(
        self, table: str, columns: list[str], wanted: Container[int] | None = None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Of an hourly table these hours, or all; each piece with the number of its hour."""
        for found in self._place.files(table):
            if (match := _OF_A_DAY.fullmatch(found.path)) is None:
                continue
            day, hour = match.groups()
            first = hours.number_of(day, "0")
            if wanted is None or any(first + each in wanted for each in range(24)):
                for number, batch in self._by_hour(found.path, first, columns, hour):
                    if wanted is None or number in wanted:
                        yield number, batch

    def rows(self, table: str, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
        for batch in self.batches(table, columns):
            yield from batch.to_pylist()

    def _by_hour(
        self, path: str, first: int, columns: list[str], hour: str | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        if hour is not None:
            for batch in self._batches_of(path, columns or ["service"]):
                yield first + int(hour), batch.select(columns)
            return
        for batch in self._batches_of(path, [*columns, "hour"]):
            for number in pc.unique(batch["hour"]).to_pylist():
                yield first + number, batch.filter(pc.equal(batch["hour"], number)).select(columns)

    def _batches_of(self, path: str, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        try:
            with self._place.open(path) as source, pq.ParquetFile(source) as file:
                names = columns or file.schema_arrow.names
                if missing := [name for name in names if name not in file.schema_arrow.names]:
                    raise PlaceError(
                        f"{self._place.full(path)} has no column {missing[0]}: famulus pipeline run adds it"
                    )
                for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=columns):
                    yield pa.RecordBatch.from_arrays([zoned(batch.column(name)) for name in names], names=names)
        except (pa.ArrowException, OSError) as error:
            raise PlaceError(f"{self._place.full(path)} cannot be read: {first_line(error)}") from None
