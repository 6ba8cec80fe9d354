"""The row groups of journals, newest first, for readers that must not hold more than one of them in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from famulus.journal.files import JournalFile
from famulus.journal.footers import UNREADABLE, footer_of
from famulus.journal.reading import JournalReader

#: For spans without an end or a beginning.
_EVER: Final = datetime.max.replace(tzinfo=UTC)
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Span:
    """From one instant to another, both included; None means no bound."""

    since: datetime | None = None
    until: datetime | None = None

    def holds(self, column: str) -> pc.Expression:
        """Whether the instant in this column is within the span."""
        return (pc.field(column) >= (self.since or _NEVER)) & (pc.field(column) <= (self.until or _EVER))

    def meets(self, first: datetime, last: datetime) -> bool:
        return last >= (self.since or _NEVER) and first <= (self.until or _EVER)


@dataclass(frozen=True, slots=True)
class Group:
    """One row group of one file."""

    path: Path
    index: int
    #: The first and the last instant of its rows.
    first: datetime
    last: datetime

    def read(self, columns: Sequence[str] | None = None) -> pa.Table | None:
        """None if it cannot be read: that is a matter for `famulus journal verify`."""
        try:
            with pq.ParquetFile(self.path) as opened:
                return opened.read_row_group(self.index, columns=list(columns) if columns is not None else None)
        except UNREADABLE:
            return None


def newest_first(readings: Sequence[JournalReader], table: str, span: Span) -> Iterator[Group]:
    """All that may have rows in this span. Within each hour, the one with the newest row comes first."""
    by_hour: dict[datetime, list[tuple[JournalReader, JournalFile]]] = defaultdict(list)
    for reading in readings:
        for file in reading.folder.visible():
            if file.table == table:
                by_hour[datetime.fromisoformat(f"{file.date}T{file.hour}:00:00+00:00")].append((reading, file))
    for hour in sorted(by_hour, reverse=True):
        if span.meets(hour, hour + timedelta(hours=1)):
            found = [group for reading, file in by_hour[hour] for group in _groups_of(reading, file)]
            found.sort(key=lambda group: group.last, reverse=True)
            yield from (group for group in found if span.meets(group.first, group.last))


def read_newest_first(
    readings: Sequence[JournalReader], table: str, span: Span, columns: Sequence[str] | None = None
) -> Iterator[tuple[Group, pa.Table]]:
    """The same with their rows, as far as they can be read."""
    for group in newest_first(readings, table, span):
        rows = group.read(columns)
        if rows is not None:
            yield group, rows


def _groups_of(reading: JournalReader, file: JournalFile) -> list[Group]:
    path = reading.folder.path / file.path
    footer = footer_of(path)
    spans = footer.spans(file.table) if footer is not None else []
    # A group without statistics may have rows of any time.
    return [Group(path, index, *(span or (_NEVER, _EVER))) for index, span in enumerate(spans)]
