"""The sides of the scale measurement: a server, its crowd of workers, and the callers that ask it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator

import msgspec

from famulus.lab.bench import descriptors
from famulus.lab.bench.callers import Answers, CallStep
from famulus.lab.bench.fleet import Crew, Member
from famulus.lab.bench.peers import nats
from famulus.lab.bench.peers.peer import Needs, absence
from famulus.lab.bench.steps import Gathering, Step
from famulus.lab.processes import cpu_s, python, rss_kib

END_WITHIN_S = 30.0


class Side:
    def __init__(self, server: Member, crowds: list[Member], callers: list[str]) -> None:
        """`callers` is the command that asks, but for the `CallStep`."""
        self._pids = list(server.parts().values())
        self._crowds = crowds
        self._callers = callers
        self.connected = sum(int(crowd.wait_until(r"^(\d+) workers are ready")[1]) for crowd in crowds)

    def cpu_s(self) -> float:
        return sum(map(cpu_s, self._pids))

    def rss_kib(self) -> int:
        return sum(map(rss_kib, self._pids))

    def run(self, step: Step, seconds: float, warm_up_s: float) -> Answers:
        call = CallStep(step, seconds, warm_up_s, self._pids)
        with Crew() as crew:
            callers = crew.start("callers", [*self._callers, call.text()], stderr=True)
            return msgspec.json.decode(callers.output(seconds + 120), type=Answers)

    def end(self) -> dict[str, int]:
        """Send the crowd home; how many of it were still there, and how often one had to come back."""
        for crowd in self._crowds:
            crowd.signal(signal.SIGTERM)
        ends = [json.loads(crowd.output(END_WITHIN_S)) for crowd in self._crowds]
        return {name: sum(end[name] for end in ends) for name in ("connected", "relinks")}


def famulus_side(crew: Crew, gathering: Gathering, slots: int) -> Side:
    broker = crew.broker()
    crowds = _crowds(crew, gathering, lambda share: ["famulus.lab.bench.crowd", broker.backend, *share, str(slots)])
    return Side(broker.member, crowds, python("famulus.lab.bench.callers", broker.frontend))


def nats_side(crew: Crew, gathering: Gathering, slots: int) -> Side:
    """It has no slots: a worker of a queue group gets whatever comes."""
    server, address = nats.start_server(crew)
    crowds = _crowds(crew, gathering, lambda share: ["famulus.lab.bench.nats_crowd", "workers", address, *share])
    return Side(server, crowds, python("famulus.lab.bench.nats_crowd", "callers", address))


def nats_absence() -> str | None:
    """Why nats-server cannot be measured beside us, or None."""
    return absence(Needs(nats.PROGRAMS))


def _crowds(crew: Crew, gathering: Gathering, command: Callable[[list[str]], list[str]]) -> list[Member]:
    parts = shares(gathering.workers, descriptors.sockets_that_fit(descriptors.hard_limit()))
    words = (command([str(first), str(count), str(gathering.services)]) for first, count in parts)
    return [crew.start("crowd", python(*each)) for each in words]


def shares(total: int, most: int) -> Iterator[tuple[int, int]]:
    """First and count of each process: as few as can hold them all, and as even as can be."""
    processes = -(-total // most)
    for number in range(processes):
        first = total * number // processes
        yield first, total * (number + 1) // processes - first
