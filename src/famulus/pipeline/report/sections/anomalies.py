"""Minutes that differ from what is usual for a service at that time of the day."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from famulus.pipeline.report.html import NOTHING, Head, Safe, listed, nothing, section
from famulus.pipeline.report.plot import lanes, marks
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.timeline import Timeline
from famulus.pipeline.report.words import count, duration_ns, minute, plural, share

_MEASURES: Final = {"rate": "rate", "error_share": "share of errors", "p99_ns": "99th percentile"}
#: Enough to see what went on; with more than that, they are not anomalies but a new normal.
MINUTES_MAX: Final = 20_000


@dataclass(slots=True)
class Episode:
    """Minutes that follow each other and differ in the same way."""

    first: dict[str, Any]
    worst: dict[str, Any]
    last: datetime
    minutes: int
    tasks: int


def anomalies(tables: Tables, timeline: Timeline | None) -> Safe:
    lead = "Compared with the median of the same hour of the day, in units of the usual distance from it."
    rows = list(islice(tables.rows("anomalies"), MINUTES_MAX + 1))
    if not rows:
        return section("anomalies", "Anomalies", lead, nothing("No anomalies: every minute was as one would expect."))
    more = len(rows) > MINUTES_MAX
    episodes = sorted(_episodes(rows[:MINUTES_MAX]), key=lambda each: -each.worst["score"])
    furthest = listed("Episodes, the furthest off first", _HEADS, episodes)
    note = nothing(f"Only the first {MINUTES_MAX:,} minutes are shown.") if more else NOTHING
    return section("anomalies", "Anomalies", lead, note, _plot(episodes[:500], timeline), furthest)


def _episodes(rows: list[dict[str, Any]]) -> Iterator[Episode]:
    current: Episode | None = None
    for row in sorted(rows, key=lambda row: (*_kind(row), row["minute"])):
        if current and _kind(current.first) == _kind(row) and row["minute"] - current.last <= timedelta(minutes=2):
            current.last = row["minute"]
            current.minutes += 1
            current.tasks += row["tasks"]
            current.worst = max(current.worst, row, key=lambda each: each["score"])
            continue
        if current:
            yield current
        current = Episode(row, row, row["minute"], 1, row["tasks"])
    if current:
        yield current


def _kind(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["service"], row["measure"], row["direction"]


def _value(measure: str, value: float) -> str:
    if measure == "error_share":
        return share(value)
    return duration_ns(value) if measure == "p99_ns" else f"{value:,.0f}/min"


def _what(row: dict[str, Any]) -> str:
    return f"{_MEASURES.get(row['measure'], row['measure'])} {row['direction']}"


_HEADS: Final = (
    Head("Service", of=lambda each: each.worst["service"]),
    Head("What", of=lambda each: _what(each.worst)),
    Head("From (UTC)", of=lambda each: minute(each.first["minute"])),
    Head("Minutes", True, lambda each: count(each.minutes)),
    Head("Furthest", True, lambda each: _value(each.worst["measure"], each.worst["value"])),
    Head("Usual", True, lambda each: _value(each.worst["measure"], each.worst["baseline"])),
    Head("Times the usual distance", True, lambda each: f"{each.worst['score']:.1f}"),
    Head("Tasks", True, lambda each: count(each.tasks)),
)


def _plot(episodes: list[Episode], timeline: Timeline | None) -> Safe:
    traces = []
    for number, kind in enumerate(sorted({_what(each.worst) for each in episodes})):
        its = [each.worst for each in episodes if _what(each.worst) == kind]
        traces.append(marks(kind, number, [(row["minute"], row["service"], _beside_usual(row)) for row in its]))
    services = plural(len({each.worst["service"] for each in episodes}), "service")
    says = f"{plural(len(episodes), 'episode')} in {services}."
    return lanes("Anomalies over time", says, traces, timeline.span if timeline else None)


def _beside_usual(row: dict[str, Any]) -> str:
    return f"{_value(row['measure'], row['value'])}, usually {_value(row['measure'], row['baseline'])}"
