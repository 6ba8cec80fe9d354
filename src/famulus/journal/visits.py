"""The visits of one task to brokers, put together from the rows of their journals. Pure.

A task is at a broker from its arrival to its end there. It may visit several (it was handed over, or its client asked
elsewhere), and the same one again. Within one life of a broker it comes again from the same side only after its last
visit has ended, so the order of rows is enough to find their visit; instants are not, since two rows about the same
instant may differ by how much the clock was corrected in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

#: Outcomes with which a task ends. The others, RETRY and LATE, are about attempts.
FINAL: Final = frozenset({"OK", "ERROR", "REJECTED", "UNKNOWN"})

Row = dict[str, Any]


@dataclass(slots=True)
class Visit:
    broker: str
    boot: str
    #: The broker that handed it over; None if it came from its client.
    came_from: str | None
    #: Ends of attempts, in order; the last one may be the end of the task.
    ends: list[Row] = field(default_factory=list)
    #: What checkpoints saw.
    seen: list[Row] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)

    @property
    def end(self) -> Row | None:
        """How it ended here."""
        return self.ends[-1] if self.ends and self.ends[-1]["outcome"] in FINAL else None

    @property
    def arrived(self) -> datetime:
        arrived: datetime = min(row["arrived"] for row in self.rows)
        return arrived

    @property
    def came(self) -> datetime | None:
        """If it had to wait for its time: when that had come, or when it ended before. None if neither is known."""
        return min((row["arrived"] for row in self.rows if row.get("state") != "delayed"), default=None)

    @property
    def rows(self) -> list[Row]:
        return [*self.ends, *self.seen, *self.late]

    @property
    def last_seen(self) -> Row:
        """Its last row, with `at` as its instant."""
        rows = [*({**row, "at": row["ended"]} for row in self.ends), *self.seen]
        return max(rows or [{**row, "at": row["ended"]} for row in self.late], key=lambda row: row["at"])

    def knows(self, ticket: int) -> bool:
        return any(row["ticket"] == ticket for row in (*self.ends, *self.seen))


def visits(tasks: Sequence[Row], open_tasks: Sequence[Row]) -> list[Visit]:
    """In the order in which they began."""
    told = [*((row["at"], 0, row) for row in open_tasks), *((row["ended"], 1, row) for row in tasks)]
    by_side: dict[tuple[str, str, str | None], list[Visit]] = {}
    for _, _, row in sorted(told, key=lambda each: each[:2]):
        side = (row["broker"], row["boot"], row["delegated_from"])
        _place(row, by_side.setdefault(side, []))
    return sorted((visit for found in by_side.values() for visit in found), key=lambda visit: visit.arrived)


def _place(row: Row, found: list[Visit]) -> None:
    outcome = row.get("outcome")
    known = next((visit for visit in reversed(found) if row["ticket"] and visit.knows(row["ticket"])), None)
    if known is None and found and (outcome == "LATE" or found[-1].end is None):
        known = found[-1]
    if known is None:
        known = Visit(row["broker"], row["boot"], row["delegated_from"])
        found.append(known)
    (known.seen if outcome is None else known.late if outcome == "LATE" else known.ends).append(row)
