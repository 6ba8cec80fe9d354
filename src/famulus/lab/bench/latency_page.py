"""The page of a latency measurement: two plots and the figures, in one file without scripts. Measures nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from famulus.lab.bench.buckets import MILLION, PERCENTILES, LatencyBuckets
from famulus.lab.bench.plot import LINES_MAX, Line, linear_axis, log_axis, plot

NS_PER_US = 1000.0
STATIC = Path(__file__).parent / "static"


def page(result: dict[str, Any]) -> str:
    """`result` is what `famulus bench latency --json` prints."""
    saturation = result.get("saturation_per_s")
    measured = f" A closed loop reached {saturation:,.0f} tasks/s." if saturation else ""
    rates = result["rates"]
    return document(
        "Famulus: latency at fixed rates",
        "latency",
        measured=measured,
        machine=escape(machine_text(result)),
        over_rate=over_rate(rates),
        distribution=distribution(rates),
        table=table(rates),
    )


def document(title: str, name: str, *styles: str, **parts: str) -> str:
    """A page of a measurement: the body of this name with its parts, which are HTML already.

    `styles` are the files that it needs beyond the shared one.
    """
    style = "".join(_static(each) for each in ("page.css", *styles))
    body = _static(f"{name}.html").format(**parts)
    return _static("document.html").format(title=escape(title), style=style, body=body)


def _static(name: str) -> str:
    return (STATIC / name).read_text("utf-8")


def machine_text(result: dict[str, Any]) -> str:
    """The machine that it was measured on, as one would say it."""
    said = {"cores": "{} cores", "machine": "{}", "python": "Python {}", "pump": "{} pump"}
    return ", ".join(how.format(result[name]) for name, how in said.items() if name in result)


def over_rate(rates: list[dict[str, Any]]) -> str:
    lines = []
    for name in PERCENTILES:
        known = [(rate["rate"], rate["latency_ns"][name]) for rate in rates if rate["latency_ns"][name]]
        lines.append(Line(name, [(per_s, value / NS_PER_US) for per_s, value in sorted(known)]))
    values = [value for line in lines for _, value in line.points] or [1.0]
    x = linear_axis("tasks per second", max((rate["rate"] for rate in rates), default=1.0), short)
    y = log_axis("latency", min(values), max(values), time_text)
    return plot("Percentiles of the latency over the rate", x, y, lines)


def distribution(rates: list[dict[str, Any]]) -> str:
    """As HdrHistogram draws it: to the right by how rare it is, so that the tail has as much room as the middle."""
    lines = [Line(short(rate["rate"]) + "/s", tail(_buckets(rate))) for rate in _chosen(rates)]
    points = [point for line in lines for point in line.points] or [(10.0, 1.0)]
    x = log_axis("share of tasks that are faster", 1.0, max(rarity for rarity, _ in points), share_text)
    y = log_axis("latency", min(value for _, value in points), max(value for _, value in points), time_text)
    return plot("Distribution of the latency for each rate", x, y, lines)


def tail(latencies: LatencyBuckets) -> list[tuple[float, float]]:
    """(rarity, microseconds): one task in `rarity` takes that long or longer. The slowest task of all is the end."""
    total = len(latencies)
    points: list[tuple[float, float]] = []
    before = 0
    for value, seen in latencies.cumulated():
        points.append((total / (total - before), value / NS_PER_US))
        before = seen
    return points


def _chosen(rates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many as a plot can hold, spread evenly from the lowest to the highest."""
    ordered = sorted(rates, key=lambda rate: float(rate["rate"]))
    if len(ordered) <= LINES_MAX:
        return ordered
    return [ordered[number * (len(ordered) - 1) // (LINES_MAX - 1)] for number in range(LINES_MAX)]


def _buckets(rate: dict[str, Any]) -> LatencyBuckets:
    return LatencyBuckets(dict(rate["buckets"]["counts"]), rate["buckets"]["highest"])


def table(rates: list[dict[str, Any]]) -> str:
    names = [*PERCENTILES, "max"]
    rows = []
    for rate in rates:
        failed = ", ".join(f"{count:,} {name}" for name, count in rate["outcomes"].items() if name != "OK")
        latencies = [ns_text(rate["latency_ns"][name]) for name in names]
        cells = [f"{rate['rate']:,.0f}", f"{rate['offered']:,}", *latencies, failed or "0"]
        rows.append([f"<td>{escape(cell)}</td>" for cell in cells])
    return html_table(("tasks/s", "tasks", *names, "not OK"), rows)


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The cells of the rows are elements already. On a narrow screen it can be moved sideways."""
    lines = [[f"<th>{escape(head)}</th>" for head in heads], *rows]
    body = "\n".join(f"<tr>{''.join(cells)}</tr>" for cells in lines)
    return f'<div class="wide">\n<table>\n{body}\n</table>\n</div>'


def short(value: float) -> str:
    return f"{value / 1000:.3g}k" if value >= 10_000 else f"{value:,.0f}"


def ns_text(nanoseconds: int | None) -> str:
    return "–" if nanoseconds is None else time_text(nanoseconds / NS_PER_US)


def time_text(microseconds: float) -> str:
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3g} {unit}"
    return f"{microseconds:.3g} µs"


def share_text(rarity: float) -> str:
    """1 in 1,000 is slower: 99.9 % are faster."""
    ppm = MILLION - MILLION / rarity
    return f"{ppm / 10_000:g}%"
