"""How edits of the config spread, and what became of conflicts."""

from __future__ import annotations

import heapq
from typing import Any, Final

from famulus.pipeline.report.html import NOTHING, ROWS_MAX, Head, Safe, badge, listed, nothing, section
from famulus.pipeline.report.plot import duration_axis, figure, label
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.words import duration_s, instant, plural

#: An edit that took longer to be everywhere stands out.
SLOW_S: Final = 60.0
BARS_MAX: Final = 40


def config(tables: Tables) -> Safe:
    lead = "Each edit: when it was accepted, and how long until the last broker had it."
    rows = tables.rows("config_convergence")
    latest = heapq.nlargest(ROWS_MAX + 1, rows, key=lambda row: (row["accepted"], row["edit"]))
    if not latest:
        return section("config", "Configuration", lead, nothing("No edits of the config in this span."))
    shown = latest[:ROWS_MAX]
    edits = listed("Edits, the latest first", _HEADS, latest)
    bars = _bars(sorted(shown, key=lambda row: -row["span_ms"])[:BARS_MAX])
    return section("config", "Configuration", lead, _open(shown), bars, edits)


def _open(rows: list[dict[str, Any]]) -> Safe:
    keys = sorted({row["key"] for row in rows if row["conflict_seen"] and not row["conflict_resolved"]})
    if not keys:
        return NOTHING
    return Safe(f"<p>{badge('open conflict', 'bad')} {plural(len(keys), 'key is', 'keys are')} still in conflict.</p>")


def _spread(span_ms: int) -> object:
    took = span_ms / 1000
    return Safe(f"{duration_s(took)} {badge('slow', 'warn')}") if took > SLOW_S else duration_s(took)


def _reached(row: dict[str, Any]) -> object:
    if not row["missing"]:
        return row["brokers"]
    return Safe(f"{row['brokers']} {badge('not at ' + ', '.join(row['missing']), 'bad')}")


def _conflict(row: dict[str, Any]) -> object:
    if row["conflict_seen"] is None:
        return "–"
    if row["conflict_resolved"] is None:
        return badge(f"open since {instant(row['conflict_seen'])}", "bad")
    return badge(f"settled after {duration_s((row['conflict_ms'] or 0) / 1000)}", "good")


_HEADS: Final = (
    Head("Key", of="key"),
    Head("Edit", of="edit", said=lambda name: name[:12]),
    Head("Author", of="author"),
    Head("Accepted (UTC)", of="accepted", said=instant),
    Head("By", of="accepted_by"),
    Head("Everywhere after", True, "span_ms", _spread),
    Head("Brokers", of=_reached),
    Head("Conflict", of=_conflict),
)


def _bars(rows: list[dict[str, Any]]) -> Safe:
    spans = [max(row["span_ms"] / 1000, 0.001) for row in rows]
    names = [f"{row['key'][:32]} ({row['edit'][:6]})" for row in rows]
    trace = {
        "type": "bar", "orientation": "h", "x": spans, "y": [label(name) for name in names],
        "marker": {"color": ["$warn" if took > SLOW_S else "$c0" for took in spans]},
        "text": [duration_s(took) for took in spans], "textposition": "auto",
        "hovertemplate": "%{y}: %{text}<extra></extra>",
    }  # fmt: skip
    axis = duration_axis(min(spans) / 2, max(spans))
    layout = {
        "xaxis": axis,
        "yaxis": {"type": "category", "automargin": True, "autorange": "reversed"},
        "showlegend": False,
    }
    says = "Until the last broker had the edit; the slowest first. The scale is logarithmic."
    return figure("Time to be everywhere", says, [trace], layout, height=110 + 26 * len(rows))
