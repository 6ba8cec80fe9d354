"""What a file of the journal says about itself in its footer: version, table, and the time span of each row group."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from famulus.journal import schema

#: Key of the metadata: how many rows of each process are in files, or in gaps that are in files, including this file.
TOLD_KEY: Final = "famulus.journal.told"
#: By source, then by table.
Told = dict[str, dict[str, int]]
#: What reading a broken file or footer may raise.
UNREADABLE: Final = (OSError, pa.ArrowException, ValueError)


@dataclass(frozen=True, slots=True)
class Footer:
    metadata: pq.FileMetaData

    @property
    def words(self) -> Mapping[bytes, bytes]:
        return self.metadata.metadata or {}

    @property
    def version(self) -> int:
        """0 if the file is not ours; raises a ValueError if the version is not a number."""
        return int(self.words.get(schema.VERSION_KEY.encode(), b"0"))

    @property
    def table(self) -> str:
        return self.words.get(schema.TABLE_KEY.encode(), b"").decode()

    @property
    def told(self) -> Told:
        told: Told = json.loads(self.words.get(TOLD_KEY.encode(), b"{}"))
        return told

    def spans(self, table: str) -> list[tuple[datetime, datetime] | None]:
        """The first and the last instant of each row group; None for one without statistics."""
        names = self.metadata.schema.names
        place = names.index(schema.TIME_COLUMN[table]) if schema.TIME_COLUMN[table] in names else None
        found: list[tuple[datetime, datetime] | None] = []
        for index in range(self.metadata.num_row_groups):
            statistics = self.metadata.row_group(index).column(place).statistics if place is not None else None
            known = statistics if statistics is not None and statistics.has_min_max else None
            found.append((known.min, known.max) if known is not None else None)
        return found


def footer_of(path: Path) -> Footer | None:
    """None if it cannot be read, or has a later version."""
    try:
        footer = Footer(pq.read_metadata(path))
        return footer if footer.version <= schema.VERSION else None
    except UNREADABLE:
        return None
