"""The page of a contest: throughput and CPU time as bars, the ratios, who was absent. Measures nothing."""

from __future__ import annotations

import shlex
from typing import Any

from famulus.lab.bench.latency_page import machine_text
from famulus.lab.bench.peers import ours
from famulus.lab.bench.peers.side import ALL_SIDES, MIB, PAIRS, Side
from famulus.pipeline.report.document import document
from famulus.pipeline.report.html import NOTHING, Head, Safe, badge, code, joined, nothing, section, table
from famulus.pipeline.report.plot import figure, label
from famulus.pipeline.report.words import NS_PER_S, duration_ns

FOOTER = "Made by famulus bench peers."
US = NS_PER_S / 1e6
#: Bars more than this many times as long as our shortest are cut off: otherwise nothing would be left of the others.
CUT = 8.0


def page(result: dict[str, Any]) -> str:
    """`result` is what `famulus bench peers --json` prints."""
    rounds = result["plan"]["rounds"]
    lead = (
        "The same echo through each of them: one server, one worker, one client, all on one machine, in turn. A bar is "
        f"the median of {'1 round' if rounds == 1 else f'{rounds} rounds'}; the thin line on it goes from the least to "
        "the largest. A bar that reaches the edge is longer than there is room."
    )
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    throughput = "Tasks per second. Longer is better; each group has a scale of its own."
    cpu = "Of server, worker and client together. Shorter is better. The full colour is the server's part."
    ratio = "Our median throughput over theirs: above 1 Famulus is faster. The range is that of single rounds."
    sections = (
        section("contest", "The contest", lead, code(command(result["plan"]))),
        section("throughput", "Throughput", throughput, *charts(result, "rate")),
        section("cpu", "CPU time per task", cpu, *charts(result, "cpu_us_all")),
        section("ratios", "Ratios", ratio, ratios(result)),
        absent(result["absent"]),
    )
    return document("Famulus beside other brokers", machine_text(result), joined(sections), f"{versions}. {FOOTER}")


def command(plan: dict[str, Any]) -> str:
    """The command that was run, in a form that can be run again."""
    options = ["--seconds", f"{plan['seconds']:g}", "--rounds", str(plan["rounds"]), "--size", str(plan["size"])]
    only = [word for name in plan["only"] for word in ("--only", name)]
    secure = ["--secure"] if plan["secure"] else []
    return shlex.join(["famulus", "bench", "peers", *options, *only, *secure])


def charts(result: dict[str, Any], of: str) -> list[Safe]:
    """A chart for each kind, the best on top."""
    medians, made = result["medians"], []
    for kind, names in kinds(medians, result["plan"]["size"]).items():
        best = sorted(names, key=lambda name: float(medians[name][of]), reverse=of == "rate")
        made.append(bars(kind, of, {name: medians[name] for name in best}, result["spread"]))
    return made or [nothing("Nobody was measured.")]


def kinds(medians: dict[str, Any], size: int) -> dict[str, list[str]]:
    """Sides that can be compared with each other, by what they have in common."""
    found: dict[str, list[str]] = {}
    for name, side in ALL_SIDES.items():
        if name in medians:
            found.setdefault(kind_of(side, size), []).append(name)
    return found


def kind_of(side: Side, size: int) -> str:
    length = "1 MiB" if (side.size or size) == MIB else f"{side.size or size:,} bytes"
    return f"{'One' if side.window == 1 else f'{side.window:,}'} in flight, {length}"


def bars(kind: str, of: str, medians: dict[str, dict[str, float]], spread: dict[str, Any]) -> Safe:
    """`of`: the figure that determines the length. Each name comes with its value, since the bar may be cut off."""
    values = [each[of] for each in medians.values()]
    # Each median is taken on its own: the part may come from a round in which the whole was larger.
    parts = values if of == "rate" else [min(each["cpu_us_server"], each[of]) for each in medians.values()]
    said = [f"{value:,.0f}" if of == "rate" else duration_ns(value * US) for value in values]
    names = [f"{label(name)}<br>{text}" for name, text in zip(medians, said, strict=True)]
    extremes = [spread[name][of] for name in medians]
    whisker = {
        "type": "data",
        "array": [each["max"] - value for each, value in zip(extremes, values, strict=True)],
        "arrayminus": [value - each["min"] for each, value in zip(extremes, values, strict=True)],
        "color": "$ink",
        "thickness": 1,
        "width": 4,
    }
    colours = ["$c0" if is_ours(name) else "$soft" for name in medians]
    shape = {"type": "bar", "orientation": "h", "y": names, "hovertemplate": "%{y}<extra></extra>"}
    traces = [
        {**shape, "x": parts, "marker": {"color": colours}},
        {**shape, "x": values, "marker": {"color": colours, "opacity": 0.4}, "error_x": whisker},
    ]
    layout = {
        "barmode": "overlay",
        "showlegend": False,
        "xaxis": {"range": [0, longest(medians, extremes, of)], "ticksuffix": "" if of == "rate" else " µs"},
        "yaxis": {"type": "category", "autorange": "reversed"},
    }
    instead = table(kind, [Head("Side"), Head("Median", True)], list(zip(medians, said, strict=True)))
    return figure(kind, "", traces, layout, height=60 + 44 * len(names), instead=instead)


def longest(medians: dict[str, dict[str, float]], extremes: list[dict[str, float]], of: str) -> float:
    """The value at the right edge."""
    most = max(each["max"] for each in extremes)
    bound = CUT * min((each[of] for name, each in medians.items() if is_ours(name)), default=most)
    # All zeros need a width too. A little more than the longest, for the end of its whisker.
    return min(1.02 * most, bound) or 1.0


def is_ours(name: str) -> bool:
    return ALL_SIDES[name].peer.name == ours.PEER.name


def ratios(result: dict[str, Any]) -> Safe:
    if not result["ratios"]:
        return nothing("No two sides that are compared were both measured.")
    rows = []
    for name, ratio in result["ratios"].items():
        one, other = PAIRS[name]
        extremes = result["ratio_spread"][name]
        verdict = badge(short_ratio(ratio), "good" if ratio >= 1 else "bad")
        rows.append([f"{one} / {other}", verdict, f"{short_ratio(extremes['min'])} to {short_ratio(extremes['max'])}"])
    return table("Ours over theirs", [Head("ours / theirs"), Head("ratio", True), Head("range", True)], rows)


def short_ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def absent(reasons: dict[str, str]) -> Safe:
    if not reasons:
        return NOTHING
    return section("absent", "Absent", "", table("Who was not there", [Head("Who"), Head("Why")], [*reasons.items()]))
