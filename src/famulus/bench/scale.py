"""`famulus bench scale`: what a task costs the broker as the crowd around it grows.

Each crowd has a broker of its own, and all of them are up during the whole run: so the steps can be measured in turn,
round by round, and whatever else this machine does hits all of them alike. What counts is the CPU time of the broker,
which says what it does; the rate says more about the two crowds that share these cores with it.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Any

import msgspec

from famulus.bench import descriptors, fleet
from famulus.bench.callers import Answers, Call
from famulus.bench.steps import Gathering, Limits, Step, gatherings, plan

#: The aim is not to exceed this from the smallest to the largest crowd.
GROWTH_MAX = 1.3
#: The smallest crowd has room for the whole window, and no worker of it more than a fair part.
SLOTS = 10
END_WITHIN_S = 30.0
#: While nobody asks, the CPU time is looked at so often.
LOOK_S = 1.0

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    limits: Limits = field(default_factory=Limits)
    seconds: float = 1.0
    warm_up_s: float = 0.3
    #: Longer than the heartbeats below the protocol, so that there is one of each worker in it.
    idle_s: float = 12.0
    rounds: int = 3


class Side:
    """A broker and its crowd."""

    def __init__(self, members: list[fleet.Member], gathering: Gathering, slots: int) -> None:
        self.gathering = gathering
        self.frontend, backend = fleet.broker(members)
        self.parts = fleet.parts_of(members[-1])
        self._crowds: list[fleet.Member] = []
        for first, count in shares(gathering.workers, descriptors.sockets_that_fit(descriptors.hard_limit())):
            arguments = map(str, (first, count, gathering.services, slots))
            crowd = fleet.Member(
                "crowd", fleet.python("famulus.bench.crowd", backend, *arguments), r"^(\d+) workers are ready"
            )
            members.append(crowd)
            self._crowds.append(crowd)
        self.connected = sum(int(crowd.ready[1]) for crowd in self._crowds if crowd.ready is not None)

    def cpu_s(self) -> float:
        return sum(map(fleet.cpu_s, self.parts.values()))

    def rss_kib(self) -> int:
        return sum(map(fleet.rss_kib, self.parts.values()))

    def run(self, step: Step, run: Plan) -> Answers:
        call = Call(
            connections=step.connections,
            services=step.asked,
            window=step.window,
            size=step.size,
            seconds=run.seconds,
            warm_up_s=run.warm_up_s,
            weigh=list(self.parts.values()),
        )
        command = fleet.python("famulus.bench.callers", self.frontend, msgspec.json.encode(call).decode())
        with fleet.crew() as members:
            callers = fleet.Member("callers", command, None, stderr=True)
            members.append(callers)
            return msgspec.json.decode(callers.output(run.seconds + 120), type=Answers)

    def end(self) -> dict[str, int]:
        """Send the crowd home; how many of it were still there, and how often one had to come back."""
        for crowd in self._crowds:
            crowd.signal(signal.SIGTERM)
        ends = [json.loads(crowd.output(END_WITHIN_S)) for crowd in self._crowds]
        return {name: sum(end[name] for end in ends) for name in ("connected", "relinks")}


def shares(total: int, most: int) -> Iterator[tuple[int, int]]:
    """First and count of each process: as few as can hold them all, and as even as can be."""
    processes = -(-total // most)
    for number in range(processes):
        first = total * number // processes
        yield first, total * (number + 1) // processes - first


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
    if warning:
        tell(warning)
    run = replace(wish, limits=limits)
    slots = max(SLOTS, -(-limits.window // gatherings(limits)[0].workers))
    with sides(limits, slots, tell) as open_sides:
        idle = _idle(open_sides, run, tell)
        seen = _rounds(open_sides, run, tell)
        ends = {gathering: side.end() for gathering, side in open_sides.items()}
    for figures in idle:
        figures |= {f"{name}_at_the_end": value for name, value in ends[_gathering(figures)].items()}
    steps = [_figures(step, answers) for step, answers in seen.items()]
    return {
        **summary(steps),
        "growth_max": GROWTH_MAX,
        "warning": warning,
        "plan": asdict(run),
        "slots": slots,
        "crowds": idle,
        "steps": steps,
    }


@contextmanager
def sides(limits: Limits, slots: int, tell: Tell) -> Iterator[dict[Gathering, Side]]:
    with fleet.crew() as members:
        open_sides = {}
        for gathering in gatherings(limits):
            start_s = time.monotonic()
            side = open_sides[gathering] = Side(members, gathering, slots)
            tell(f"{side.connected} workers connected in {time.monotonic() - start_s:.1f} s")
        yield open_sides


def _idle(open_sides: dict[Gathering, Side], run: Plan, tell: Tell) -> list[dict[str, Any]]:
    """Nobody asks anything: what so many connected workers cost by themselves."""
    tell(f"idle for {run.idle_s:g} s")
    looks = max(1, round(run.idle_s / LOOK_S))
    spent_s: dict[Gathering, list[float]] = {gathering: [side.cpu_s()] for gathering, side in open_sides.items()}
    for _ in range(looks):
        time.sleep(run.idle_s / looks)
        for gathering, side in open_sides.items():
            spent_s[gathering].append(side.cpu_s())
    return [
        {
            "workers": gathering.workers,
            "services": gathering.services,
            "connected": side.connected,
            **idle_percents(spent_s[gathering], run.idle_s),
            "rss_kib": side.rss_kib(),
        }
        for gathering, side in open_sides.items()
    ]


def idle_percents(spent_s: list[float], idle_s: float) -> dict[str, float]:
    """Of one core: on the whole, and between the two looks between which it was most; a mean hides a burst."""
    most_s = max(after - before for before, after in pairwise(spent_s))
    return {
        "cpu_percent": (spent_s[-1] - spent_s[0]) / idle_s * 100,
        "cpu_percent_peak": most_s / idle_s * (len(spent_s) - 1) * 100,
    }


def _gathering(figures: dict[str, Any]) -> Gathering:
    return Gathering(figures["workers"], figures["services"])


def _rounds(open_sides: dict[Gathering, Side], run: Plan, tell: Tell) -> dict[Step, list[Answers]]:
    seen: dict[Step, list[Answers]] = {step: [] for step in plan(run.limits)}
    for number in range(run.rounds):
        for step, rounds in seen.items():
            answers = open_sides[step.gathering].run(step, run)
            rounds.append(answers)
            tell(
                f"round {number + 1}: {step.axis} {amount(step)}: {answers.tasks / answers.seconds:,.0f} tasks/s, "
                f"{_cpu_us(answers):,.1f} us of the broker per task"
            )
    return seen


def amount(step: Step) -> int:
    """How far the step is along its axis."""
    return {"connections": step.connections, "bytes": step.size}.get(step.axis, step.gathering.workers)


def _cpu_us(answers: Answers) -> float:
    return answers.cpu_s / max(1, answers.tasks) * 1e6


def _figures(step: Step, rounds: list[Answers]) -> dict[str, Any]:
    outcomes: dict[str, int] = {}
    for answers in rounds:
        for outcome, count in answers.outcomes.items():
            outcomes[outcome] = outcomes.get(outcome, 0) + count
    return {
        "axis": step.axis,
        "amount": amount(step),
        "workers": step.gathering.workers,
        "services": step.gathering.services,
        "services_asked": step.asked,
        "connections": step.connections,
        "size": step.size,
        "window": step.window,
        "rate": median(answers.tasks / answers.seconds for answers in rounds),
        "broker_cpu_us": median(map(_cpu_us, rounds)),
        "p50_us": median(answers.p50_us for answers in rounds),
        "p99_us": median(answers.p99_us for answers in rounds),
        "outcomes": outcomes,
        "broker_cpu_us_rounds": [_cpu_us(answers) for answers in rounds],
    }


def summary(steps: list[dict[str, Any]]) -> dict[str, float]:
    """The growth of the crowd's axes; and each step gets its ratio to the first of its axis."""
    first: dict[str, float] = {}
    for step in steps:
        start_us = first.setdefault(step["axis"], step["broker_cpu_us"])
        # In a short run the smallest crowd may cost less than the system's clock of CPU time can tell.
        step["ratio"] = step["broker_cpu_us"] / start_us if start_us else 0.0
    last = {step["axis"]: step["ratio"] for step in steps}
    return {"growth": last["workers"], "growth_connected": last["connected"]}
