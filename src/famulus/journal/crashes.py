"""Lives of dispatchers that ended in a crash. Pure: rows of the table of brokers come in.

What a dispatcher was doing then and had not reported yet is in no row, so a journal cannot know of it. All it can say
is that there was such a moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

#: Columns of a row that are looked at.
COLUMNS: Final = ["broker", "boot", "at", "event", "process", "detail"]
#: Events that begin or end a life.
EVENTS: Final = ["start", "stop", "process_started", "process_died"]


@dataclass(frozen=True, slots=True, order=True)
class Crash:
    at: datetime
    broker: str
    boot: str
    how: str

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} at {self.broker}: {self.how}"


def crashes(rows: Iterable[dict[str, Any]]) -> list[Crash]:
    """In order of time. A life whose end is not recorded has crashed if the same broker began another one later."""
    began: dict[tuple[str, str], datetime] = {}
    ended: set[tuple[str, str]] = set()
    found: list[Crash] = []
    for row in rows:
        life, of_dispatcher = (row["broker"], row["boot"]), row["process"] == "dispatcher"
        match row["event"]:
            case "start" | "process_started":
                began[life] = min(row["at"], began.get(life, row["at"]))
            case "stop":
                ended.add(life)
            case "process_died" if of_dispatcher:
                ended.add(life)
                found.append(
                    Crash(row["at"], *life, f"its dispatcher died ({row['detail'] or 'for an unknown reason'})")
                )
    for (broker, boot), at in began.items():
        later = [other for (name, _), other in began.items() if name == broker and other > at]
        if later and (broker, boot) not in ended:
            found.append(Crash(min(later), broker, boot, "it disappeared without a word, and was started again"))
    return sorted(found)
