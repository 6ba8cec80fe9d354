"""Minutes that differ from what is usual for a service at that time of the day."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from famulus.pipeline.report.html import ROWS_MAX, Head, Safe, nothing, section, table
from famulus.pipeline.report.plot import SYMBOLS, Plot, colour, figure, label, time_axis, when
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.timeline import Timeline
from famulus.pipeline.report.words import count, duration_ns, minute, plural, share

_COLUMNS: Final = ["minute", "service", "measure", "direction", "value", "baseline", "score", "tasks"]
_HEADS: Final = [
    Head("Service"), Head("What"), Head("From (UTC)"), Head("Minutes", True), Head("Furthest", True),
    Head("Usual", True), Head("Times the usual distance", True), Head("Tasks", True),
]  # fmt: skip
_MEASURES: Final = {"rate": "rate", "error_share": "share of errors", "p99_ns": "99th percentile"}
#: Enough to see what went on; whoever has more has no anomalies but another normal.
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
    rows = list(islice(tables.rows("anomalies", _COLUMNS), MINUTES_MAX + 1))
    if not rows:
        return section("anomalies", "Anomalies", lead, nothing("No anomalies: every minute was as one would expect."))
    more = len(rows) > MINUTES_MAX
    episodes = sorted(_episodes(rows[:MINUTES_MAX]), key=lambda each: -each.worst["score"])
    shown = episodes[:ROWS_MAX]
    listed = table(
        "Episodes, the furthest off first", _HEADS, [_cells(each) for each in shown], len(episodes) - len(shown)
    )
    note = nothing(f"Only the first {MINUTES_MAX:,} minutes are shown.") if more else Safe("")
    return section("anomalies", "Anomalies", lead, note, _plot(episodes[:500], timeline), listed)


def _episodes(rows: list[dict[str, Any]]) -> Iterator[Episode]:
    current: Episode | None = None
    for row in sorted(rows, key=lambda row: (*_kind(row), row["minute"])):
        if current and _kind(current.first) == _kind(row) and row["minute"] - current.last <= timedelta(minutes=2):
            current.last, current.minutes, current.tasks = (
                row["minute"],
                current.minutes + 1,
                current.tasks + row["tasks"],
            )
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


def _cells(each: Episode) -> list[object]:
    worst = each.worst
    return [
        worst["service"],
        _what(worst),
        minute(each.first["minute"]),
        count(each.minutes),
        _value(worst["measure"], worst["value"]),
        _value(worst["measure"], worst["baseline"]),
        f"{worst['score']:.1f}",
        count(each.tasks),
    ]


def _plot(episodes: list[Episode], timeline: Timeline | None) -> Safe:
    traces = []
    kinds = sorted({_what(each.worst) for each in episodes})
    for number, kind in enumerate(kinds):
        its = [each for each in episodes if _what(each.worst) == kind]
        traces.append({
            "type": "scatter", "mode": "markers", "name": label(kind),
            "x": [when(each.worst["minute"]) for each in its], "y": [label(each.worst["service"]) for each in its],
            "marker": {"symbol": SYMBOLS[number % len(SYMBOLS)], "color": colour(number + 1), "size": 13,
                       "line": {"width": 1, "color": "$paper"}},
            "text": [f"{_value(each.worst['measure'], each.worst['value'])}, usually "
                     f"{_value(each.worst['measure'], each.worst['baseline'])}" for each in its],
            "hovertemplate": "%{x}<br>%{y}: %{text}<extra>%{fullData.name}</extra>",
        })  # fmt: skip
    lanes = len({each.worst["service"] for each in episodes})
    axis = time_axis() if timeline is None else time_axis(range=[when(timeline.axis.start), when(timeline.axis.end)])
    layout = {"xaxis": axis, "yaxis": {"type": "category", "automargin": True}, "showlegend": True}
    says = f"{plural(len(episodes), 'episode')} in {plural(lanes, 'service')}."
    return figure(Plot("Anomalies over time", says, traces, layout, min(170 + 26 * lanes, 900)), None)
