"""Which services have too few slots, and at what time of the day."""

from __future__ import annotations

from typing import Any, Final

from famulus.pipeline.report.html import NOTHING, ROWS_MAX, Head, Safe, badge, listed, nothing, section, table
from famulus.pipeline.report.plot import figure, label
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.words import duration_s, rate, share
from famulus.pipeline.whatif.change import change
from famulus.pipeline.whatif.forecast import Case, busiest, forecast, hour_of

BARS_MAX: Final = 30
_ASKED: Final = (change(["x2"], []), change([], ["x0.5"]))


def capacity(tables: Tables) -> Safe:
    lead = (
        "For each service its most demanding hour of the day, and the slots with which 95 % of tasks wait no longer "
        "than 100 ms then (Erlang C)."
    )
    ranked = busiest(tables.rows("capacity"))
    if not ranked:
        return section(
            "capacity", "Capacity", lead, nothing("No load was told in this span, so there is nothing to size.")
        )
    services = listed("Services, the shortest of slots first", _HEADS, ranked)
    return section("capacity", "Capacity", lead, _bars(ranked[:BARS_MAX]), services, _what_if(ranked))


def _verdict(missing: int | None) -> Safe:
    if missing is None:
        return badge("slots unknown", "calm")
    return badge(f"{missing:,} more needed", "bad") if missing else badge("enough", "good")


_HEADS: Final = (
    Head("Service", of="service"),
    Head("Family", of="family"),
    Head("Busiest hour", of="hour_of_day", said="{:02d}:00 UTC".format),
    Head("Rate", True, "rate", rate),
    Head("Service time", True, "service_s", duration_s),
    Head("Load (Erlang)", True, "erlangs_peak", "{:.3g}".format),
    Head("Slots", True, "slots", lambda slots: "–" if slots is None else f"{slots:.3g}"),
    Head("Needed", True, "slots_needed", "{:,}".format),
    Head("Have to wait", True, "wait_share", share),
    Head("Verdict", of="slots_missing", said=_verdict),
)


def _what_if(rows: list[dict[str, Any]]) -> Safe:
    """The 95th percentile of the wait: now, with twice the load, and with half of the slots."""
    hours = [hour_of(row) for row in rows]
    told = [[forecast(hour, None, asked) for asked in _ASKED] for hour in hours]
    cells = [
        [each[0].hour.service, each[0].hour.family, _p95(each[0].now), *(_p95(one.asked) for one in each)]
        for each in told[:ROWS_MAX]
        if each[0].now is not None
    ]
    if not cells:
        return NOTHING
    cases = ("Now", "Twice the load", "Half of the slots")
    heads = [Head("Service"), Head("Family"), *(Head(name, True) for name in cases)]
    return table("95th percentile of the wait in that hour, by the model", heads, cells, max(0, len(told) - ROWS_MAX))


def _p95(case: Case | None) -> object:
    if case is None:
        return "–"
    if not case.keeps_up:
        return badge(f"does not keep up: {case.slots_needed:,} slots needed", "bad")
    return duration_s(case.waits.p95_s)


def _bars(rows: list[dict[str, Any]]) -> Safe:
    names = [label(row["service"]) for row in rows]
    if len({row["family"] for row in rows}) > 1:
        names = [label(f"{row['service']} · {row['family']}") for row in rows]
    parts = (
        ("load", [row["erlangs_peak"] for row in rows], "$c0", ""),
        ("slots there", [row["slots"] for row in rows], "$soft", ""),
        ("slots needed", [row["slots_needed"] for row in rows], "$c1", "/"),
    )
    traces = [
        {"type": "bar", "name": name, "x": names, "y": values, "marker": {"color": ink, "pattern": {"shape": shape}},
         "hovertemplate": "%{x}: %{y:.3~g}<extra>%{fullData.name}</extra>"}
        for name, values, ink, shape in parts
    ]  # fmt: skip
    layout = {"barmode": "group", "yaxis": {"rangemode": "tozero"}, "xaxis": {"type": "category", "automargin": True}}
    return figure("Slots: there and needed", "At the most demanding hour of each service.", traces, layout)
