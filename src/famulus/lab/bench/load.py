"""The client process of the latency, the overload and the scale measurement.

python -m famulus.lab.bench load ADDRESS OFFER

OFFER is an `OfferedLoad` in JSON: an open loop with a fixed number of tasks a second, whatever comes back, or a closed
one that keeps a fixed number open. In an open loop every task is due at an instant that is fixed beforehand, and its
latency counts from then on, even if it left later because this process or the broker was held up. A loop that counts
from the sending leaves out exactly the tasks that had to wait longest ("coordinated omission").

Where there are several connections or services, each task goes to the next one, in turn.
"""

from __future__ import annotations

import select
from collections import Counter
from collections.abc import Callable, Iterator, Sized
from itertools import cycle
from time import monotonic_ns

import msgspec

from famulus.client.connection import Connection
from famulus.client.rules import error_of
from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.session.client import Done
from famulus.core.session.task_kind import TaskKind
from famulus.errors import BenchFailed
from famulus.lab.bench import descriptors
from famulus.lab.bench.buckets import LatencyBuckets
from famulus.lab.bench.figures import Figures
from famulus.lab.bench.fleet import GRACE_S, Crew
from famulus.lab.bench.meter import Meter
from famulus.lab.bench.nats_crowd import SCHEME, NatsCaller
from famulus.lab.bench.steps import service_name
from famulus.net.passes import read_pass
from famulus.wire import headers

CONNECT_WITHIN_S = 30
#: At most this many are submitted before the answers are looked at, when a lot is due.
BURST_MAX = 100
#: Connections with nothing to read are checked this often.
LOOK_NS = 50 * NS_PER_MS


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
    #: If not 0, this many services of a crowd are asked instead.
    services: int = 0
    connections: int = 1
    #: How many of the connections carry tasks; the others are idle.
    asking: int = 1
    #: If not 0, each task has one of this many keys, in turn.
    keys: int = 0
    #: Process ids. Their CPU time is read at the very moments between which the tasks are counted.
    weigh: list[int] = []


class Seen(msgspec.Struct, frozen=True):
    """What became of the tasks that count."""

    offered: int
    outcomes: dict[str, int]
    #: In nanoseconds, by outcome; for rejected tasks, by the code of the reason.
    latencies: dict[str, LatencyBuckets]
    #: The longest that a task left after it was due: large where this process could not keep up.
    latest_ns: int
    #: As a meter reports them, if there were processes to weigh: they are the part `server`.
    figures: Figures = {}

    def latency(self, which: str) -> LatencyBuckets:
        return self.latencies.get(which, LatencyBuckets())


class Schedule:
    """When each task is due: evenly, from `start_ns` until `until_ns`. Reads no clock."""

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
    """A task is due whenever fewer than this many are open. Reads no clock."""

    def __init__(self, open_tasks: Sized, size: int, until_ns: int) -> None:
        self._open = open_tasks
        self._size = size
        self._until_ns = until_ns
        self.is_over = False

    @property
    def next_ns(self) -> int:
        return 0 if len(self._open) < self._size else self._until_ns

    def due(self, now_ns: int, most: int) -> list[int]:
        self.is_over = now_ns >= self._until_ns
        return [] if self.is_over else [now_ns] * min(most, self._size - len(self._open))


class BrokerCaller:
    """A connection to a broker."""

    def __init__(self, address: str) -> None:
        self._connection = connection = Connection(address, admitted_by=read_pass(None))
        self.fd = connection.line.fd
        self.submit, self.send, self.step = connection.session.submit, connection.send, connection.step

    @property
    def is_up(self) -> bool:
        return self._connection.line.up

    @property
    def next_due_ns(self) -> int:
        return self._connection.next_due_ns


Caller = BrokerCaller | NatsCaller


class Loop:
    def __init__(self, address: str, offer: OfferedLoad) -> None:
        self._offer = offer
        # Before the connections, since select accepts only low descriptor numbers.
        self._epoll = select.epoll()
        kind = NatsCaller if address.startswith(SCHEME) else BrokerCaller
        callers: list[Caller] = [kind(address) for _ in range(offer.connections)]
        self._by_fd = {caller.fd: caller for caller in callers}
        self._turn = cycle(callers[: offer.asking])
        services = [service_name(number) for number in range(offer.services)] or [offer.service]
        keys = [headers.write_more(key=f"key-{number}") for number in range(offer.keys)] or [b""]
        self._kinds = cycle([TaskKind(service, offer.timeout_ms, more=key) for service in services for key in keys])
        self._body = bytes(offer.size)
        self._outcomes: Counter[str] = Counter()
        self._latencies: dict[str, LatencyBuckets] = {}
        self._open = self._offered = self._latest_ns = self._look_ns = 0
        self._connect()
        self._start_ns = monotonic_ns() + NS_PER_MS
        self._from_ns = self._start_ns + int(offer.warm_up_s * NS_PER_S)
        self._until_ns = self._from_ns + int(offer.seconds * NS_PER_S)
        self._meter = Meter(self._from_ns, self._until_ns, offer.size, {"server": offer.weigh})

    def __len__(self) -> int:
        """How many tasks are open."""
        return self._open

    def run(self) -> Seen:
        offer = self._offer
        schedule: Schedule | Window = Window(self, offer.window, self._until_ns)
        if offer.per_s:
            schedule = Schedule(self._start_ns, self._until_ns, offer.per_s)
        # Tasks that are still open are waited for, so that the next measurement finds no worker busy.
        while not schedule.is_over or self._open:
            self._submit(schedule)
            for caller in self._with_news(self._look_ns if schedule.is_over else schedule.next_ns):
                self._note(caller.step())
        figures = self._meter.report() if offer.weigh else {}
        return Seen(self._offered, dict(self._outcomes), self._latencies, self._latest_ns, figures)

    def _connect(self) -> None:
        until_ns = monotonic_ns() + CONNECT_WITHIN_S * NS_PER_S
        for fd in self._by_fd:
            self._epoll.register(fd, select.EPOLLIN)
        down = list(self._by_fd.values())
        while down := [caller for caller in down if not caller.is_up]:
            if monotonic_ns() > until_ns:
                raise BenchFailed(f"{len(down)} of {len(self._by_fd)} connections were not made in time")
            for caller in self._with_news(until_ns):
                caller.step()

    def _submit(self, schedule: Schedule | Window) -> None:
        now_ns = monotonic_ns()
        asked: set[Caller] = set()
        for due_ns in schedule.due(now_ns, BURST_MAX):
            caller = next(self._turn)
            caller.submit(now_ns, due_ns, next(self._kinds), self._body)
            asked.add(caller)
            self._open += 1
            if due_ns >= self._from_ns:
                self._offered += 1
                self._latest_ns = max(self._latest_ns, now_ns - due_ns)
        for caller in asked:
            caller.send()

    def _with_news(self, until_ns: int) -> Iterator[Caller]:
        """The callers with something to read by then; from time to time also those for which something is due."""
        # select, and not epoll: its time-out is exact to the microsecond, while that of epoll is in milliseconds.
        timeout_s = max(0, min(until_ns, self._look_ns) - monotonic_ns()) / NS_PER_S
        select.select([self._epoll], [], [], timeout_s)
        for fd, _ in self._epoll.poll(0):
            yield self._by_fd[fd]
        now_ns = monotonic_ns()
        if now_ns >= self._look_ns:
            self._look_ns = now_ns + LOOK_NS
            yield from (caller for caller in self._by_fd.values() if caller.next_due_ns <= now_ns)

    def _note(self, ended: list[Done]) -> None:
        now_ns = monotonic_ns()
        for done in ended:
            due_ns = done.token
            assert isinstance(due_ns, int)
            self._open -= 1
            self._meter.count(due_ns, now_ns)
            if not self._from_ns <= (now_ns if self._offer.by_end else due_ns) < self._until_ns:
                continue
            self._outcomes[done.outcome] += 1
            which = error_of(done).code if done.outcome == "REJECTED" else done.outcome
            self._latencies.setdefault(which, LatencyBuckets()).add(now_ns - due_ns)


def start(crew: Crew, address: str, offer: OfferedLoad) -> Callable[[], Seen]:
    """Start a loop in a process of its own; what is returned waits for its end, and returns what it saw."""
    client = crew.part("client", "load", address, msgspec.json.encode(offer).decode(), stderr=True)
    within_s = offer.seconds + offer.warm_up_s + offer.timeout_ms / 1000 + GRACE_S
    return lambda: msgspec.json.decode(client.output(within_s), type=Seen)


def main(address: str, text: str) -> None:
    descriptors.raise_limit()
    print(msgspec.json.encode(Loop(address, msgspec.json.decode(text, type=OfferedLoad)).run()).decode())
