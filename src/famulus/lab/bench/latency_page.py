"""The page of a latency measurement: two plots and the figures, in one file without scripts. Measures nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from famulus.lab.bench.buckets import MILLION, PERCENTILES, LatencyBuckets
from famulus.lab.bench.plot import LINES_MAX, Line, linear_axis, log_axis, plot

NS_PER_US = 1000.0

STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --soft: #626a73; --grid: #dfe3e8; --paper: #fff;
  --c0: #0b62c4; --c1: #b4490a; --c2: #1a7f43; --c3: #8a2be2; --c4: #b3134f; --c5: #5b5f00 }
@media (prefers-color-scheme: dark) { :root { --ink: #e7eaee; --soft: #9aa4af; --grid: #333a42; --paper: #14171a;
  --c0: #6db3ff; --c1: #ffa25e; --c2: #5fd68c; --c3: #c79bff; --c4: #ff7fae; --c5: #d6d65a } }
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --grid: #ccc; --paper: #fff;
  --c0: #0b62c4; --c1: #b4490a; --c2: #1a7f43; --c3: #8a2be2; --c4: #b3134f; --c5: #5b5f00 }
  figure, table { break-inside: avoid } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1rem; max-width: 68rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem; line-height: 1.2 } h2 { font-size: 1.1rem; margin: 0 } p { max-width: 44rem }
.plots + h2 { margin-top: 2rem }
.plots { display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)) }
figure { margin: 0 } figcaption { color: var(--soft); font-size: .9rem }
svg { width: 100%; height: auto; display: block; font: 11px system-ui, sans-serif }
svg text { fill: var(--ink) } svg .tick { fill: var(--soft); font-size: 10px }
.grid { stroke: var(--grid); fill: none } .axis { stroke: var(--soft); fill: none }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round }
.line-0 { stroke: var(--c0) } .line-1 { stroke: var(--c1); stroke-dasharray: 7 2 }
.line-2 { stroke: var(--c2); stroke-dasharray: 4 2 } .line-3 { stroke: var(--c3); stroke-dasharray: 2 2 }
.line-4 { stroke: var(--c4); stroke-dasharray: 8 2 2 2 } .line-5 { stroke: var(--c5); stroke-dasharray: 1 3 }
.dot-0, svg .name-0 { fill: var(--c0) } .dot-1, svg .name-1 { fill: var(--c1) } .dot-2, svg .name-2 { fill: var(--c2) }
.dot-3, svg .name-3 { fill: var(--c3) } .dot-4, svg .name-4 { fill: var(--c4) } .dot-5, svg .name-5 { fill: var(--c5) }
.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--grid); white-space: nowrap }
""".strip()


def page(result: dict[str, Any]) -> str:
    """`result` is what `famulus bench latency --json` prints."""
    saturation = result.get("saturation_per_s")
    measured = f" A closed loop reached {saturation:,.0f} tasks/s." if saturation else ""
    body = f"""<h1>Latency at fixed rates</h1>
<p>One broker, one worker that echoes, one client that sends on schedule whatever comes back. Latency counts from the
instant at which a task was due, not from when it left, so a stall counts for every task that it held up.{measured}</p>
<p>{escape(machine_text(result))}</p>
<div class="plots">
<figure>
<h2>Percentiles over the rate</h2>
{over_rate(result["rates"])}
<figcaption>Each line is the latency that this many of 100 tasks do not exceed.</figcaption>
</figure>
<figure>
<h2>Distribution of latency</h2>
{distribution(result["rates"])}
<figcaption>Each line is a rate. The further to the right, the rarer the tasks that take that long.</figcaption>
</figure>
</div>
<h2>Figures</h2>
{table(result["rates"])}"""
    return document("Famulus: latency at fixed rates", body)


def document(title: str, body: str, style: str = "") -> str:
    """The frame of any page of a measurement; `style` is what it needs beyond the shared one."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{STYLE}
{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def machine_text(result: dict[str, Any]) -> str:
    """What `famulus.lab.bench.machine` knows, as one would say it."""
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
    return LatencyBuckets.read(rate["buckets"]["counts"], rate["buckets"]["highest"])


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
