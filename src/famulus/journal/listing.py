"""The last tasks of journals that are as somebody wants them. Holds one row group and what it will give back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from famulus.journal.groups import Span, newest_first
from famulus.journal.reading import Reading
from famulus.journal.visits import FINAL

NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Query:
    """Which tasks; what is not given does not matter."""

    outcomes: Collection[str] = FINAL
    #: Values that columns must have, by column.
    equal: dict[str, str] = field(default_factory=dict)
    span: Span = field(default_factory=Span)
    slower_ms: float | None = None

    @property
    def columns(self) -> list[str]:
        """Those that decide."""
        slower = ["total_ns"] if self.slower_ms is not None else []
        return ["outcome", "ended", *self.equal, *slower]

    @property
    def expression(self) -> pc.Expression:
        holds = pc.field("outcome").isin(list(self.outcomes))
        for name, value in self.equal.items():
            holds &= pc.field(name) == value
        if self.span.since is not None:
            holds &= pc.field("ended") >= pa.scalar(self.span.since, pa.timestamp("us", tz="UTC"))
        if self.span.until is not None:
            holds &= pc.field("ended") <= pa.scalar(self.span.until, pa.timestamp("us", tz="UTC"))
        if self.slower_ms is not None:
            holds &= pc.field("total_ns") >= int(self.slower_ms * NS_PER_MS)
        return holds


def last_tasks(readings: Sequence[Reading], query: Query, limit: int) -> list[dict[str, Any]]:
    """At most so many rows, in the order of their ends. Instants are as Python has them."""
    kept: pa.Table | None = None
    oldest: datetime | None = None
    for group in newest_first(readings, "tasks", query.span):
        if kept is not None and oldest is not None and kept.num_rows >= limit and group.last < oldest:
            # Groups of an hour come by their newest row, and hours one after the other: no later one can have better.
            break
        deciding = group.read(query.columns)
        if deciding is None or deciding.filter(query.expression).num_rows == 0:
            # Most groups end here when somebody looks for few: ids and the rest are not even unpacked.
            continue
        rows = group.read()
        if rows is None:
            continue
        rows = rows.filter(query.expression)
        together = rows if kept is None else pa.concat_tables([kept, rows])
        # Taken and not sliced: a slice would keep alive what it was cut from.
        order = pc.sort_indices(together, sort_keys=[("ended", "ascending")])
        kept = together.take(order.slice(max(0, len(order) - limit)))
        oldest = kept["ended"][0].as_py()
    return kept.to_pylist() if kept is not None else []
