"""The client process of the latency and of the overload measurement.

python -m famulus.lab.bench.load ADDRESS OFFER

OFFER is an `OfferedLoad` in JSON: an open loop with a fixed number of tasks a second, whatever comes back, or a closed
one that keeps a fixed number open. In an open loop every task is due at an instant that is fixed beforehand, and its
latency counts from then on, also if it left later because this process or the broker was held up. A loop that counts
from the sending leaves out just those tasks that had to wait longest ("coordinated omission").
"""

from __future__ import annotations

import select
import sys
from collections import Counter
from time import monotonic_ns
from typing import NamedTuple

import msgspec

from famulus.client.connection import Connection
from famulus.client.rules import error_of
from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.session.client import ClientSession, Done
from famulus.errors import BenchFailed
from famulus.lab.bench.buckets import LatencyBuckets
from famulus.lab.bench.fleet import GRACE_S, Crew, Member
from famulus.lab.processes import python

CONNECT_WITHIN_S = 10
#: As many are submitted before the answers are looked at, when a lot is due.
BURST_MAX = 100
LONGEST_S = 1.0


class OfferedLoad(msgspec.Struct, frozen=True):
    #: Tasks per second; or, if it is 0, tasks that are open at once.
    per_s: float
    seconds: float
    warm_up_s: float
    size: int
    timeout_ms: int
    service: str = "echo"
    window: int = 0
    #: Which tasks count: those that end after the warm-up and before the end, or those that are due then.
    by_end: bool = False


class Seen(msgspec.Struct, frozen=True):
    """Of the tasks that count."""

    offered: int
    outcomes: dict[str, int]
    #: In nanoseconds, by outcome; of what was rejected, by the code of the reason.
    latencies: dict[str, LatencyBuckets]
    #: By how much the latest task left after it was due: large where this process could not keep up.
    latest_ns: int

    def latency(self, which: str) -> LatencyBuckets:
        return self.latencies.get(which, LatencyBuckets())


class Schedule:
    """When each task is due: evenly, from `start_ns` until `until_ns`. Knows no clock."""

    def __init__(self, start_ns: int, until_ns: int, per_s: float) -> None:
        self._start_ns = start_ns
        self._until_ns = until_ns
        self._gap_ns = NS_PER_S / per_s
        self._number = 0
        self.next_ns = start_ns

    @property
    def is_over(self) -> bool:
        return self.next_ns >= self._until_ns

    def due(self, now_ns: int, most: int) -> list[int]:
        """The instants that have come by now, at most this many of them."""
        due: list[int] = []
        while self.next_ns <= now_ns and not self.is_over and len(due) < most:
            due.append(self.next_ns)
            self._number += 1
            # From the start each time: a sum of rounded gaps would drift away from the rate.
            self.next_ns = self._start_ns + int(self._number * self._gap_ns)
        return due


class Window:
    """A task is due whenever fewer than this many are open. Knows no clock."""

    def __init__(self, session: ClientSession, size: int, until_ns: int) -> None:
        self._session = session
        self._size = size
        self._until_ns = until_ns
        self.is_over = False

    @property
    def next_ns(self) -> int:
        return 0 if len(self._session) < self._size else self._until_ns

    def due(self, now_ns: int, most: int) -> list[int]:
        self.is_over = now_ns >= self._until_ns
        return [] if self.is_over else [now_ns] * min(most, self._size - len(self._session))


class Loop:
    def __init__(self, address: str, offer: OfferedLoad) -> None:
        self._offer = offer
        self._connection = Connection(address)
        self._body = bytes(offer.size)
        self._outcomes: Counter[str] = Counter()
        self._latencies: dict[str, LatencyBuckets] = {}
        self._offered = 0
        self._latest_ns = 0
        self._from_ns = self._until_ns = 0

    def run(self) -> Seen:
        self._connect()
        offer, session = self._offer, self._connection.session
        start_ns = monotonic_ns() + NS_PER_MS
        self._from_ns = start_ns + int(offer.warm_up_s * NS_PER_S)
        self._until_ns = self._from_ns + int(offer.seconds * NS_PER_S)
        schedule: Schedule | Window = Window(session, offer.window, self._until_ns)
        if offer.per_s:
            schedule = Schedule(start_ns, self._until_ns, offer.per_s)
        while not schedule.is_over or len(session):
            self._submit(schedule)
            self._note(self._connection.step())
            due_ns = self._connection.next_due_ns
            self._wait(due_ns if schedule.is_over else min(schedule.next_ns, due_ns))
        self._connection.close()
        return Seen(self._offered, dict(self._outcomes), self._latencies, self._latest_ns)

    def _connect(self) -> None:
        until_ns = monotonic_ns() + CONNECT_WITHIN_S * NS_PER_S
        while not self._connection.line.up:
            if monotonic_ns() > until_ns:
                raise BenchFailed(f"no broker answers at {self._connection.address}")
            self._wait(min(until_ns, self._connection.next_due_ns))
            self._note(self._connection.step())

    def _submit(self, schedule: Schedule | Window) -> None:
        now_ns = monotonic_ns()
        offer = self._offer
        for due_ns in schedule.due(now_ns, BURST_MAX):
            self._connection.session.submit(now_ns, due_ns, offer.service, self._body, offer.timeout_ms)
            if due_ns >= self._from_ns:
                self._offered += 1
                self._latest_ns = max(self._latest_ns, now_ns - due_ns)

    def _note(self, ended: list[Done]) -> None:
        now_ns = monotonic_ns()
        for done in ended:
            due_ns = done.token
            assert isinstance(due_ns, int)
            if not self._from_ns <= (now_ns if self._offer.by_end else due_ns) < self._until_ns:
                continue
            self._outcomes[done.outcome] += 1
            which = error_of(done).code if done.outcome == "REJECTED" else done.outcome
            self._latencies.setdefault(which, LatencyBuckets()).add(now_ns - due_ns)

    def _wait(self, until_ns: int) -> None:
        # select, and not epoll: its time-out is exact to the microsecond, where that of epoll is in milliseconds.
        timeout_s = max(0.0, min(LONGEST_S, (until_ns - monotonic_ns()) / NS_PER_S))
        select.select([self._connection.line.fd], [], [], timeout_s)


class Running(NamedTuple):
    """A loop in a process of its own."""

    client: Member
    offer: OfferedLoad

    def take(self) -> Seen:
        """What it saw, when it is at its end."""
        within_s = self.offer.seconds + self.offer.warm_up_s + self.offer.timeout_ms / 1000 + GRACE_S
        return msgspec.json.decode(self.client.output(within_s), type=Seen)


def start(crew: Crew, address: str, offer: OfferedLoad) -> Running:
    command = python("famulus.lab.bench.load", address, msgspec.json.encode(offer).decode())
    return Running(crew.start("client", command, stderr=True), offer)


def main(address: str, text: str) -> None:
    print(msgspec.json.encode(Loop(address, msgspec.json.decode(text, type=OfferedLoad)).run()).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
