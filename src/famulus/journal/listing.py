"""The last tasks of journals that match a query. Holds only one row group and the result in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from famulus.journal import schema
from famulus.journal.groups import Group, Span, newest_first
from famulus.journal.reading import JournalReader
from famulus.journal.visits import FINAL, Row

NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Query:
    """Which tasks are wanted; conditions that are not given do not matter."""

    outcomes: Collection[str] = FINAL
    #: Values that columns must have, by column.
    equal: dict[str, str] = field(default_factory=dict)
    span: Span = field(default_factory=Span)
    slower_ms: float | None = None

    @property
    def columns(self) -> list[str]:
        """The columns that decide whether a row matches."""
        slower = ["total_ns"] if self.slower_ms is not None else []
        return ["outcome", "ended", *self.equal, *slower]

    @property
    def expression(self) -> pc.Expression:
        holds = pc.field("outcome").isin(list(self.outcomes)) & self.span.holds("ended")
        for name, value in self.equal.items():
            holds &= pc.field(name) == value
        if self.slower_ms is not None:
            holds &= pc.field("total_ns") >= int(self.slower_ms * NS_PER_MS)
        return holds


def last_tasks(readings: Sequence[JournalReader], query: Query, limit: int) -> list[Row]:
    """At most `limit` rows, in the order in which they ended. Instants are datetimes."""
    return _latest(newest_first(readings, "tasks", query.span), "ended", limit, query)


def last_rows(reading: JournalReader, table: str, limit: int) -> list[Row]:
    """The last rows of any table, in order of time."""
    return _latest(newest_first([reading], table, Span()), schema.TIME_COLUMN[table], limit, None)


def _latest(groups: Iterable[Group], time: str, limit: int, query: Query | None) -> list[Row]:
    kept: pa.Table | None = None
    oldest: datetime | None = None
    for group in groups:
        if kept is not None and oldest is not None and kept.num_rows >= limit and group.last < oldest:
            # Groups of an hour are sorted by their newest row, and hours come in order: no later group can be better.
            break
        rows = _wanted(group, query)
        if rows is None or not rows.num_rows:
            continue
        # Files of an older version lack some columns.
        together = rows if kept is None else pa.concat_tables([kept, rows], promote_options="default")
        # `take` rather than `slice`: a slice would keep the whole table alive.
        order = pc.sort_indices(together, sort_keys=[(time, "ascending")])
        kept = together.take(order.slice(max(0, len(order) - limit)))
        oldest = kept[time][0].as_py()
    return kept.to_pylist() if kept is not None else []


def _wanted(group: Group, query: Query | None) -> pa.Table | None:
    if query is None:
        return group.read()
    deciding = group.read(query.columns)
    if deciding is None or deciding.filter(query.expression).num_rows == 0:
        # Most groups end here when few tasks match: ids and the rest are not even unpacked.
        return None
    rows = group.read()
    return rows.filter(query.expression) if rows is not None else None
