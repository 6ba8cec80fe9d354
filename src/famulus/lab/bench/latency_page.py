"""The page of a latency measurement: two plots and the figures. Measures nothing."""

from __future__ import annotations

from itertools import chain
from typing import Any

from famulus.lab.bench.buckets import MILLION, PERCENTILES, LatencyBuckets
from famulus.pipeline.report.document import document
from famulus.pipeline.report.html import Head, Safe, section, table
from famulus.pipeline.report.plot import duration_axis, figure, line
from famulus.pipeline.report.words import NS_PER_S, duration_ns, duration_s, rate

LEAD = (
    "One broker, one worker that echoes, one client that sends on schedule whatever comes back. Latency counts from "
    "the instant at which a task was due, not from when it left, so a stall counts for every task that it held up."
)
FOOTER = "Made by famulus bench latency."
#: Where a logarithmic axis ends if there is nothing to draw.
NOTHING_S = (1e-6, 1.0)

#: (x, seconds)
Points = list[tuple[float, float]]


def page(result: dict[str, Any]) -> str:
    """`result` is what `famulus bench latency --json` prints."""
    saturation = result.get("saturation_per_s")
    reached = f" A closed loop reached {saturation:,.0f} tasks/s." if saturation else ""
    rates = sorted(result["rates"], key=lambda each: float(each["rate"]))
    parts = (over_rate(rates), distribution(rates), figures(rates))
    return document(
        "Famulus: latency at fixed rates",
        machine_text(result),
        section("latency", "Latency", LEAD + reached, *parts),
        FOOTER,
    )


def machine_text(result: dict[str, Any]) -> str:
    """The machine that it was measured on, in words."""
    said = {"cores": "{} cores", "machine": "{}", "python": "Python {}", "pump": "{} pump"}
    return ", ".join(how.format(result[name]) for name, how in said.items() if name in result)


def over_rate(rates: list[dict[str, Any]]) -> Safe:
    lines = {
        name: [(each["rate"], ns / NS_PER_S) for each in rates if (ns := each["latency_ns"][name])]
        for name in PERCENTILES
    }
    says = "Each line is the latency that this many of 100 tasks do not exceed."
    x = {"title": {"text": "tasks per second"}, "rangemode": "tozero"}
    return _lines("Percentiles over the rate", says, lines, x, "%{x:,.0f} tasks/s")


def distribution(rates: list[dict[str, Any]]) -> Safe:
    """As HdrHistogram draws it: the x axis is how rare it is, so that the tail has as much room as the middle."""
    lines = {rate(each["rate"]): tail(_buckets(each)) for each in rates}
    says = "Each line is a rate. The further to the right, the rarer the tasks that take that long."
    decades = [10.0**decade for decade in range(10)]
    shares = {"tickvals": decades, "ticktext": [share_text(each) for each in decades]}
    x = {"title": {"text": "share of tasks that are faster"}, "type": "log", **shares}
    return _lines("Distribution of latency", says, lines, x, "1 of %{x:,.0f} tasks")


def tail(latencies: LatencyBuckets) -> Points:
    """(rarity, seconds): one task in `rarity` takes that long or longer. The last point is the slowest task of all."""
    total = len(latencies)
    points: Points = []
    before = 0
    for value, seen in latencies.cumulated():
        points.append((total / (total - before), value / NS_PER_S))
        before = seen
    return points


def _lines(title: str, says: str, lines: dict[str, Points], x: dict[str, Any], where: str) -> Safe:
    traces = [
        line(
            name,
            number,
            [at for at, _ in points],
            [seconds for _, seconds in points],
            "",
            mode="lines+markers" if len(points) <= 12 else "lines",
            text=[duration_s(seconds) for _, seconds in points],
            hovertemplate=f"{where}<br>%{{text}}<extra>%{{fullData.name}}</extra>",
        )
        for number, (name, points) in enumerate(lines.items())
    ]
    seconds = [seconds for _, seconds in chain(*lines.values())] or NOTHING_S
    layout = {"xaxis": x, "yaxis": duration_axis(min(seconds), max(seconds))}
    return figure(title, says, traces, layout, height=380)


def _buckets(each: dict[str, Any]) -> LatencyBuckets:
    return LatencyBuckets(dict(each["buckets"]["counts"]), each["buckets"]["highest"])


def figures(rates: list[dict[str, Any]]) -> Safe:
    names = [*PERCENTILES, "max"]
    rows = []
    for each in rates:
        failed = ", ".join(f"{count:,} {name}" for name, count in each["outcomes"].items() if name != "OK")
        latencies = [duration_ns(each["latency_ns"][name]) for name in names]
        rows.append([f"{each['rate']:,.0f}", f"{each['offered']:,}", *latencies, failed or "0"])
    return table("Figures", [Head("tasks/s"), *(Head(name, True) for name in ("tasks", *names, "not OK"))], rows)


def share_text(rarity: float) -> str:
    """1 in 1,000 is slower: 99.9 % are faster."""
    return f"{(MILLION - MILLION / rarity) / 10_000:g}%"
