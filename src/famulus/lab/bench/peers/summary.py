"""Arithmetic of a contest: medians, spread and ratios. Knows no processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from famulus.lab.bench.figures import Figures, median_of

Rounds = Mapping[str, list[Figures]]
Pairs = Mapping[str, tuple[str, str]]


def summary(rounds: Rounds, pairs: Pairs) -> dict[str, Any]:
    medians = {side: median_of(each) for side, each in rounds.items()}
    return {
        "ratios": ratios(medians, pairs),
        "ratio_spread": ratio_spread(rounds, pairs),
        "p99_1": p99_1(medians),
        "broker_cpu_us": broker_cpu_us(medians),
        "medians": medians,
        "spread": {side: spread(each) for side, each in rounds.items()},
    }


def ratios(medians: Mapping[str, Figures], pairs: Pairs) -> dict[str, float]:
    """Our median throughput over theirs, for each pair that was measured."""
    return {
        name: medians[ours]["rate"] / medians[theirs]["rate"]
        for name, (ours, theirs) in pairs.items()
        if ours in medians and theirs in medians
    }


def ratio_spread(rounds: Rounds, pairs: Pairs) -> dict[str, Figures]:
    """The least and the largest ratio within one round: how far a ratio can be trusted."""
    found = {}
    for name, (ours, theirs) in pairs.items():
        each = [a["rate"] / b["rate"] for a, b in zip(rounds.get(ours, []), rounds.get(theirs, []), strict=False)]
        if each:
            found[name] = {"min": min(each), "max": max(each)}
    return found


def spread(rounds: list[Figures]) -> dict[str, Figures]:
    """The least and the largest of each figure."""
    return {
        name: {"min": min(each[name] for each in rounds), "max": max(each[name] for each in rounds)}
        for name in rounds[0]
    }


def p99_1(medians: Mapping[str, Figures]) -> dict[str, float]:
    """Microseconds in which 99 of 100 tasks are answered, with one of them in flight."""
    sides = {"famulus": "famulus_request_1", "nats": "nats_request_1"}
    return {peer: medians[side]["p99"] for peer, side in sides.items() if side in medians}


def broker_cpu_us(medians: Mapping[str, Figures]) -> float | None:
    """CPU time of all processes of our broker per task, with 1000 of them in flight."""
    for side in ("famulus_map_1000", "famulus_request_1000"):
        if side in medians:
            return medians[side]["cpu_us_server"]
    return None
