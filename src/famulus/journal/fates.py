"""What became of a broker that was seen with an open task, and so of the task. Pure: signs come in, a fate goes out.

Decides for one task what the pipeline decides for all tasks at once (`famulus.pipeline.tables.unsettled`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

#: A task is overdue when its broker keeps running for this long without ending it, and for twice as long as any task of
#: its service took.
OVERDUE: Final = timedelta(seconds=120)

#: A gap is reported as soon as possible; one that is reported later is about other rows.
GAP_WITHIN: Final = timedelta(hours=1)

#: What each fate means.
MEANINGS: Final = {
    "died": "the dispatcher of its broker died; it was open then, or its row was lost, and its outcome is not known",
    "restarted": "its broker was gone and came back: its row was lost, and its outcome is not known",
    "lost": "its broker was lost to the others, and its outcome is not known",
    "stopped": "its broker was shut down properly, and should have ended it",
    "overdue": "its broker went on for longer than tasks of this service take, and has not ended it: it was forgotten, "
    "unless its time-out is that long",
    "open": "it may still end, or has just ended: rows can be read up to a minute after they were written",
}


@dataclass(frozen=True, slots=True)
class TaskFate:
    """The fate of a task that was open, and when it was decided."""

    fate: str
    at: datetime | None = None
    #: How many rows of that life of its broker the journal lacks, in the hour after the task was seen.
    gap: int = 0

    @property
    def sentence(self) -> str:
        words = MEANINGS[self.fate]
        if self.gap:
            lacks = "1 row" if self.gap == 1 else f"{self.gap:,} rows"
            words += f"; but the journal lacks {lacks} of that time, and its end may be among them"
        return words


@dataclass(slots=True)
class Signs:
    """How a broker's lives ended, and its signs of life, after an instant."""

    longest_ns: int = 0
    #: Rows that are missing: when that was reported, of which boot, and how many.
    _gaps: list[tuple[datetime, str, int]] = field(default_factory=list)
    #: By boot, the last row that it wrote.
    _alive: dict[str, datetime] = field(default_factory=dict)
    #: When, how, and in which boot; None if another broker reported it.
    _ends: list[tuple[datetime, str, str | None]] = field(default_factory=list)

    def of_itself(self, row: dict[str, Any]) -> None:
        """A row of its own table `brokers`."""
        self.alive(row["boot"], row["at"])
        match row["event"]:
            case "process_died" if row["process"] == "dispatcher":
                self._ends.append((row["at"], "died", row["boot"]))
            case "stop":
                self._ends.append((row["at"], "stopped", row["boot"]))
            case "start":
                self._ends.append((row["at"], "restarted", row["boot"]))
            case "gap" if row["table"] in (None, "tasks"):
                self._gaps.append((row["at"], row["boot"], row["rows"] or 0))

    def of_a_peer(self, row: dict[str, Any]) -> None:
        """Another broker lost it."""
        self._ends.append((row["at"], "lost", None))

    def alive(self, boot: str, at: datetime) -> None:
        self._alive[boot] = max(at, self._alive.get(boot, at))

    def evidence(self, seen: dict[str, Any]) -> TaskFate:
        """`seen`: the task at its last checkpoint."""
        alive_at = self._alive.get(seen["boot"], seen["at"])
        until = seen["at"] + GAP_WITHIN
        gap = sum(rows for at, boot, rows in self._gaps if boot == seen["boot"] and seen["at"] <= at <= until)
        limit = max(OVERDUE, timedelta(microseconds=2 * self.longest_ns / 1000))
        # First, since a task that was forgotten long before was not lost by a crash.
        if alive_at - seen["at"] > limit:
            return TaskFate("overdue", alive_at, gap)
        at, kind, _ = self._first_end(seen) or (None, "open", None)
        # A broker that wrote rows after it was "lost" was not lost.
        was_not_lost = kind == "lost" and at is not None and alive_at > at
        return TaskFate("open", gap=gap) if was_not_lost else TaskFate(kind, at, gap)

    def _first_end(self, seen: dict[str, Any]) -> tuple[datetime, str, str | None] | None:
        after = [
            end for end in self._ends if end[0] >= seen["at"] and not (end[1] == "restarted" and end[2] == seen["boot"])
        ]
        # That a peer lost it counts least: both may still be running, with the connection between them cut.
        return min(after, key=lambda end: (end[1] == "lost", end[0]), default=None)
