"""Which services meet their objectives, and what is left of their budgets for bad tasks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Final

from famulus.pipeline.report.html import Head, Safe, badge, listed, nothing, section
from famulus.pipeline.report.plot import figure, line, time_axis
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.words import count, instant, plural, share

#: Services that have a line of their own: those with the least left.
LINES_MAX: Final = 8
DAY: Final = timedelta(days=1)
Row = dict[str, Any]


def objectives(tables: Tables) -> Safe:
    lead = (
        "The share of tasks that should end OK in time, over the days of each objective. The rest is the error budget. "
        "At a burn rate of 1 it lasts just as long as these days."
    )
    hours: dict[str, list[Row]] = {}
    for row in sorted(tables.rows("objectives"), key=lambda row: (row["service"], row["at"])):
        hours.setdefault(row["service"], []).append(row)
    if not hours:
        return section("objectives", "Objectives", lead, nothing("No service has an objective."))
    worst_first = sorted(hours.values(), key=lambda rows: (-rows[-1]["burnt"], rows[-1]["service"]))
    services = listed("Services, those with the least left first", _SERVICES, [_summed(rows) for rows in worst_first])
    return section("objectives", "Objectives", lead, services, _rates(worst_first[:LINES_MAX]))


def _summed(rows: Sequence[Row]) -> Row:
    """A service: its latest hour, with the sums over all of them and over its last day."""
    last = rows[-1]
    recent = [row for row in rows if row["at"] > last["at"] - DAY]
    return {
        **last,
        "tasks": sum(row["tasks"] for row in rows),
        "bad": sum(row["bad"] for row in rows),
        "day_rate": _rate(recent),
        "fast": sum(row["fast_minutes"] for row in recent),
        "slow": sum(row["slow_minutes"] for row in recent),
    }


def _rate(rows: Sequence[Row]) -> float:
    return float(sum(row["bad"] for row in rows) / sum(row["tasks"] for row in rows) / (1 - rows[0]["share"]))


def _said(row: Row) -> str:
    within = "" if row["within_ms"] is None else f" within {row['within_ms']:,} ms"
    return f"{100 * row['share']:.10g} % OK{within}, over {plural(row['days'], 'day')}"


def _left(burnt: float) -> Safe:
    if burnt >= 1:
        return badge("used up", "bad")
    return badge(f"{share(1 - burnt)} left", "good" if burnt < 0.75 else "warn")


def _alarm(row: Row) -> Safe:
    minutes = max(row["fast"], row["slow"])
    if not minutes:
        return badge("no", "good")
    return badge(plural(minutes, "minute"), "bad" if row["fast"] else "warn")


def _times(rate: float) -> str:
    return f"× {rate:.3g}"


_SERVICES: Final = (
    Head("Service", of="service"),
    Head("Objective", of=_said),
    Head("Tasks", True, "tasks", count),
    Head("Bad", True, "bad", count),
    Head("Budget", of="burnt", said=_left),
    Head("Burn rate, last hour", True, "burn_rate", _times),
    Head("Last day", True, "day_rate", _times),
    Head("Too fast, last day", of=_alarm),
)
_DAYS: Final = (
    Head("Service", of="service"),
    Head("Day", of="day"),
    Head("Tasks", True, "tasks", count),
    Head("Bad", True, "bad", count),
    Head("Burn rate", True, "burn_rate", _times),
)


def _rates(services: Sequence[Sequence[Row]]) -> Safe:
    """Hours without tasks burn nothing, and have no row."""
    traces = [
        line(rows[0]["service"], number, [instant(row["at"]) for row in rows], [row["burn_rate"] for row in rows],
             "× %{y:.3~g}")
        for number, rows in enumerate(services)
    ]  # fmt: skip
    layout = {"xaxis": time_axis(), "yaxis": {"title": {"text": "burn rate"}, "rangemode": "tozero"}}
    days = [day for rows in services for day in _by_day(rows)]
    says = "Hour by hour, how many times as many tasks were bad as may be."
    return figure("Burn rate", says, traces, layout, instead=listed("Day by day", _DAYS, days))


def _by_day(rows: Sequence[Row]) -> list[Row]:
    days: dict[date, list[Row]] = {}
    for row in rows:
        days.setdefault(row["at"].date(), []).append(row)
    return [
        {"service": rows[0]["service"], "day": day, "tasks": sum(row["tasks"] for row in own),
         "bad": sum(row["bad"] for row in own), "burn_rate": _rate(own)}
        for day, own in days.items()
    ]  # fmt: skip
