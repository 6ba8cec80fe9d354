"""More work than workers can do, for as long as it takes to see what becomes of it.

One dispatcher, one worker and a steady stream of tasks; a network between them would only blur how much can be done,
and make thousands of tasks slow. A seed says how many slots there are, how long a
task takes and how much that varies, which time-outs the clients have, and how many times the capacity they ask for.
Beyond the capacity nothing can be done; but what can be done must be, in time, and nothing may be begun in vain.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from random import Random

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.dispatch.outgoing import Frames
from famulus.core.routing.book import Book, BrokerAddress
from famulus.core.routing.router import Router
from famulus.lab.sim.invariants import Invariant, demand
from famulus.lab.sim.tasks.dispatcher_checks import check_step
from famulus.lab.sim.workload import Result, Workload
from famulus.lab.sim.world import World
from famulus.wire import headers, inner

#: More tasks than this would tell nothing more.
TASKS_MAX = 8_000
#: How much of the capacity must be done in time, and how much of what a worker was given may be done in vain.
GOODPUT_MIN = 0.95
UNKNOWN_MAX = 0.01
#: Of the rejected: the rest waited first. The wait is an estimate, and more urgent tasks come first.
AT_ONCE_MIN = 0.5


@dataclass(frozen=True, slots=True)
class Load:
    slots: int
    work_ns: int
    #: A task takes up to this share of `work_ns` more or less.
    spread: float
    #: Of the clients, each of whom asks as often as the others.
    timeouts_ns: tuple[int, ...]
    #: Offered, in multiples of the capacity.
    factor: float

    @property
    def per_s(self) -> float:
        """How many tasks can be done in a second."""
        return self.slots * NS_PER_S / self.work_ns

    @property
    def lasts_ns(self) -> int:
        """Until what may wait does wait, and as long again; but no longer than it takes to offer TASKS_MAX tasks."""
        settled_ns = max(self.timeouts_ns) + 20 * self.work_ns
        return min(3 * settled_ns, int(TASKS_MAX / self.factor / self.per_s * NS_PER_S))


def draw(seed: int) -> Load:
    random = Random(seed)
    work_ns = random.choice([1, 8, 50, 200, 1000]) * NS_PER_MS
    spread = random.choice([0.0, 0.1, 0.3])
    # In the time that it has, a task must be able to wait a little and to run for as long as any task does.
    enough_ns = int(2.2 * work_ns * (1 + spread)) + 40 * NS_PER_MS
    timeouts = [
        ms * NS_PER_MS for ms in (100, 200, 500, 1000, 2000, 5000, 20_000, 60_000) if ms * NS_PER_MS >= enough_ns
    ]
    some = random.sample(timeouts, min(len(timeouts), random.randint(1, 3)))
    if random.random() < 0.3:
        some.append(max(work_ns // 3, NS_PER_MS))  # and somebody who never has enough time
    return Load(random.choice([1, 2, 4, 8, 32]), work_ns, spread, tuple(some), random.choice([2.0, 3.0, 5.0]))


class Overload(Workload):
    def __init__(self, world: World, brokers: int) -> None:
        super().__init__(world)
        self.load = draw(world.seed)
        self._core = Dispatcher(Bounds(), 1, [b"work"])
        address = BrokerAddress("sim", "sim", "tcp://sim:1", "tcp://sim:2")
        # A worker that never falls silent: heartbeats have nothing to do with load.
        self._router = Router(Book(address, heartbeat_ms=60_000, services={}), lambda: "some-id")
        self._sent = 0
        self._ran: set[bytes] = set()
        self._outcomes: Counter[str] = Counter()
        self._too_late = 0
        self._at_once = 0
        #: How long each open task takes once it runs; when it came.
        self._takes_ns: dict[bytes, int] = {}
        self._came_ns: dict[bytes, int] = {}
        self._done_ns = 0

    def live(self) -> Result:
        load, began_ns = self.load, self.clock.now_ns
        self._begin()
        self.clock.after(0, self._submit)
        self._run_until(began_ns + load.lasts_ns // 2)
        before, done_before_ns = self._outcomes.copy(), self._done_ns
        self._run_until(began_ns + load.lasts_ns)
        check_step(self._core, self.clock.now_ns)
        measured = self._outcomes - before
        could_ns = load.slots * (load.lasts_ns - load.lasts_ns // 2)
        had = measured["OK"] + measured["UNKNOWN"]
        figures = {
            # The work of tasks that ended OK in the second half of the time, as a share of all the time of all slots.
            "goodput": (self._done_ns - done_before_ns) / could_ns,
            # Of the tasks that a worker had then, those that were given up before their answer.
            "unknown": measured["UNKNOWN"] / had if had else 0.0,
        }
        self._check_end(figures)
        outcomes, steps = dict(self._outcomes), self.clock.steps
        return Result(self.world.seed, steps, tasks=self._outcomes.total(), outcomes=outcomes, figures=figures)

    def _check_end(self, figures: dict[str, float]) -> None:
        """It must have done what could be done."""
        goodput, unknown, load = figures["goodput"], figures["unknown"], self.load
        demand(goodput >= GOODPUT_MIN, Invariant.GOODPUT, f"{goodput:.1%} of what could be done; {load}")
        demand(unknown <= UNKNOWN_MAX, Invariant.IN_VAIN, f"{unknown:.1%} of the work was in vain; {load}")
        tries, late = 1 + load.lasts_ns // NS_PER_S, self._too_late
        demand(late <= tries, Invariant.IN_VAIN, f"{late} tasks were given out too late; {load}")
        rejected, at_once = self._outcomes["REJECTED"], self._at_once
        prompt = at_once >= AT_ONCE_MIN * rejected
        demand(prompt, Invariant.PROMPTNESS, f"{at_once} of {rejected} did not wait; {load}")

    def _run_until(self, end_ns: int) -> None:
        clock, core = self.clock, self._core
        while (next_ns := clock.next_ns) < end_ns:
            while (due_ns := core.next_due_ns) <= next_ns:
                clock.now_ns = max(clock.now_ns, due_ns)
                core.at(clock.now_ns)
                core.on_tick()
                core.flush(self)
            core.at(next_ns)
            clock.step()
            core.flush(self)

    # -- what happens -------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        core = self._core
        core.at(self.clock.now_ns)
        core.on_router(b"router", [[inner.NO_NUMBER, inner.HELLO]])
        hello = headers.write(
            "CONNECT", "REQUEST", identity="worker", services=["work"], slots=self.load.slots, heartbeat_ms=60_000
        )
        for header in (hello, headers.write("PING", "REQUEST")):
            core.on_workers([[b"worker", b"", header, b""]])
            core.flush(self)
        demand(b"work" in core.services.by_name, Invariant.END, "the worker is not there")

    def _submit(self) -> None:
        timeout_ns = self.random.choice(self.load.timeouts_ns)
        priority = self.random.choice([5, 5, 5, 5, 9])
        fields = {"service": "work", "timeout_ms": max(1, timeout_ns // NS_PER_MS), "priority": priority}
        self._sent += 1
        name = b"%d" % self._sent
        self._came_ns[name] = self.clock.now_ns
        self._core.on_clients([[b"client", name, headers.write("TASK", "REQUEST", **fields), name]])
        # Nobody asks at exactly regular intervals.
        pause_ns = NS_PER_S / self.load.per_s / self.load.factor
        self.clock.after(int(pause_ns * self.random.uniform(0.5, 1.5)), self._submit)

    def _work(self, ticket: bytes, header: bytes, name: bytes) -> None:
        demand(name not in self._ran, Invariant.DELIVERY, f"task {name!r} ran twice")
        self._ran.add(name)
        load = self.load
        fields = headers.read_fields(header)
        shortest_ns = int(load.work_ns * (1 - load.spread))
        # A time-out is given in whole milliseconds.
        if len(self._ran) > 100 and (fields["timeout_ms"] + 1) * NS_PER_MS < shortest_ns:
            self._too_late += 1
        takes_ns = int(load.work_ns * self.random.uniform(1 - load.spread, 1 + load.spread))
        answer = headers.write("TASK", "RESPONSE", message_id=fields["message_id"], service="work")
        self._takes_ns[name] = takes_ns
        self.clock.after(takes_ns, partial(self._core.on_workers, [[b"worker", ticket, answer, name]]))

    def _ended(self, name: bytes, header: bytes) -> None:
        outcome = headers.read_fields(header)["outcome"]
        self._outcomes[outcome] += 1
        takes_ns, came_ns = self._takes_ns.pop(name, 0), self._came_ns.pop(name)
        if outcome == "OK":
            self._done_ns += takes_ns
        elif outcome == "REJECTED" and came_ns == self.clock.now_ns:
            self._at_once += 1
        ran = name in self._ran
        demand(outcome != "REJECTED" or not ran, Invariant.DELIVERY, f"task {name!r} was rejected and ran")
        demand(outcome == "REJECTED" or ran, Invariant.DELIVERY, f"task {name!r} is {outcome} and never ran")

    # -- what leaves the dispatcher -----------------------------------------------------------------------------

    def to_clients(self, messages: list[Frames]) -> list[Frames]:
        for _, name, header, _ in messages:
            self._ended(name, header)
        return []

    def to_workers(self, messages: list[Frames]) -> list[Frames]:
        for _, ticket, header, body in messages:
            if body.isdigit():  # everything else is about the connection
                self._work(ticket, header, body)
        return []

    def to_router(self, router: bytes, questions: list[Frames]) -> bool:
        self._core.on_router(router, self._router.decide(questions))
        return True

    def to_delegate(self, identity: bytes, task: Frames) -> bool:
        raise AssertionError("this broker stands alone")

    def to_steward(self, messages: list[Frames]) -> bool:
        raise AssertionError("this broker stands alone")
