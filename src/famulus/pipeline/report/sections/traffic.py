"""How much was asked, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from famulus.pipeline.histogram import quantile_of
from famulus.pipeline.report.html import Head, Safe, nothing, section, table
from famulus.pipeline.report.plot import figure, label, line, time_axis
from famulus.pipeline.report.timeline import Timeline
from famulus.pipeline.report.words import count, duration_ns, duration_s, instant, rate, share

NOT_OK: Final = (("errors", "ERROR"), ("rejected", "REJECTED"), ("unknown", "UNKNOWN"))
#: Rows of the table that replaces a plot over time.
TABLE_BINS: Final = 24


def traffic(timeline: Timeline | None) -> Safe:
    lead = "Tasks that ended, by service and outcome. A task that was handed over counts once."
    if timeline is None:
        return section("traffic", "Traffic", lead, nothing("No tasks in this span."))
    return section("traffic", "Traffic", lead, _services(timeline), _rates(timeline), _failures(timeline))


def _services(timeline: Timeline) -> Safe:
    heads = [Head("Service"), *(Head(name, True) for name in
             ("Tasks", "OK", "ERROR", "REJECTED", "UNKNOWN", "Retries", "p50", "p99", "p99 wait"))]  # fmt: skip
    rows = []
    for number, service in enumerate(timeline.services):
        counts = {name: int(each[number].sum()) for name, each in timeline.counts.items()}
        total, queue = (timeline.histograms[name][number].sum(axis=0) for name in ("total_hist", "queue_hist"))
        rows.append([
            service, count(counts["tasks"]), share(counts["ok"] / counts["tasks"], 2) if counts["tasks"] else "–",
            count(counts["errors"]), count(counts["rejected"]), count(counts["unknown"]), count(counts["retries"]),
            *(duration_ns(quantile_of(*of)) for of in ((total, 500_000), (total, 990_000), (queue, 990_000))),
        ])  # fmt: skip
    return table("Services, busiest first", heads, rows)


def _rates(timeline: Timeline) -> Safe:
    x = [instant(at) for at in timeline.axis.starts()]
    per_s = timeline.counts["tasks"] / timeline.axis.seconds
    traces = [
        line(service, number, x, per_s[number].tolist(), "%{y:.3~g} tasks/s")
        for number, service in enumerate(timeline.services)
    ]
    layout = {"xaxis": time_axis(), "yaxis": {"title": {"text": "tasks per second"}, "rangemode": "tozero"}}
    says = f"Tasks per second of each service, in steps of {duration_s(timeline.axis.seconds)}."
    rows = [[stamp, *(rate(value) for value in values)] for stamp, values in _decimated(timeline, per_s, np.mean)]
    heads = [Head("From (UTC)"), *(Head(service, True) for service in timeline.services)]
    return figure("Rate", says, traces, layout, instead=table("Tasks per second", heads, rows))


def _failures(timeline: Timeline) -> Safe:
    x = [instant(at) for at in timeline.axis.starts()]
    sums = np.stack([timeline.counts[name].sum(axis=0) for name, _ in NOT_OK])
    tasks = timeline.total("tasks")
    if not sums.any():
        return nothing(f"All {count(tasks)} tasks ended OK.")
    traces = [
        {
            "type": "bar", "name": label(name), "x": x, "y": sums[number].tolist(),
            "marker": {"color": f"$o{number}", "pattern": {"shape": ("", "/", "x")[number], "fillmode": "overlay"},
                       "line": {"width": 0}},
            "hovertemplate": "%{x}<br>%{y:,} tasks<extra>%{fullData.name}</extra>",
        }
        for number, (_, name) in enumerate(NOT_OK) if sums[number].any()
    ]  # fmt: skip
    layout = {"xaxis": time_axis(), "yaxis": {"title": {"text": "tasks"}}, "barmode": "stack", "bargap": 0.08}
    says = f"{count(int(sums.sum()))} of {count(tasks)} tasks, in steps of {duration_s(timeline.axis.seconds)}."
    rows = [[stamp, *(count(float(value)) for value in values)] for stamp, values in _decimated(timeline, sums, np.sum)]
    heads = [Head("From (UTC)"), *(Head(name, True) for _, name in NOT_OK)]
    instead = table("Tasks", heads, rows)
    return figure("Tasks that did not end OK", says, traces, layout, height=260, instead=instead)


def _decimated(
    timeline: Timeline, values: np.ndarray, reduce: Callable[..., np.ndarray]
) -> list[tuple[str, np.ndarray]]:
    """At most TABLE_BINS rows: the bins of a plot, several put together."""
    step = -(-timeline.axis.bins // TABLE_BINS)
    starts = timeline.axis.starts()
    return [
        (f"{starts[first]:%Y-%m-%d %H:%M}", reduce(values[:, first : first + step], axis=1))
        for first in range(0, timeline.axis.bins, step)
    ]
