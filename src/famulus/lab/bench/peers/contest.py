"""The rounds: all sides in turn, each with its own server, worker and client processes."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from famulus.errors import BenchFailed
from famulus.lab.bench.figures import Figures
from famulus.lab.bench.fleet import Crew
from famulus.lab.bench.meter import Order
from famulus.lab.bench.peers import ours
from famulus.lab.bench.peers.peer import UVLOOP, absence
from famulus.lab.bench.peers.side import PAIRS, Side
from famulus.lab.bench.peers.summary import summary


@dataclass(frozen=True, slots=True)
class Plan:
    seconds: float = 3.0
    rounds: int = 5
    size: int = 100


def contest(plan: Plan, sides: Mapping[str, Side], tell: Callable[[str], None]) -> dict[str, Any]:
    """Whatever else this machine does hits all sides alike, since they take turns."""
    absent = absent_peers(sides)
    for name, reason in absent.items():
        tell(f"{name} is absent: {reason}")
    present = {name: side for name, side in sides.items() if side.peer.name not in absent}
    rounds: dict[str, list[Figures]] = {name: [] for name in present}
    for number in range(plan.rounds):
        # The order alternates, so that a machine that becomes slower or faster favours nobody.
        for name in list(rounds) if number % 2 == 0 else list(reversed(rounds)):
            try:
                figures = one_round(plan, present[name])
            except BenchFailed as failure:
                if present[name].peer.name == ours.PEER.name:
                    raise
                absent[name] = f"failed: {failure}"
                del rounds[name]
                tell(f"{name} {absent[name]}")
                continue
            rounds[name].append(figures)
            tell(f"{number + 1}/{plan.rounds} {name:27} {figures['rate']:9,.0f} tasks/s  p99 {figures['p99']:9,.0f} us")
    return {**summary(rounds, PAIRS), "absent": absent, "versions": versions(present), "rounds": rounds}


def absent_peers(sides: Mapping[str, Side]) -> dict[str, str]:
    """By name, with the reason. Without uvloop everything is still measured, on the loop of the standard library."""
    wanted = {side.peer.name: side.peer.needs for side in sides.values()} | {"uvloop": UVLOOP}
    reasons = {name: absence(needs) for name, needs in wanted.items()}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def versions(sides: Mapping[str, Side]) -> dict[str, str]:
    """Of the libraries that took part, by their names in pip."""
    needs = [side.peer.needs for side in sides.values()] + [UVLOOP]
    wanted = {"pyzmq"}.union(*(each.libraries.values() for each in needs))
    known = {each.metadata["Name"].lower(): each.version for each in importlib.metadata.distributions()}
    return {name: known[name] for name in sorted(wanted) if name in known}


def one_round(plan: Plan, side: Side) -> Figures:
    with Crew() as crew:
        address = side.peer.start(crew, side.window)
        order = Order(address, side.window, side.size or plan.size, plan.seconds, side.style, crew.families())
        return order.carry_out(crew, side.peer.name)
