"""What became of a broker that was seen with an open task, and so of the task. Pure: signs come in, a fate goes out.

The same that the pipeline decides for all tasks at once (`famulus.pipeline.tables.unsettled`), for one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

#: A task is overdue when its broker goes on for this long without ending it, and for twice as long as any task of its
#: service took.
OVERDUE: Final = timedelta(seconds=120)

#: What each fate means.
MEANINGS: Final = {
    "died": "the dispatcher of its broker died with the task open",
    "restarted": "its broker was gone and came back with an empty memory",
    "lost": "its broker was lost to the others",
    "stopped": "its broker stopped in good order, and should have ended it",
    "overdue": "its broker went on for longer than tasks of this service take, and has not ended it: it was forgotten, "
    "unless its time-out is that long",
    "open": "it may yet end, or has ended a moment ago: rows can be read up to a minute after they were told",
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """The fate of a task that was open, and when it was decided."""

    fate: str
    at: datetime | None = None
    #: The journal of its broker lacks rows around that time.
    gap: bool = False

    @property
    def sentence(self) -> str:
        words = MEANINGS[self.fate]
        if self.gap:
            words += "; but the journal lacks rows of that time, and its end may be among them"
        return words


@dataclass(slots=True)
class Signs:
    """Ends of a broker's lives and signs of life, after an instant."""

    longest_ns: int = 0
    _gap: bool = False
    #: By boot, the last row that it wrote.
    _alive: dict[str, datetime] = field(default_factory=dict)
    #: When, how, and in which boot; none for what another broker says.
    _ends: list[tuple[datetime, str, str | None]] = field(default_factory=list)

    def of_itself(self, row: dict[str, Any]) -> None:
        """A row of its table `brokers`."""
        self.alive(row["boot"], row["at"])
        match row["event"]:
            case "process_died" if row["process"] == "dispatcher":
                self._ends.append((row["at"], "died", row["boot"]))
            case "stop":
                self._ends.append((row["at"], "stopped", row["boot"]))
            case "start":
                self._ends.append((row["at"], "restarted", row["boot"]))
            case "gap" if row["table"] in (None, "tasks"):
                self._gap = True

    def of_a_peer(self, row: dict[str, Any]) -> None:
        """Another broker lost it."""
        self._ends.append((row["at"], "lost", None))

    def alive(self, boot: str, at: datetime) -> None:
        self._alive[boot] = max(at, self._alive.get(boot, at))

    def evidence(self, seen: dict[str, Any]) -> Evidence:
        """`seen`: the task at its last checkpoint."""
        alive_at = self._alive.get(seen["boot"], seen["at"])
        limit = max(OVERDUE, timedelta(microseconds=2 * self.longest_ns / 1000))
        # First, since what was forgotten long before is not the fault of a death.
        if alive_at - seen["at"] > limit:
            return Evidence("overdue", alive_at, self._gap)
        end = self._first_end(seen)
        if end is None:
            return Evidence("open", gap=self._gap)
        at, kind, _ = end
        if kind == "lost" and alive_at > at:
            # Whoever wrote after it was "lost" was not.
            return Evidence("open", gap=self._gap)
        return Evidence(kind, at, self._gap)

    def _first_end(self, seen: dict[str, Any]) -> tuple[datetime, str, str | None] | None:
        after = [
            end for end in self._ends if end[0] >= seen["at"] and not (end[1] == "restarted" and end[2] == seen["boot"])
        ]
        # That a peer lost it counts least: both may live on, with the line between them cut.
        return min(after, key=lambda end: (end[1] == "lost", end[0]), default=None)
