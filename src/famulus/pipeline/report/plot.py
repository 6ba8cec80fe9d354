"""Plots as Plotly reads them: plain values, ready for JSON. Knows no table.

Colours are names such as `$c0`: the page's script puts in what the reader's theme has for them. Series differ in dashes
or symbols as well, so that nobody depends on colours.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from famulus.pipeline.report.html import NOTHING, Safe, printable, text
from famulus.pipeline.report.words import instant

DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "5px 2px", "2px 2px")
SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")
COLOURS: Final = 8
DOT: Final = 7
#: On both sides of an instant that is alone, and how wide its bar is.
HALF_AN_HOUR: Final = timedelta(minutes=30)
BAR: Final = timedelta(minutes=2)

#: Ticks of a logarithmic axis of time, in seconds.
_TICKS: Final = (
    (1e-6, "1 µs"), (1e-5, "10 µs"), (1e-4, "100 µs"), (1e-3, "1 ms"), (1e-2, "10 ms"), (0.1, "100 ms"),
    (1.0, "1 s"), (10.0, "10 s"), (60.0, "1 min"), (600.0, "10 min"), (3600.0, "1 h"), (86400.0, "1 day"),
)  # fmt: skip


def colour(number: int) -> str:
    return f"$c{number % COLOURS}"


def label(name: str) -> str:
    """A name in a plot. Plotly reads a few tags in texts, links among them, so they are escaped."""
    return html.escape(printable(name if len(name) <= 60 else name[:59] + "…"), quote=False)


def line(
    name: str, number: int, x: Sequence[Any], y: Sequence[float | None], hover: str, **more: Any
) -> dict[str, Any]:
    values = [None if value is None or not math.isfinite(value) else round(value, 9) for value in y]
    return {
        "type": "scatter",
        **_dots(values, number),
        "name": label(name),
        "x": list(x),
        "y": values,
        "line": {"color": colour(number), "dash": DASHES[number % len(DASHES)], "width": 2},
        "hovertemplate": f"%{{x}}<br>{hover}<extra>%{{fullData.name}}</extra>",
        **more,
    }


def _dots(values: Sequence[float | None], number: int) -> dict[str, Any]:
    """A line of one point cannot be seen: such a point is a dot."""
    around = [None, *values, None]
    alone = [value is not None and around[at] is None and around[at + 2] is None for at, value in enumerate(values)]
    if not any(alone):
        return {"mode": "lines"}
    sizes = [DOT if each else 0 for each in alone]
    return {"mode": "lines+markers", "marker": {"color": colour(number), "size": sizes}}


def marks(
    name: str, number: int, points: Sequence[tuple[datetime, str, str]], size: float | Sequence[float] = 13
) -> dict[str, Any]:
    """Each at an instant, on the line of whatever it is about, and with a text of its own."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": label(name),
        "x": [instant(at) for at, _, _ in points],
        "y": [label(whom) for _, whom, _ in points],
        "marker": {
            "symbol": SYMBOLS[number % len(SYMBOLS)],
            "color": colour(number + 1),
            "size": size,
            "line": {"width": 1, "color": "$paper"},
        },
        "text": [words for _, _, words in points],
        "hovertemplate": "%{x}<br>%{y}: %{text}<extra>%{fullData.name}</extra>",
    }


def lanes(title: str, says: str, traces: Sequence[dict[str, Any]], span: tuple[datetime, datetime] | None) -> Safe:
    """Marks over time, with a line for each one that they are about."""
    axis = time_axis() if span is None else time_axis(range=[instant(at) for at in span])
    layout = {"xaxis": axis, "yaxis": {"type": "category", "automargin": True}, "showlegend": True}
    names = {name for trace in traces for name in trace["y"]}
    return figure(title, says, traces, layout, height=min(170 + 26 * len(names), 900))


def time_axis(**more: Any) -> dict[str, Any]:
    return {"type": "date", "hoverformat": "%d %b %H:%M", **more}


def duration_axis(low_s: float, high_s: float) -> dict[str, Any]:
    """Logarithmic, from just below the lowest to just above the highest."""
    low, high = max(low_s, 1e-7), max(high_s, 1e-6)
    ticks = [(value, name) for value, name in _TICKS if low / 3 <= value <= high * 3]
    return {
        "type": "log",
        "range": [math.log10(low) - 0.1, math.log10(high) + 0.1],
        "tickvals": [value for value, _ in ticks],
        "ticktext": [name for _, name in ticks],
    }


def figure(
    title: str,
    says: str,
    traces: Sequence[dict[str, Any]],
    layout: dict[str, Any],
    *,
    height: int = 320,
    instead: Safe = NOTHING,
) -> Safe:
    """`says`: what the plot shows, for those who cannot see it. `instead`: a table for whoever wants figures or has no
    script; not where the section shows one anyway."""
    traces, layout = _around_one_instant(traces, layout)
    spec = json.dumps({"traces": traces, "layout": layout, "height": height}, allow_nan=False)
    # Nothing in a script may look like its end.
    data = spec.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    details = f"<details><summary>As a table</summary>{instead}</details>" if instead else ""
    return Safe(
        f"<figure><figcaption><h3>{text(title)}</h3><p>{text(says)}</p></figcaption>"
        f'<div class="plot" role="img" aria-label="{text(title)}. {text(says)}" style="min-height:{height}px">'
        f'<script type="application/json">{data}</script></div>{details}</figure>'
    )


def _around_one_instant(
    traces: Sequence[dict[str, Any]], layout: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Of a single instant Plotly would make an axis of milliseconds, and a bar that nobody can see."""
    axis = layout.get("xaxis", {})
    instants = {at for trace in traces for at in trace["x"]}
    if axis.get("type") != "date" or "range" in axis or len(instants) != 1:
        return list(traces), layout
    at = datetime.fromisoformat(instants.pop())
    ends = [str(at - HALF_AN_HOUR), str(at + HALF_AN_HOUR)]
    edges = [str(at - BAR / 2), str(at + BAR / 2)]
    more: dict[str, dict[str, Any]] = {"bar": {"width": BAR / timedelta(milliseconds=1)}, "heatmap": {"x": edges}}
    wide = [trace | more.get(trace["type"], {}) for trace in traces]
    return wide, layout | {"xaxis": axis | {"range": ends}}
