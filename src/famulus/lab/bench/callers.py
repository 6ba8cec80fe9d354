"""The client process of the scale measurement: a closed loop over many connections and many services.

python -m famulus.lab.bench.callers ADDRESS CALL

CALL is a `CallStep` in JSON. It says how many tasks are open at once over all connections; each one that ends is
followed by one to the next service over the next connection, in turn. The CPU time of the processes to be measured is
read here, at the very moments between which the tasks are counted.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from itertools import cycle
from time import monotonic_ns

import msgspec

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.session.client import ClientSession, Done
from famulus.errors import BenchFailed
from famulus.lab.bench import descriptors
from famulus.lab.bench.crowd import BATCH_MAX, is_up, new_crowd_context, service_name
from famulus.lab.bench.meter import Meter
from famulus.lab.bench.steps import Step
from famulus.net.pump import recv_many, send_some
from famulus.net.sockets import Context, descriptor, outside_dealer
from famulus.net.waiting import Waiting

CONNECT_WITHIN_S = 30
TIMEOUT_MS = 30_000


class CallStep(msgspec.Struct, frozen=True):
    step: Step
    seconds: float
    warm_up_s: float
    #: Process ids.
    weigh: list[int]

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class Answers(msgspec.Struct, frozen=True):
    """What came between the two moments, as a meter reports it; the part that it weighs is `server`."""

    figures: dict[str, float]
    outcomes: dict[str, int]


class Caller:
    """One connection."""

    __slots__ = ("fd", "session", "socket")

    def __init__(self, context: Context, address: str) -> None:
        self.session = ClientSession()
        self.socket = outside_dealer(context, heartbeats=True)
        self.socket.connect(address)
        self.fd = descriptor(self.socket)

    def step(self, now_ns: int) -> list[Done]:
        session = self.session
        done: list[Done] = []
        while True:
            batch = recv_many(self.socket, BATCH_MAX)
            if batch:
                done += session.on_messages(batch)
            sent = 0
            if session.unsent:
                sent = send_some(self.socket, session.next_to_send(now_ns, BATCH_MAX))
                session.on_sent(sent)
            if session.next_due_ns <= now_ns:
                done += session.on_tick(now_ns)
            if not sent and len(batch) < BATCH_MAX:
                return done


class ClosedLoop:
    """This many tasks are open at once: each one that ends is followed by another."""

    def __init__(self, call: CallStep) -> None:
        self._call = call
        self._window = call.step.window
        self._open = 0
        self._outcomes: Counter[str] = Counter()

    @property
    def _room(self) -> int:
        return self._window - self._open

    def run(self) -> Answers:
        call = self._call
        self._from_ns = monotonic_ns() + int(call.warm_up_s * NS_PER_S)
        self._until_ns = self._from_ns + int(call.seconds * NS_PER_S)
        self._meter = Meter(self._from_ns, self._until_ns, call.step.size, {"server": call.weigh})
        while monotonic_ns() < self._until_ns:
            self._step(self._until_ns)
        answers = Answers(self._meter.report(), dict(self._outcomes))
        # What is still open is brought home, so that the next measurement finds nobody at work.
        self._window = 0
        until_ns = monotonic_ns() + CONNECT_WITHIN_S * NS_PER_S
        while self._open and monotonic_ns() < until_ns:
            self._step(until_ns)
        return answers

    def _ended(self, outcome: str, sent_ns: int, now_ns: int) -> None:
        self._open -= 1
        self._meter.count(sent_ns, now_ns)
        if self._from_ns <= now_ns < self._until_ns:
            self._outcomes[outcome] += 1

    def _step(self, until_ns: int) -> None:
        """Ask for as many as there is room for, and take what comes, waiting for it until then."""
        raise NotImplementedError


class Callers(ClosedLoop):
    def __init__(self, address: str, call: CallStep) -> None:
        super().__init__(call)
        step = call.step
        self._context = new_crowd_context(step.connections)
        self._callers = [Caller(self._context, address) for _ in range(step.connections)]
        self._by_fd: dict[object, Caller] = {caller.fd: caller for caller in self._callers}
        self._waiting = Waiting()
        for caller in self._callers:
            self._waiting.watch(caller.fd)
        self._turn = cycle(self._callers[: step.asking])
        self._services = cycle([service_name(number) for number in range(step.asked)])
        self._body = bytes(step.size)
        #: Those that have something to send.
        self._eager: set[Caller] = set()

    def connect(self) -> None:
        until_ns = monotonic_ns() + CONNECT_WITHIN_S * NS_PER_S
        down = set(self._callers)
        while down:
            if monotonic_ns() > until_ns:
                raise BenchFailed(f"{len(down)} of {len(self._callers)} connections were not made in time")
            self._waiting.wait(monotonic_ns() + 100 * NS_PER_MS)
            down = {caller for caller in down if not is_up(caller.socket)}

    def _step(self, until_ns: int) -> None:
        now_ns = monotonic_ns()
        self._ask(now_ns)
        eager, self._eager = self._eager, set()
        self._take(eager, now_ns)
        # Whoever has just brought answers makes room for new tasks: those leave before anybody waits.
        self._take((self._by_fd[fd] for fd in self._waiting.wait(now_ns if self._room else until_ns)), monotonic_ns())

    def _ask(self, now_ns: int) -> None:
        for _ in range(self._room):
            caller = next(self._turn)
            caller.session.submit(now_ns, now_ns, next(self._services), self._body, TIMEOUT_MS)
            self._eager.add(caller)
            self._open += 1

    def _take(self, callers: Iterable[Caller], now_ns: int) -> None:
        for caller in callers:
            for done in caller.step(now_ns):
                assert isinstance(done.token, int)
                self._ended(done.outcome, done.token, now_ns)


def main(address: str, text: str) -> None:
    descriptors.raise_limit()
    callers = Callers(address, msgspec.json.decode(text, type=CallStep))
    callers.connect()
    print(msgspec.json.encode(callers.run()).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
