"""`famulus bench scale`: what a task costs the broker as the crowd around it grows.

Each crowd has a broker of its own, and all of them are up during the whole run: so the steps can be measured in turn,
round by round, and whatever else this machine does hits all of them alike. What counts is the CPU time of the broker,
which says what it does; the rate says more about the two crowds that share these cores with it.

Where there is a nats-server, it goes through the same steps, but for long bodies: each of its connections, too, is
written to by itself.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise, product
from typing import Any

from famulus.lab.bench import descriptors
from famulus.lab.bench.callers import Answers
from famulus.lab.bench.figures import median_of
from famulus.lab.bench.fleet import Crew
from famulus.lab.bench.sides import Side, famulus_side, nats_absence, nats_side
from famulus.lab.bench.steps import Gathering, Limits, Step, gatherings, plan

#: The aim is not to exceed this from the fewest to the most workers that are merely connected.
GROWTH_MAX = 1.3
#: The smallest crowd has room for the whole window, and no worker of it more than a fair part.
SLOTS = 10
#: While nobody asks, the CPU time is looked at so often.
LOOK_S = 1.0

OURS = "famulus"
NATS = "nats"
SERVERS = {OURS: famulus_side, NATS: nats_side}
#: What the result calls the growth of an axis.
GROWTHS = {
    "growth": "workers",
    "growth_connected": "connected",
    "growth_connections": "connections",
    "growth_connections_idle": "connections_idle",
}

Tell = Callable[[str], None]
#: Which server has which crowd.
Camp = tuple[str, Gathering]


@dataclass(frozen=True, slots=True)
class Plan:
    limits: Limits = field(default_factory=Limits)
    seconds: float = 1.0
    warm_up_s: float = 0.3
    #: Longer than the heartbeats below the protocol, so that there is one of each worker in it.
    idle_s: float = 12.0
    rounds: int = 3
    servers: Sequence[str] = tuple(SERVERS)


def fitting(limits: Limits, files: int) -> tuple[Limits, str]:
    """What fits into the files that a broker may open, and a sentence if that is less than was wished."""
    room = descriptors.connections_that_fit(files) - limits.connections
    if limits.workers <= room:
        return limits, ""
    workers = max(1, room)
    return (
        replace(limits, workers=workers),
        f"{limits.workers} workers do not fit: a process may open {files} files here, so there are {workers} "
        "(ulimit -Hn shows the limit)",
    )


def measure(wish: Plan, tell: Tell) -> dict[str, Any]:
    limits, warning = fitting(wish.limits, descriptors.hard_limit())
    why_not = nats_absence() if NATS in wish.servers else None
    for sentence in filter(None, (warning, why_not and f"{NATS} is not measured: {why_not}")):
        tell(sentence)
    servers = [each for each in wish.servers if each != NATS or why_not is None]
    run = replace(wish, limits=limits)
    slots = max(SLOTS, -(-limits.window // gatherings(limits)[0].workers))
    with Crew() as crew:
        open_sides = _open_sides(crew, servers, limits, slots, tell)
        idle = _idle(open_sides, run, tell)
        seen = _rounds(servers, open_sides, run, tell)
        ends = {camp: side.end() for camp, side in open_sides.items()}
    for camp, figures in idle.items():
        figures |= {f"{name}_at_the_end": value for name, value in ends[camp].items()}
    steps = {server: [_figures(server, *each) for each in seen[server].items()] for server in servers}
    return {
        **summary(steps.pop(OURS)),
        "growth_max": GROWTH_MAX,
        "beside": {server: summary(of_server) for server, of_server in steps.items()},
        "absent": {NATS: why_not} if why_not else {},
        "warning": warning,
        "plan": asdict(run),
        "slots": slots,
        "crowds": list(idle.values()),
    }


def _open_sides(crew: Crew, servers: Sequence[str], limits: Limits, slots: int, tell: Tell) -> dict[Camp, Side]:
    open_sides = {}
    for server, gathering in product(servers, gatherings(limits)):
        start_s = time.monotonic()
        side = open_sides[server, gathering] = SERVERS[server](crew, gathering, slots)
        tell(f"{server}: {side.connected} workers connected in {time.monotonic() - start_s:.1f} s")
    return open_sides


def _idle(open_sides: dict[Camp, Side], run: Plan, tell: Tell) -> dict[Camp, dict[str, Any]]:
    """Nobody asks anything: what so many connected workers cost by themselves."""
    tell(f"idle for {run.idle_s:g} s")
    looks = max(1, round(run.idle_s / LOOK_S))
    spent_s = {camp: [side.cpu_s()] for camp, side in open_sides.items()}
    for _ in range(looks):
        time.sleep(run.idle_s / looks)
        for camp, side in open_sides.items():
            spent_s[camp].append(side.cpu_s())
    return {
        (server, gathering): {
            "server": server,
            "workers": gathering.workers,
            "services": gathering.services,
            "connected": side.connected,
            **idle_percents(spent_s[server, gathering], run.idle_s),
            "rss_kib": side.rss_kib(),
        }
        for (server, gathering), side in open_sides.items()
    }


def idle_percents(spent_s: list[float], idle_s: float) -> dict[str, float]:
    """Of one core: on the whole, and between the two looks between which it was most; a mean hides a burst."""
    most_s = max(after - before for before, after in pairwise(spent_s))
    return {
        "cpu_percent": (spent_s[-1] - spent_s[0]) / idle_s * 100,
        "cpu_percent_peak": most_s / idle_s * (len(spent_s) - 1) * 100,
    }


def _rounds(
    servers: Sequence[str], open_sides: dict[Camp, Side], run: Plan, tell: Tell
) -> dict[str, dict[Step, list[Answers]]]:
    seen: dict[str, dict[Step, list[Answers]]] = {server: {} for server in servers}
    for number in range(run.rounds):
        for step in plan(run.limits):
            for server in servers if step.axis != "bytes" else (OURS,):
                answers = open_sides[server, step.gathering].run(step, run.seconds, run.warm_up_s)
                seen[server].setdefault(step, []).append(answers)
                tell(
                    f"round {number + 1}: {server}, {step.axis} {amount(step)}: "
                    f"{answers.figures['rate']:,.0f} tasks/s, "
                    f"{answers.figures['cpu_us_server']:,.1f} us of the server per task"
                )
    return seen


def amount(step: Step) -> int:
    """How far the step is along its axis."""
    if step.axis in ("connections", "connections_idle"):
        return step.connections
    return step.size if step.axis == "bytes" else step.gathering.workers


def _figures(server: str, step: Step, rounds: list[Answers]) -> dict[str, Any]:
    medians = median_of([answers.figures for answers in rounds])
    return {
        "server": server,
        "axis": step.axis,
        "amount": amount(step),
        "workers": step.gathering.workers,
        "services": step.gathering.services,
        "services_asked": step.asked,
        "connections": step.connections,
        "connections_asking": step.asking,
        "size": step.size,
        "window": step.window,
        "rate": medians["rate"],
        "broker_cpu_us": medians["cpu_us_server"],
        "p50_us": medians["p50"],
        "p99_us": medians["p99"],
        "outcomes": sum((Counter(answers.outcomes) for answers in rounds), Counter()),
        "broker_cpu_us_rounds": [answers.figures["cpu_us_server"] for answers in rounds],
    }


def summary(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """The growth of each axis of a server with the steps; each of these gets its ratio to the first of its axis."""
    first: dict[str, float] = {}
    for step in steps:
        start_us = first.setdefault(step["axis"], step["broker_cpu_us"])
        # In a short run the smallest crowd may cost less than the system's clock of CPU time can tell.
        step["ratio"] = step["broker_cpu_us"] / start_us if start_us else 0.0
    last = {step["axis"]: step["ratio"] for step in steps}
    return {**{name: last[axis] for name, axis in GROWTHS.items()}, "steps": steps}
