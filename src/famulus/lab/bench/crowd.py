"""The worker process of the scale measurement: thousands of workers that echo, each with its own connection.

python -m famulus.lab.bench crowd ADDRESS FIRST COUNT SERVICES SLOTS

One thread serves them all. Each has a place at its broker as a real worker does, with its line and its session. At a
NATS address they are those of `nats_crowd` instead. On SIGTERM it says in JSON what became of them, and ends.
"""

from __future__ import annotations

import json
import os
import signal
from heapq import heappush, heapreplace
from time import monotonic_ns

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.session.header_cache import Given
from famulus.core.session.worker import SessionState
from famulus.lab.bench import descriptors, nats_crowd
from famulus.lab.bench.steps import service_name
from famulus.net.passes import read_pass
from famulus.net.waiting import Bell, Waiting
from famulus.worker.place import Place, places_of
from famulus.worker.settings import WorkerSettings

#: Long, so that the tasks are measured and not so many heartbeats, of the session and of its line.
HEARTBEAT_MS = 90_000
#: At most this many are exchanging greetings at once; a session that waits too long for its turn would start over.
GREETING_MAX = 256
CONNECT_WITHIN_S = 90
#: No place is checked more often than the first, nor less often than the second: news may have moved its next due time.
LOOK_AGAIN_NS = NS_PER_S // 20
LOOK_AT_LEAST_NS = 10 * NS_PER_S


class Crowd:
    def __init__(self) -> None:
        self._pass = read_pass(None)
        self._waiting = Waiting()
        self._bell = Bell()
        self._waiting.watch(self._bell.fd)
        self._places: list[Place] = []
        #: When to check which place, by its number: one entry each.
        self._dues: list[tuple[int, int]] = []
        self._over = False

    def connect(self, address: str, services: dict[str, str], slots: int, until_ns: int) -> None:
        """Connect a worker with each identity for its service, until all are ready or the time is up."""
        to_come = list(services.items())[::-1]
        greeting: list[Place] = []
        while (to_come or greeting) and not self._over and monotonic_ns() < until_ns:
            while to_come and len(greeting) < GREETING_MAX:
                identity, service = to_come.pop()
                settings = WorkerSettings(
                    identity, (address,), slots, heartbeat_ms=HEARTBEAT_MS, at_once=True, admitted_by=self._pass
                )
                greeting += places_of(settings, [service], self._waiting, monotonic_ns())
                heappush(self._dues, (0, len(self._places)))
                self._places.append(greeting[-1])
            self.step(until_ns)
            greeting = [place for place in greeting if place.session.state is not SessionState.READY]

    def serve(self) -> None:
        """Until `end` is called."""
        while not self._over:
            self.step(NEVER_NS)

    def end(self) -> None:
        """May be called from a signal handler."""
        self._over = True
        self._bell.ring()

    def figures(self) -> dict[str, int]:
        """How many are ready for tasks, and how often one had to reconnect."""
        sessions = [place.session for place in self._places]
        return {
            "connected": sum(session.state is SessionState.READY for session in sessions),
            "relinks": sum(max(0, session.begun - 1) for session in sessions),
        }

    def step(self, until_ns: int) -> None:
        news = self._waiting.wait(min(until_ns, self._dues[0][0]))
        now_ns = monotonic_ns()
        for place in news:
            if isinstance(place, Place):
                place.has_news = True
                self._serve(place, now_ns)
        while self._dues[0][0] <= now_ns:
            number = self._dues[0][1]
            place = self._places[number]
            self._serve(place, now_ns)
            due_ns = min(place.session.next_due_ns, place.line.due_ns, now_ns + LOOK_AT_LEAST_NS)
            heapreplace(self._dues, (max(due_ns, now_ns + LOOK_AGAIN_NS), number))

    def _serve(self, place: Place, now_ns: int) -> None:
        """Do what came, and what is due."""
        session = place.session
        if batch := place.recv():
            for given in session.on_messages(now_ns, batch):
                self.begin(place, given, now_ns)
        place.follow_line(now_ns)
        place.tend(now_ns)
        place.relink(now_ns)
        place.send()

    def begin(self, place: Place, given: Given, now_ns: int) -> None:
        """A task came; it is answered at once."""
        place.session.answer(given, "OK", "", given.body)


def main(address: str, first: str, count: str, services: str, slots: str) -> None:
    descriptors.raise_limit()
    numbers = range(int(first), int(first) + int(count))
    names = {f"crowd-{os.getpid()}-{number}": service_name(number % int(services)) for number in numbers}
    if address.startswith(nats_crowd.SCHEME):
        nats_crowd.work(address, names.values())
    crowd = Crowd()
    signal.signal(signal.SIGTERM, lambda *_: crowd.end())
    start_ns = monotonic_ns()
    crowd.connect(address, names, int(slots), start_ns + CONNECT_WITHIN_S * NS_PER_S)
    took_s = (monotonic_ns() - start_ns) / NS_PER_S
    print(f"{crowd.figures()['connected']} workers are ready after {took_s:.3f} s", flush=True)
    crowd.serve()
    print(json.dumps(crowd.figures()), flush=True)
    # The system closes thousands of connections at once.
    os._exit(0)
