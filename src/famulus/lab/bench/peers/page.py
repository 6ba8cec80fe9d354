"""The page of a contest: throughput and CPU time as bars, the ratios, who was absent. Measures nothing."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from html import escape
from typing import Any

from famulus.lab.bench.latency_page import document, html_table, machine_text, time_text
from famulus.lab.bench.peers import ours
from famulus.lab.bench.peers.bars import Bar, bars
from famulus.lab.bench.peers.side import MIB, PAIRS, SIDES, Side

#: One side's name, its medians and its spread make a bar.
Draw = Callable[[str, dict[str, float], dict[str, dict[str, float]]], Bar]


def page(result: dict[str, Any]) -> str:
    """`result` is what `famulus bench peers --json` prints."""
    rounds = result["plan"]["rounds"]
    times = "1 round" if rounds == 1 else f"{rounds} rounds"
    return document(
        "Famulus beside other brokers",
        "peers",
        "bars.css",
        times=times,
        command=escape(command(result["plan"])),
        machine=escape(machine_text(result)),
        throughput=charts(result, "Tasks per second", throughput, best_is_most=True),
        cpu_time=charts(result, "CPU time per task", cpu_time, best_is_most=False),
        ratios=ratios(result),
        absent=absent(result["absent"]),
        versions=escape(", ".join(f"{name} {version}" for name, version in result["versions"].items())),
    )


def command(plan: dict[str, Any]) -> str:
    """What was asked for, in a form that can be asked for again."""
    options = ["--seconds", f"{plan['seconds']:g}", "--rounds", str(plan["rounds"]), "--size", str(plan["size"])]
    only = [word for name in plan["only"] for word in ("--only", name)]
    return shlex.join(["famulus", "bench", "peers", *options, *only])


def charts(result: dict[str, Any], title: str, draw: Draw, *, best_is_most: bool) -> str:
    """A chart for each kind, the best on top."""
    figures = []
    for kind, names in kinds(result["medians"], result["plan"]["size"]).items():
        rows = [draw(name, result["medians"][name], result["spread"][name]) for name in names]
        rows.sort(key=lambda row: row.value, reverse=best_is_most)
        figures.append(f"<figure>\n<h3>{escape(kind)}</h3>\n{bars(f'{title}, {kind}', rows)}\n</figure>")
    return '<div class="plots">\n' + "\n".join(figures) + "\n</div>" if figures else "<p>Nobody was measured.</p>"


def kinds(medians: dict[str, Any], size: int) -> dict[str, list[str]]:
    """Sides that can be compared with each other, by what they have in common."""
    found: dict[str, list[str]] = {}
    for name, side in SIDES.items():
        if name in medians:
            found.setdefault(kind_of(side, size), []).append(name)
    return found


def kind_of(side: Side, size: int) -> str:
    length = "1 MiB" if (side.size or size) == MIB else f"{side.size or size:,} bytes"
    return f"{'One' if side.window == 1 else f'{side.window:,}'} in flight, {length}"


def throughput(name: str, medians: dict[str, float], spread: dict[str, dict[str, float]]) -> Bar:
    rate, text = medians["rate"], f"{medians['rate']:,.0f}"
    return Bar(name, rate, text, spread["rate"]["min"], spread["rate"]["max"], rate, is_ours(name))


def cpu_time(name: str, medians: dict[str, float], spread: dict[str, dict[str, float]]) -> Bar:
    whole, server = medians["cpu_us_all"], medians["cpu_us_server"]
    text = f"{time_text(whole)}, server {time_text(server)}"
    extremes = spread["cpu_us_all"]
    # Medians are taken one by one: the part may be of a round in which the whole was larger.
    return Bar(name, whole, text, extremes["min"], extremes["max"], min(server, whole), is_ours(name))


def is_ours(name: str) -> bool:
    return SIDES[name].peer is ours.PEER


def ratios(result: dict[str, Any]) -> str:
    if not result["ratios"]:
        return "<p>No two sides that are compared were both measured.</p>"
    rows = []
    for name, ratio in result["ratios"].items():
        one, other = PAIRS[name]
        extremes = result["ratio_spread"][name]
        verdict = "win" if ratio >= 1 else "loss"
        rows.append(
            [
                f"<td>{escape(one)} / {escape(other)}</td>",
                f'<td class="{verdict}">{short_ratio(ratio)}</td>',
                f"<td>{short_ratio(extremes['min'])} to {short_ratio(extremes['max'])}</td>",
            ]
        )
    return html_table(("ours / theirs", "ratio", "range"), rows)


def short_ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def absent(reasons: dict[str, str]) -> str:
    if not reasons:
        return ""
    rows = "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(reason)}</dd>" for name, reason in reasons.items())
    return f"<h2>Absent</h2>\n<dl>\n{rows}\n</dl>"
