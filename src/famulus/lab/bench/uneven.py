"""The worker process of the policy measurement: some workers of one service, the first of which is slower.

python -m famulus.lab.bench uneven ADDRESS PLAN

PLAN is an `Uneven` in JSON. One thread serves them all; nobody computes anything, so they do not disturb each other. A
task is answered with the name of its worker. It ends on SIGTERM.
"""

from __future__ import annotations

import signal
from heapq import heappop, heappush
from itertools import count
from random import Random
from time import monotonic_ns

import msgspec

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.session.header_cache import Given
from famulus.lab.bench.crowd import CONNECT_WITHIN_S, Crowd
from famulus.worker.place import Place

SERVICE = "work"


class Uneven(msgspec.Struct, frozen=True):
    #: Names of the workers.
    names: list[str]
    slots: int
    #: How long most of them take for a task; up to half of it more or less.
    work_ms: float
    #: How many times as long the first one takes.
    slower: float
    #: Whether a worker does one task after the other, as one that computes, or as many as it has slots.
    one_by_one: bool


class UnevenCrowd(Crowd):
    def __init__(self, plan: Uneven) -> None:
        super().__init__()
        self._plan = plan
        self._random = Random(1)
        self._numbers = count()
        #: What is being done: when it is done, and by whom.
        self._work: list[tuple[int, int, Place, Given]] = []
        #: Until when each worker has something to do.
        self._busy_until_ns: dict[Place, int] = {}

    def begin(self, place: Place, given: Given, now_ns: int) -> None:
        plan = self._plan
        takes_ns = int(plan.work_ms * self._random.uniform(0.5, 1.5) * NS_PER_MS)
        if place.session.identity == plan.names[0]:
            takes_ns = int(takes_ns * plan.slower)
        start_ns = max(now_ns, self._busy_until_ns.get(place, 0)) if plan.one_by_one else now_ns
        self._busy_until_ns[place] = start_ns + takes_ns
        heappush(self._work, (start_ns + takes_ns, next(self._numbers), place, given))

    def step(self, until_ns: int) -> None:
        super().step(min(until_ns, self._work[0][0] if self._work else NEVER_NS))
        now_ns = monotonic_ns()
        while self._work and self._work[0][0] <= now_ns:
            _, _, place, given = heappop(self._work)
            place.session.answer(given, "OK", "", place.session.identity.encode())
            place.send()


def main(address: str, text: str) -> None:
    plan = msgspec.json.decode(text, type=Uneven)
    crowd = UnevenCrowd(plan)
    signal.signal(signal.SIGTERM, lambda *_: crowd.end())
    until_ns = monotonic_ns() + CONNECT_WITHIN_S * NS_PER_S
    crowd.connect(address, dict.fromkeys(plan.names, SERVICE), plan.slots, until_ns)
    print(f"{crowd.figures()['connected']} workers are ready", flush=True)
    crowd.serve()
