"""Workers of which one is slower than the others, and an open load: what each policy makes of it, in invented time.

What `famulus bench policy` measures with real processes, without the noise of a machine: the same seed gives the same
figures. The dispatcher and the router are the real ones.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from random import Random

from famulus.core.clock import NS_PER_MS
from famulus.core.delivery import Policy, ServicePolicy
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.dispatch.outgoing import Frames
from famulus.core.routing.book import Book, BrokerAddress
from famulus.core.routing.router import Router
from famulus.lab.sim.clock import Clock
from famulus.wire import headers, inner

_SERVICE = "work"
_ROUTER = b"router"


@dataclass(frozen=True, slots=True)
class Uneven:
    slots: int
    workers: int = 8
    work_ns: int = 10 * NS_PER_MS
    #: How many times as long the first worker takes.
    slower: float = 10.0
    #: Offered, as a share of what all of them can do.
    load: float = 0.6
    #: Whether a worker does one task after the other, or as many at once as it has slots.
    one_by_one: bool = True
    #: Whether tasks come at random, and not at about even intervals.
    at_random: bool = False
    tasks: int = 6_000
    #: So many come before anything is measured.
    warm_up: int = 1_500

    @property
    def pause_ns(self) -> float:
        """Between two tasks, on average."""
        at_once = 1 if self.one_by_one else self.slots
        return self.work_ns / (self.load * (self.workers - 1 + 1 / self.slower) * at_once)


class UnevenWorkers:
    def __init__(self, plan: Uneven, policy: Policy, seed: int) -> None:
        self._plan = plan
        self._random = Random(seed)
        self._clock = Clock()
        self._core = Dispatcher(Bounds(), 1, [])
        address = BrokerAddress("sim", "sim", "tcp://sim:1", "tcp://sim:2")
        services = {_SERVICE: ServicePolicy(policy=policy)}
        self._router = Router(Book(address, heartbeat_ms=3_600_000, services=services), lambda: "some-id")
        self._came_ns: dict[bytes, int] = {}
        self._took_ns: list[int] = []
        #: By worker, what it has and has not begun; and who is at it.
        self._waiting: dict[bytes, deque[tuple[bytes, bytes]]] = {}
        self._at_work: set[bytes] = set()

    def p99_ns(self) -> int:
        """Of the time from the task's arrival to its answer."""
        self._begin()
        self._clock.after(0, self._submit)
        core, clock = self._core, self._clock
        while len(self._took_ns) < self._plan.tasks:
            core.at(clock.next_ns)
            clock.step()
            if core.next_due_ns <= clock.now_ns:
                core.on_tick()
            core.flush(self)
        measured = sorted(self._took_ns[self._plan.warm_up :])
        return measured[len(measured) * 99 // 100]

    def _begin(self) -> None:
        core = self._core
        core.at(self._clock.now_ns)
        core.on_router(_ROUTER, [[inner.NO_NUMBER, inner.HELLO]])
        for number in range(self._plan.workers):
            peer = b"worker-%d" % number
            self._waiting[peer] = deque()
            terms = {"identity": peer.decode(), "slots": self._plan.slots, "heartbeat_ms": 3_600_000}
            core.on_workers([[peer, b"", headers.write("CONNECT", "REQUEST", services=[_SERVICE], **terms), b""]])
            core.flush(self)
            core.on_workers([[peer, b"", headers.write("PING", "REQUEST"), b""]])
            core.flush(self)

    def _submit(self) -> None:
        name = b"%d" % len(self._came_ns)
        self._came_ns[name] = self._clock.now_ns
        header = headers.write("TASK", "REQUEST", service=_SERVICE, timeout_ms=30_000)
        self._core.on_clients([[b"client", name, header, name]])
        plan, random = self._plan, self._random
        pause_ns = random.expovariate(1.0) if plan.at_random else random.uniform(0.9, 1.1)
        self._clock.after(int(plan.pause_ns * pause_ns), self._submit)

    def _work(self, peer: bytes) -> None:
        """It begins what it can."""
        plan, waiting = self._plan, self._waiting[peer]
        while waiting and not (plan.one_by_one and peer in self._at_work):
            self._at_work.add(peer)
            takes_ns = plan.work_ns * (plan.slower if peer == b"worker-0" else 1.0) * self._random.uniform(0.95, 1.05)
            self._clock.after(int(takes_ns), partial(self._answer, peer, *waiting.popleft()))

    def _answer(self, peer: bytes, ticket: bytes, header: bytes) -> None:
        message_id = headers.read_fields(header)["message_id"]
        self._core.on_workers([[peer, ticket, headers.write_task_response(message_id, _SERVICE, "OK", ""), b""]])
        self._at_work.discard(peer)
        self._work(peer)

    # -- what leaves the dispatcher -----------------------------------------------------------------------------

    def to_clients(self, messages: list[Frames]) -> list[Frames]:
        self._took_ns += [self._clock.now_ns - self._came_ns[name] for _, name, _, _ in messages]
        return []

    def to_workers(self, messages: list[Frames]) -> list[Frames]:
        for peer, ticket, header, body in messages:
            if body.isdigit():  # everything else is about the connection
                self._waiting[peer].append((ticket, header))
                self._work(peer)
        return []

    def to_router(self, router: bytes, questions: list[Frames]) -> bool:
        self._core.on_router(router, self._router.decide(questions))
        return True

    def to_delegate(self, identity: bytes, task: Frames) -> bool:
        raise AssertionError("this broker stands alone")

    def to_steward(self, messages: list[Frames]) -> bool:
        raise AssertionError("this broker stands alone")
