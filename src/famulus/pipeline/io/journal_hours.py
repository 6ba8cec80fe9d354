"""The rows of one table of the journal as Arrow reads them, an hour at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from famulus.errors import FileDamaged, FileGone, PlaceError
from famulus.journal import arrow, schema
from famulus.pipeline.columnar.hours import HOUR, of_minutes
from famulus.pipeline.columnar.rows import US_PER_MINUTE
from famulus.pipeline.io.place import Place, first_line, is_damage


@dataclass(frozen=True, slots=True)
class JournalHours:
    place: Place
    table: str
    #: By hour, and how many rows each has.
    paths: Mapping[int, tuple[str, ...]]
    rows_of: dict[int, int]

    def read(self, hour: int, columns: Sequence[str], minutes: range = HOUR) -> pa.Table:
        return self._concat(hour, columns, lambda rows: rows, minutes)

    def kept(self, hour: int, columns: Sequence[str], keep: Callable[[pa.Table], pa.Table]) -> pa.Table:
        return self._concat(hour, columns, keep, HOUR)

    def _concat(
        self, hour: int, columns: Sequence[str], keep: Callable[[pa.Table], pa.Table], minutes: range
    ) -> pa.Table:
        """Texts that occur again and again are dictionaries. A column that a file lacks is null."""
        known, repeated = arrow.schema_of(self.table), set(schema.REPEATED_TEXTS[self.table])
        wanted = pa.schema(
            [pa.field(name, _DICTIONARY if name in repeated else known.field(name).type) for name in columns]
        )
        rows = [keep(self._read(path, wanted, hour, minutes)) for path in self.paths.get(hour, ())]
        return pa.concat_tables([wanted.empty_table(), *rows]).combine_chunks()

    def _read(self, path: str, wanted: pa.Schema, hour: int, minutes: range) -> pa.Table:
        texts = [field.name for field in wanted if field.type == _DICTIONARY]
        try:
            with self.place.open(path) as opened:
                file = pq.ParquetFile(opened, read_dictionary=texts)
                known = set(file.schema_arrow.names)
                there = [name for name in wanted.names if name in known]
                groups = _groups(file.metadata, schema.TIME_COLUMN[self.table], hour, minutes)
                rows = file.read_row_groups(groups, there, use_threads=False)
        except FileNotFoundError as error:
            raise FileGone(f"{self.place} has lost the file {path}: {first_line(error)}") from None
        except (pa.ArrowException, OSError) as error:
            kind = FileDamaged if is_damage(error) else PlaceError
            raise kind(f"{path} in {self.place} cannot be read: {first_line(error)}") from None
        columns = [rows[field.name] if field.name in there else pa.nulls(rows.num_rows, field.type) for field in wanted]
        rows = pa.Table.from_arrays(columns, names=wanted.names).cast(wanted)
        return of_minutes(rows, schema.TIME_COLUMN[self.table], minutes)


def _groups(about: pq.FileMetaData, at: str, hour: int, minutes: range) -> list[int]:
    """The row groups that may have rows of these minutes."""
    if minutes == HOUR:
        return list(range(about.num_row_groups))
    first, last = ((hour * 60 + minute) * US_PER_MINUTE for minute in (minutes.start, minutes.stop))
    column = about.schema.names.index(at)
    bounds = [about.row_group(group).column(column).statistics for group in range(about.num_row_groups)]
    return [
        group
        for group, told in enumerate(bounds)
        if told is None or not told.has_min_max or (told.min_raw < last and told.max_raw >= first)
    ]


_DICTIONARY = pa.dictionary(pa.int32(), pa.string())
