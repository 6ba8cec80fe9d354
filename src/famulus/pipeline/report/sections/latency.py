"""How long tasks took: percentiles over time, and where all of them lie."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from famulus.pipeline.histogram import middle_ns, quantile_ns, quantile_of
from famulus.pipeline.report.html import Head, Safe, nothing, section, table
from famulus.pipeline.report.plot import duration_axis, figure, line, time_axis
from famulus.pipeline.report.timeline import HISTOGRAMS, Timeline
from famulus.pipeline.report.words import NS_PER_S, count, duration_ns, duration_s, instant

QUANTILES: Final = (("p50", 500_000), ("p90", 900_000), ("p99", 990_000), ("p99.9", 999_000))
#: Buckets of the histograms that make one row of the heat map: four rows for each e-fold.
BUCKETS_PER_ROW: Final = 4


def latency(timeline: Timeline | None) -> Safe:
    lead = "From arrival to the end, as seen by the broker that the client had asked. To within 3.5 %."
    if timeline is None or not timeline.histograms["total_hist"].any():
        return section("latency", "Latency", lead, nothing("No tasks in this span."))
    return section("latency", "Latency", lead, _percentiles(timeline), _heat(timeline), _by_service(timeline))


def _over_time(
    timeline: Timeline, histograms: Iterable[tuple[str, np.ndarray, int]], hover: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The lines of some quantiles, each of a histogram for each step, and the axes that fit all of them."""
    x = [instant(at) for at in timeline.axis.starts()]
    found = [(name, quantile_ns(histogram, ppm)) for name, histogram, ppm in histograms]
    traces = [
        line(name, number, x, (values / NS_PER_S).tolist(), hover, text=[duration_ns(value) for value in values])
        for number, (name, values) in enumerate(found)
    ]
    known = np.stack([values for _, values in found]) / NS_PER_S
    return traces, {"xaxis": time_axis(), "yaxis": duration_axis(float(np.nanmin(known)), float(np.nanmax(known)))}


def _percentiles(timeline: Timeline) -> Safe:
    whole = timeline.histograms["total_hist"].sum(axis=0)
    traces, layout = _over_time(timeline, [(name, whole, ppm) for name, ppm in QUANTILES], "%{text}")
    says = f"What that many of 100 tasks do not exceed, in steps of {duration_s(timeline.axis.seconds)}."
    rows = [[name, duration_ns(quantile_of(whole.sum(axis=0), ppm))] for name, ppm in QUANTILES]
    instead = table("Over the whole span", [Head("Percentile"), Head("Total time", True)], rows)
    return figure("Percentiles over time", says, traces, layout, instead=instead)


def _heat(timeline: Timeline) -> Safe:
    whole = timeline.histograms["total_hist"].sum(axis=0)
    used = np.flatnonzero(whole.sum(axis=0))
    low = used[0] - used[0] % BUCKETS_PER_ROW
    rows = (used[-1] - low) // BUCKETS_PER_ROW + 1
    part = whole[:, low : low + rows * BUCKETS_PER_ROW]
    # The last bucket of all may end the row early.
    part = np.pad(part, ((0, 0), (0, rows * BUCKETS_PER_ROW - part.shape[1])))
    cells = part.reshape(timeline.axis.bins, rows, BUCKETS_PER_ROW).sum(axis=2)
    per_bin = cells.sum(axis=1, keepdims=True)
    share = np.divide(100.0 * cells, per_bin, out=np.zeros(cells.shape), where=per_bin > 0)
    middles = middle_ns(low + BUCKETS_PER_ROW * (np.arange(rows) + 0.5) - 0.5) / NS_PER_S
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": [instant(at) for at in timeline.axis.starts()],
        "y": [float(value) for value in middles],
        # Each step is its own 100 %: so a quiet night is as readable as a busy day. Zero stays blank.
        "z": [[round(float(value), 2) if value else None for value in row] for row in share.T],
        "colorscale": [[number / 4, f"$h{number}"] for number in range(5)],
        "colorbar": {"title": {"text": "% of tasks"}, "thickness": 10, "outlinewidth": 0},
        "hovertemplate": "%{x}<br>%{y:.3~s}s: %{z:.2~f} % of tasks<extra></extra>",
    }
    edges = [float(middle_ns(np.array(low + at, dtype=float))) / NS_PER_S for at in (0, rows * BUCKETS_PER_ROW)]
    layout = {"xaxis": time_axis(), "yaxis": duration_axis(*edges)}
    totals = cells.sum(axis=0)
    listed = [
        [duration_ns(float(middle) * NS_PER_S), count(int(number))]
        for middle, number in zip(middles, totals, strict=True) if number
    ]  # fmt: skip
    instead = table("Tasks by total time, over the whole span", [Head("About"), Head("Tasks", True)], listed)
    says = "Each column is a step in time, each cell the share of its tasks that took about as long."
    return figure("Where the tasks lie", says, [trace], layout, height=340, instead=instead)


def _by_service(timeline: Timeline) -> Safe:
    totals = zip(timeline.services, timeline.histograms["total_hist"], strict=True)
    traces, layout = _over_time(timeline, [(service, each, 990_000) for service, each in totals], "p99 %{text}")
    shown = (("p50", 500_000), ("p99", 990_000))
    rows = [
        [service, *(duration_ns(quantile_of(timeline.histograms[name][number].sum(axis=0), ppm))
                    for name in HISTOGRAMS for _, ppm in shown)]
        for number, service in enumerate(timeline.services)
    ]  # fmt: skip
    heads = [Head("Service"), *(Head(f"{of} {name}", True) for of in ("wait", "service", "total") for name, _ in shown)]
    instead = table("Percentiles over the whole span", heads, rows)
    return figure("By service", "The 99th percentile of each service's total time.", traces, layout, instead=instead)
