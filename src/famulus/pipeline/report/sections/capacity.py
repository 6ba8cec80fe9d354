"""Which services have too few slots, and at what time of the day."""

from __future__ import annotations

from typing import Any, Final

from famulus.pipeline.report.html import Head, Safe, badge, listed, nothing, section
from famulus.pipeline.report.plot import figure, label
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.words import duration_s, rate, share

BARS_MAX: Final = 30


def capacity(tables: Tables) -> Safe:
    lead = (
        "For each service its most demanding hour of the day, and the slots with which 95 % of tasks wait no longer "
        "than 100 ms then (Erlang C)."
    )
    worst: dict[tuple[str, str], dict[str, Any]] = {}
    for row in tables.rows("capacity"):
        key = row["service"], row["family"]
        if key not in worst or _demand(row) > _demand(worst[key]):
            worst[key] = row
    if not worst:
        return section(
            "capacity", "Capacity", lead, nothing("No load was told in this span, so there is nothing to size.")
        )
    ranked = sorted(worst.values(), key=lambda row: (-_demand(row)[0], -row["erlangs_peak"], row["service"]))
    services = listed("Services, the shortest of slots first", _HEADS, ranked)
    return section("capacity", "Capacity", lead, _bars(ranked[:BARS_MAX]), services)


def _demand(row: dict[str, Any]) -> tuple[int, int, float]:
    return row["slots_missing"] or 0, row["slots_needed"], row["erlangs_peak"]


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
