"""How long tasks took: percentiles over time, and where all of them lie."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from famulus.pipeline.report.html import Head, Safe, nothing, section, table
from famulus.pipeline.report.plot import Plot, duration_axis, figure, line, time_axis, when
from famulus.pipeline.report.timeline import Timeline, middle_ns, quantile_ns
from famulus.pipeline.report.words import NS_PER_S, count, duration_ns, duration_s

QUANTILES: Final = (("p50", 500_000), ("p90", 900_000), ("p99", 990_000), ("p99.9", 999_000))
#: Buckets of the histograms that make one row of the heat map: four rows for each e-fold.
BUCKETS_PER_ROW: Final = 4


def latency(timeline: Timeline | None) -> Safe:
    lead = "From arrival to the end, as seen by the broker that the client had asked. To within 3.5 %."
    if timeline is None or not timeline.histograms["total_hist"].any():
        return section("latency", "Latency", lead, nothing("No tasks in this span."))
    return section("latency", "Latency", lead, _percentiles(timeline), _heat(timeline), _by_service(timeline))


def _seconds(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(value) / NS_PER_S for value in values]


def _percentiles(timeline: Timeline) -> Safe:
    whole = timeline.histograms["total_hist"].sum(axis=0)
    x = [when(at) for at in timeline.axis.starts()]
    traces, known = [], []
    for number, (name, ppm) in enumerate(QUANTILES):
        values = quantile_ns(whole, ppm)
        known += [float(value) for value in values if not np.isnan(value)]
        words = [duration_ns(None if np.isnan(value) else float(value)) for value in values]
        traces.append(line(name, number, x, _seconds(values), "%{text}", text=words))
    axis = duration_axis(min(known) / NS_PER_S, max(known) / NS_PER_S)
    says = f"What that many of 100 tasks do not exceed, in steps of {duration_s(timeline.axis.seconds)}."
    rows = [[name, _text(whole.sum(axis=0), ppm)] for name, ppm in QUANTILES]
    instead = table("Over the whole span", [Head("Percentile"), Head("Total time", True)], rows)
    return figure(Plot("Percentiles over time", says, traces, {"xaxis": time_axis(), "yaxis": axis}), instead)


def _text(histogram: np.ndarray, ppm: int) -> str:
    value = float(quantile_ns(histogram, ppm))
    return duration_ns(None if np.isnan(value) else value)


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
        "x": [when(at) for at in timeline.axis.starts()],
        "y": [float(value) for value in middles],
        # Of each step its own 100 %: so a quiet night is as readable as a busy day. Nothing stays blank.
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
    return figure(Plot("Where the tasks lie", says, [trace], layout, 340), instead)


def _by_service(timeline: Timeline) -> Safe:
    x = [when(at) for at in timeline.axis.starts()]
    traces, rows, known = [], [], []
    for number, service in enumerate(timeline.services):
        values = quantile_ns(timeline.histograms["total_hist"][number], 990_000)
        known += [float(value) for value in values if not np.isnan(value)]
        words = [duration_ns(None if np.isnan(value) else float(value)) for value in values]
        traces.append(line(service, number, x, _seconds(values), "p99 %{text}", text=words))
        cells = [_text(timeline.histograms[of][number].sum(axis=0), ppm)
                 for of in ("queue_hist", "service_hist", "total_hist") for ppm in (500_000, 990_000)]  # fmt: skip
        rows.append([service, *cells])
    axis = duration_axis(min(known) / NS_PER_S, max(known) / NS_PER_S)
    heads = [
        Head("Service"),
        *(Head(f"{of} {name}", True) for of in ("wait", "service", "total") for name in ("p50", "p99")),
    ]
    says = "The 99th percentile of each service's total time."
    plot = Plot("By service", says, traces, {"xaxis": time_axis(), "yaxis": axis})
    return figure(plot, table("Percentiles over the whole span", heads, rows))
