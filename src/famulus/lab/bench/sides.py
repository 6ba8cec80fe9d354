"""The sides of the scale measurement: a server, its crowd of workers, and the callers that ask it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator

import msgspec

from famulus.lab.bench import descriptors, fleet
from famulus.lab.bench.callers import Answers, Call
from famulus.lab.bench.peers import nats
from famulus.lab.bench.peers.peer import Needs, absence
from famulus.lab.bench.steps import Gathering, Step

END_WITHIN_S = 30.0


class Side:
    def __init__(
        self, gathering: Gathering, server: fleet.Member, crowds: list[fleet.Member], callers: list[str]
    ) -> None:
        """`callers` is the command that asks, but for the `Call`."""
        self.gathering = gathering
        self.parts = fleet.parts_of(server)
        self._crowds = crowds
        self._callers = callers
        self.connected = sum(int(crowd.ready[1]) for crowd in crowds if crowd.ready is not None)

    def cpu_s(self) -> float:
        return sum(map(fleet.cpu_s, self.parts.values()))

    def rss_kib(self) -> int:
        return sum(map(fleet.rss_kib, self.parts.values()))

    def run(self, step: Step, seconds: float, warm_up_s: float) -> Answers:
        call = Call(
            connections=step.connections,
            asking=step.asking,
            services=step.asked,
            window=step.window,
            size=step.size,
            seconds=seconds,
            warm_up_s=warm_up_s,
            weigh=list(self.parts.values()),
        )
        with fleet.crew() as members:
            command = [*self._callers, msgspec.json.encode(call).decode()]
            callers = fleet.Member("callers", command, None, stderr=True)
            members.append(callers)
            return msgspec.json.decode(callers.output(seconds + 120), type=Answers)

    def end(self) -> dict[str, int]:
        """Send the crowd home; how many of it were still there, and how often one had to come back."""
        for crowd in self._crowds:
            crowd.signal(signal.SIGTERM)
        ends = [json.loads(crowd.output(END_WITHIN_S)) for crowd in self._crowds]
        return {name: sum(end[name] for end in ends) for name in ("connected", "relinks")}


Open = Callable[[list[fleet.Member], Gathering, int], Side]


def famulus_side(members: list[fleet.Member], gathering: Gathering, slots: int) -> Side:
    frontend, backend = fleet.broker(members)
    server = members[-1]
    crowds = _crowds(members, gathering, lambda share: ["famulus.lab.bench.crowd", backend, *share, str(slots)])
    return Side(gathering, server, crowds, fleet.python("famulus.lab.bench.callers", frontend))


def nats_side(members: list[fleet.Member], gathering: Gathering, slots: int) -> Side:
    """It has no slots: a worker of a queue group gets whatever comes."""
    server = fleet.Member("server", nats.server_command(), nats.LISTENING, stderr=True)
    members.append(server)
    assert server.ready is not None
    address = server.ready[1]
    crowds = _crowds(members, gathering, lambda share: ["famulus.lab.bench.nats_crowd", "workers", address, *share])
    return Side(gathering, server, crowds, fleet.python("famulus.lab.bench.nats_crowd", "callers", address))


def nats_absence() -> str | None:
    """Why nats-server cannot be measured beside us, or None."""
    return absence(Needs(nats.PROGRAMS))


def _crowds(
    members: list[fleet.Member], gathering: Gathering, command: Callable[[list[str]], list[str]]
) -> list[fleet.Member]:
    crowds = []
    for first, count in shares(gathering.workers, descriptors.sockets_that_fit(descriptors.hard_limit())):
        words = command([str(first), str(count), str(gathering.services)])
        crowds.append(fleet.Member("crowd", fleet.python(*words), r"^(\d+) workers are ready"))
        members.append(crowds[-1])
    return crowds


def shares(total: int, most: int) -> Iterator[tuple[int, int]]:
    """First and count of each process: as few as can hold them all, and as even as can be."""
    processes = -(-total // most)
    for number in range(processes):
        first = total * number // processes
        yield first, total * (number + 1) // processes - first
