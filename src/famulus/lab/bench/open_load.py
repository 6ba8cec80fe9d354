"""The client process of the latency measurement: an open loop, so many tasks a second, whatever comes back.

python -m famulus.lab.bench.open_load ADDRESS OFFER

OFFER is an `Offer` in JSON. Every task is due at an instant that is fixed beforehand, and its latency counts from then
on, also if it left later because this process or the broker was held up. A loop that counts from the sending leaves
out just those tasks that had to wait longest ("coordinated omission").
"""

from __future__ import annotations

import select
import sys
from collections import Counter
from time import monotonic_ns

import msgspec

from famulus.client.connection import Connection
from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.session.client import Done
from famulus.errors import BenchFailed
from famulus.lab.bench.buckets import Buckets

CONNECT_WITHIN_S = 10
#: As many are submitted before the answers are looked at, when a lot is due.
BURST_MAX = 100
LONGEST_S = 1.0


class Offer(msgspec.Struct, frozen=True):
    per_s: float
    seconds: float
    warm_up_s: float
    size: int
    timeout_ms: int
    service: str = "echo"


class Seen(msgspec.Struct, frozen=True):
    """Of the tasks that were due after the warm-up. Latencies are those of the outcome OK, in nanoseconds."""

    offered: int
    outcomes: dict[str, int]
    counts: list[tuple[int, int]]
    highest: int
    #: By how much the latest task left after it was due: large where this process could not keep up.
    latest_ns: int

    def latencies(self) -> Buckets:
        return Buckets.read(self.counts, self.highest)


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
        """The instants that have come by now, at most so many of them."""
        due: list[int] = []
        while self.next_ns <= now_ns and not self.is_over and len(due) < most:
            due.append(self.next_ns)
            self._number += 1
            # From the start each time: a sum of rounded gaps would drift away from the rate.
            self.next_ns = self._start_ns + int(self._number * self._gap_ns)
        return due


class OpenLoop:
    def __init__(self, address: str, offer: Offer) -> None:
        self._offer = offer
        self._connection = Connection(address)
        self._body = bytes(offer.size)
        self._outcomes: Counter[str] = Counter()
        self._latencies = Buckets()
        self._offered = 0
        self._latest_ns = 0
        self._from_ns = 0

    def run(self) -> Seen:
        self._connect()
        start_ns = monotonic_ns() + NS_PER_MS
        self._from_ns = start_ns + int(self._offer.warm_up_s * NS_PER_S)
        schedule = Schedule(start_ns, self._from_ns + int(self._offer.seconds * NS_PER_S), self._offer.per_s)
        session = self._connection.session
        while not schedule.is_over or len(session):
            self._submit(schedule)
            self._note(self._connection.step())
            due_ns = self._connection.next_due_ns
            self._wait(due_ns if schedule.is_over else min(schedule.next_ns, due_ns))
        self._connection.close()
        counts = sorted(self._latencies.counts.items())
        return Seen(self._offered, dict(self._outcomes), counts, self._latencies.highest, self._latest_ns)

    def _connect(self) -> None:
        until_ns = monotonic_ns() + CONNECT_WITHIN_S * NS_PER_S
        while not self._connection.line.up:
            if monotonic_ns() > until_ns:
                raise BenchFailed(f"no broker answers at {self._connection.address}")
            self._wait(min(until_ns, self._connection.next_due_ns))
            self._note(self._connection.step())

    def _submit(self, schedule: Schedule) -> None:
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
            if due_ns < self._from_ns:
                continue
            self._outcomes[done.outcome] += 1
            if done.outcome == "OK":
                self._latencies.add(now_ns - due_ns)

    def _wait(self, until_ns: int) -> None:
        # select, and not epoll: its time-out is exact to the microsecond, where that of epoll is in milliseconds.
        timeout_s = max(0.0, min(LONGEST_S, (until_ns - monotonic_ns()) / NS_PER_S))
        select.select([self._connection.line.fd], [], [], timeout_s)


def main(address: str, text: str) -> None:
    print(msgspec.json.encode(OpenLoop(address, msgspec.json.decode(text, type=Offer)).run()).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
