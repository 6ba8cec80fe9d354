"""`famulus bench scale`: what a task costs the broker as the crowd around it grows.

Each crowd has a broker of its own, and all of them are up during the whole run: so the steps can be measured in turn,
round by round, and whatever else this machine does hits all of them alike. What counts is the CPU time of the broker,
which says what it does; the rate says more about the two crowds that share these cores with it.

Where there is a nats-server, it goes through the same steps, except for long bodies: each of its connections, too, is
written to separately.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise, product
from typing import Any

from famulus.lab.bench import descriptors
from famulus.lab.bench.figures import median_of
from famulus.lab.bench.fleet import Broker, Crew
from famulus.lab.bench.load import OfferedLoad, Seen, start
from famulus.lab.bench.peers import nats
from famulus.lab.bench.peers.peer import Needs, absence
from famulus.lab.bench.steps import Gathering, Limits, Step, gatherings, plan
from famulus.lab.processes import cpu_s, rss_kib

#: The goal is not to exceed this from the fewest to the most workers that are merely connected.
GROWTH_MAX = 1.3
#: The smallest crowd has room for the whole window, and none of its workers for more than a fair share.
SLOTS = 10
#: While nobody asks, the CPU time is read this often.
LOOK_S = 1.0
TIMEOUT_MS = 30_000
END_WITHIN_S = 30.0

OURS = "famulus"
NATS = "nats"
SERVERS: dict[str, Callable[[Crew], Broker]] = {OURS: Crew.broker, NATS: nats.start_server}
#: What the result calls the growth of an axis.
GROWTHS = {"growth": "workers"} | {f"growth_{each}": each for each in ("connected", "connections", "connections_idle")}

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    limits: Limits = field(default_factory=Limits)
    seconds: float = 1.0
    warm_up_s: float = 0.3
    #: Longer than the interval of the heartbeats below the protocol, so that it has one of each worker in it.
    idle_s: float = 12.0
    rounds: int = 3
    servers: Sequence[str] = tuple(SERVERS)


class Side:
    """A server with its crowd of workers."""

    def __init__(self, crew: Crew, name: str, gathering: Gathering, slots: int) -> None:
        """A nats-server has no slots: a worker of a queue group gets whatever comes."""
        self.name, self.gathering = name, gathering
        server = SERVERS[name](crew)
        self._pids = list(server.member.parts().values())
        self._address = server.frontend
        self._crowds = []
        for share in shares(gathering.workers, descriptors.sockets_that_fit(descriptors.hard_limit())):
            self._crowds.append(crew.part("crowd", "crowd", server.backend, *share, gathering.services, slots))
        self.connected = sum(int(crowd.wait_until(r"^(\d+) workers are ready")[1]) for crowd in self._crowds)

    def cpu_s(self) -> float:
        return sum(map(cpu_s, self._pids))

    def rss_kib(self) -> int:
        return sum(map(rss_kib, self._pids))

    def run(self, step: Step, seconds: float, warm_up_s: float) -> Seen:
        offer = OfferedLoad(
            per_s=0.0,
            seconds=seconds,
            warm_up_s=warm_up_s,
            size=step.size,
            timeout_ms=TIMEOUT_MS,
            window=step.window,
            by_end=True,
            services=step.asked,
            connections=step.connections,
            asking=step.asking,
            weigh=self._pids,
        )
        with Crew() as crew:
            return start(crew, self._address, offer)()

    def end(self) -> dict[str, int]:
        """End the crowd; how many of it were still connected, and how often one had to reconnect."""
        for crowd in self._crowds:
            crowd.signal(signal.SIGTERM)
        ends = [json.loads(crowd.output(END_WITHIN_S)) for crowd in self._crowds]
        return {name: sum(end[name] for end in ends) for name in ("connected", "relinks")}


def shares(total: int, most: int) -> Iterator[tuple[int, int]]:
    """First number and count for each process: as few as can hold them all, and as evenly as possible."""
    processes = -(-total // most)
    for number in range(processes):
        first = total * number // processes
        yield first, total * (number + 1) // processes - first


def fitting(limits: Limits, files: int) -> tuple[Limits, str]:
    """What fits into the files that a broker may open, and a warning if that is less than was wanted."""
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
    why_not = absence(Needs(nats.PROGRAMS)) if NATS in wish.servers else None
    for sentence in filter(None, (warning, why_not and f"{NATS} is not measured: {why_not}")):
        tell(sentence)
    servers = [each for each in wish.servers if each != NATS or why_not is None]
    run = replace(wish, limits=limits)
    slots = max(SLOTS, -(-limits.window // gatherings(limits)[0].workers))
    sides = []
    with Crew() as crew:
        for server, gathering in product(servers, gatherings(limits)):
            start_s = time.monotonic()
            sides.append(Side(crew, server, gathering, slots))
            tell(f"{server}: {sides[-1].connected} workers connected in {time.monotonic() - start_s:.1f} s")
        crowds = _idle(sides, run, tell)
        seen = _rounds(sides, run, tell)
        for side, figures in zip(sides, crowds, strict=True):
            figures |= {f"{name}_at_the_end": value for name, value in side.end().items()}
    steps = {server: [_figures(server, *each) for each in seen[server].items()] for server in servers}
    return {
        **summary(steps.pop(OURS)),
        "growth_max": GROWTH_MAX,
        "beside": {server: summary(of_server) for server, of_server in steps.items()},
        "absent": {NATS: why_not} if why_not else {},
        "warning": warning,
        "plan": asdict(run),
        "slots": slots,
        "crowds": crowds,
    }


def _idle(sides: Sequence[Side], run: Plan, tell: Tell) -> list[dict[str, Any]]:
    """No requests at all: what so many connected workers cost by themselves."""
    tell(f"idle for {run.idle_s:g} s")
    looks = max(1, round(run.idle_s / LOOK_S))
    spent_s = [[side.cpu_s() for side in sides]]
    for _ in range(looks):
        time.sleep(run.idle_s / looks)
        spent_s.append([side.cpu_s() for side in sides])
    return [
        {
            "server": side.name,
            "workers": side.gathering.workers,
            "services": side.gathering.services,
            "connected": side.connected,
            **idle_percents([look[number] for look in spent_s], run.idle_s),
            "rss_kib": side.rss_kib(),
        }
        for number, side in enumerate(sides)
    ]


def idle_percents(spent_s: list[float], idle_s: float) -> dict[str, float]:
    """Percentages of one core: overall, and in the interval with the most, since a mean hides a burst."""
    most_s = max(after - before for before, after in pairwise(spent_s))
    return {
        "cpu_percent": (spent_s[-1] - spent_s[0]) / idle_s * 100,
        "cpu_percent_peak": most_s / idle_s * (len(spent_s) - 1) * 100,
    }


def _rounds(sides: Sequence[Side], run: Plan, tell: Tell) -> dict[str, dict[Step, list[Seen]]]:
    seen: dict[str, dict[Step, list[Seen]]] = {side.name: {} for side in sides}
    for number in range(run.rounds):
        for step in plan(run.limits):
            for side in sides:
                if side.gathering != step.gathering or (step.axis == "bytes" and side.name != OURS):
                    continue
                answers = side.run(step, run.seconds, run.warm_up_s)
                seen[side.name].setdefault(step, []).append(answers)
                tell(
                    f"round {number + 1}: {side.name}, {step.axis} {amount(step)}: "
                    f"{answers.figures['rate']:,.0f} tasks/s, "
                    f"{answers.figures['cpu_us_server']:,.1f} us of the server per task"
                )
    return seen


def amount(step: Step) -> int:
    """How far the step is along its axis."""
    if step.axis in ("connections", "connections_idle"):
        return step.connections
    return step.size if step.axis == "bytes" else step.gathering.workers


def _figures(server: str, step: Step, rounds: list[Seen]) -> dict[str, Any]:
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
    """The growth along each axis for one server, with its steps; each step gets its ratio to the first of its axis."""
    first: dict[str, float] = {}
    for step in steps:
        start_us = first.setdefault(step["axis"], step["broker_cpu_us"])
        # In a short run the smallest crowd may cost less CPU time than the system's clock can resolve.
        step["ratio"] = step["broker_cpu_us"] / start_us if start_us else 0.0
    last = {step["axis"]: step["ratio"] for step in steps}
    return {**{name: last[axis] for name, axis in GROWTHS.items()}, "steps": steps}
