"""A broker: the real dispatcher, routers that take their time, a steward, and lines to other brokers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.config.edit import SignedEdit
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.routing.book import Book
from famulus.core.routing.router import Router
from famulus.lab.sim.actor import BATCH_MAX, Doors
from famulus.lab.sim.network import Frames, Plug, delay_ns
from famulus.lab.sim.tasks.dispatcher_checks import check_step
from famulus.lab.sim.tasks.setting import Setting
from famulus.lab.sim.tasks.steward import StewardActor
from famulus.lab.sim.tasks.watcher import Watched, Watcher
from famulus.lab.sim.world import World
from famulus.wire import inner

#: The router within its own process.
ROUTER = b"router"
REPORT_NS = 1 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Common:
    """What all brokers of one network have in common."""

    setting: Setting
    #: The first edits of the network.
    first: list[SignedEdit]
    stewards: dict[str, StewardActor] = field(default_factory=dict)
    watched: Watched = field(default_factory=Watched)


class Broker(Doors):
    """Its steward may die with the dispatcher, or go on without it."""

    def __init__(self, world: World, name: str, common: Common) -> None:
        super().__init__(world, name)
        setting = common.setting
        self.lives = 0
        self.by_flow = 0
        #: To other brokers, by their names.
        self.lines: dict[bytes, Plug] = {}
        self.instant = setting.instant
        self.asks_itself = setting.instant or setting.routers == (0,)
        self.steward = StewardActor(world, self, common.first, common.stewards)
        self._bounds = Bounds(open_tasks_max=60, questions_max=500, flows_max=setting.flows_max)
        self._common = common
        #: A counter of its own: how often a router is asked for an id must make no other difference.
        self._ids = count(1)
        self._start_dispatcher()
        #: Where it listens, for clients and workers.
        self.address = self._book.broker
        #: And for its routers.
        self.inside = f"ipc://{name}"
        for address in (self.address.frontend, self.address.backend, self.inside):
            world.network.listeners[address] = self

    def _start_dispatcher(self) -> None:
        self.lives += 1
        self.open_doors("client", "worker", "router")
        self._offers: list[list[inner.PeerOffer]] = []
        self._report_ns = 0
        now_ns = self.clock.now_ns
        self.core = self.new_dispatcher(now_ns + NS_PER_S if self.lives > 1 else 0)
        self.watcher = Watcher(self.world, self.name, self.core, self.lines, self._common.watched)
        self._take_book(self.steward.book)
        self.wake_at(now_ns)

    def new_dispatcher(self, settled_at_ns: int, **parts: Any) -> Dispatcher:
        first_number, secret = self.random.getrandbits(64), self.new_token()
        return Dispatcher(self._bounds, first_number, [b"once"], settled_at_ns, secret=secret, **parts)

    # -- life and death -----------------------------------------------------------------------------------------

    def die(self, notice_ns: int, away_ns: int, *, with_steward: bool) -> None:
        """It starts again later, with an empty memory; the edits of its steward are on its disk."""
        self.count_up()
        self.close_doors(notice_ns)
        self.watcher.forget()
        for line in self.lines.values():
            line.close()
        self.lines.clear()
        if with_steward:
            self.steward.die(notice_ns)
        self.clock.after(away_ns, self._start)

    def _start(self) -> None:
        if not self.steward.alive:
            self.steward.start()
        self._start_dispatcher()

    def resume(self, paused_ns: int) -> None:
        if self.alive and paused_ns > NS_PER_S:
            self.core.on_pause(paused_ns)
        super().resume(paused_ns)

    def count_up(self) -> None:
        """Add up what its dispatcher counted in the life that is now over."""
        counters, events = self.core.counters, self.world.events
        self.by_flow += counters.by_flow
        events["asked again under the same id"] += counters.repeated
        events["another attempt"] += counters.attempts_again
        events["late answer"] += counters.late

    # -- what its steward and its routers say -------------------------------------------------------------------

    def announce(self, kind: bytes, epoch: int, subject: bytes) -> None:
        """Over PUB and SUB: to whatever dispatcher is running then."""
        message = inner.write_announcement(kind, epoch, subject)
        self.clock.after(delay_ns(self.random), partial(self.take, "announcement", b"", message))

    def on_offers(self, offers: list[inner.PeerOffer]) -> None:
        self._offers.append(offers)
        self.wake_at(self.clock.now_ns)

    def on_book(self, book: Book) -> None:
        if book != self._book:
            self._take_book(book)

    def _take_book(self, book: Book) -> None:
        self._book = book
        self.router = Router(book, lambda: f"{self.name}-{next(self._ids)}")

    # -- one pass -----------------------------------------------------------------------------------------------

    def run(self, now_ns: int) -> None:
        core = self.core
        core.at(now_ns)
        if self.asks_itself:
            core.on_router(ROUTER, [[inner.NO_NUMBER, inner.HELLO]])
        came = self.take_inbox(1 if self.instant else BATCH_MAX)
        core.on_announcements([message for _, *message in came["announcement"]])
        for router, *decision in came["router"]:
            core.on_router(router, [decision])
        core.on_workers(came["worker"])
        self._decide_instantly()
        core.sessions.gone(self.take_gone())
        self.watcher.on_clients(came["client"])
        core.on_clients(came["client"])
        self._decide_instantly()
        self._follow_steward()
        self._follow_lines()
        if core.next_due_ns <= now_ns:
            core.on_tick()
        core.flush(self)
        check_step(core, now_ns)
        self.watcher.after_run()
        if now_ns >= self._report_ns:
            self._report(now_ns)
        if core.drained():
            self.world.events["broker drained"] += 1
            self.die(0, self.random.randrange(50 * NS_PER_MS, NS_PER_S), with_steward=True)
        else:
            self.wake_at(max(min(core.next_due_ns, self._report_ns), now_ns + 1))

    def _decide_instantly(self) -> None:
        while self.instant and (batches := self.core.questions.take_batches()):
            for router, questions in batches:
                self.core.on_router(router, self.router.decide(questions))

    def _follow_steward(self) -> None:
        told, self._offers = self._offers, []
        for offers in told:
            with self.watcher.peer_loss():
                self.core.on_peers(self.name, offers)
            self._meet_delegates()

    def _meet_delegates(self) -> None:
        """A line to every peer that may help, and to no other."""
        wanted = {identity: delegate.frontend for identity, delegate in self.core.delegates.by_identity.items()}
        for identity, line in list(self.lines.items()):
            if wanted.get(identity) != line.address:
                line.close()
                del self.lines[identity]
        for identity, address in wanted.items():
            if identity not in self.lines:
                self.lines[identity] = self.plug_to(address, "client")

    def _follow_lines(self) -> None:
        for identity, line in self.lines.items():
            for up in line.changes():
                with self.watcher.peer_loss():
                    self.core.on_delegate_link(identity, up)
            came = line.recv()
            if came:
                self.watcher.on_delegate(came)
                self.core.on_delegate(identity, came)

    def _report(self, now_ns: int) -> None:
        """Once a second the steward hears how much there is to do."""
        self._report_ns = now_ns + REPORT_NS
        work, slots, steward = self.core.work(), self.core.slots(), self.steward.core
        self.clock.after(self.random.randrange(2 * NS_PER_MS), lambda: steward.on_work(work, slots))

    # -- what leaves the dispatcher -----------------------------------------------------------------------------

    def to_clients(self, messages: list[Frames]) -> list[Frames]:
        self.watcher.on_answers(messages)
        return self.send("client", messages)

    def to_workers(self, messages: list[Frames]) -> list[Frames]:
        self.watcher.on_hand_outs(messages)
        return self.send("worker", messages)

    def to_router(self, router: bytes, questions: list[Frames]) -> bool:
        if not self.asks_itself:
            return not self.send("router", [[router, *question] for question in questions])
        # A router reads as fast as it can, which is not always fast.
        slow = self.random.random() < 0.03
        within_ns = 100 * NS_PER_MS if slow else NS_PER_MS
        self.clock.after(self.random.randrange(within_ns), partial(self._decide, self.lives, questions))
        return True

    def _decide(self, life: int, questions: list[Frames]) -> None:
        if self.lives == life:
            for decision in self.router.decide(questions):
                self.take("router", ROUTER, decision)

    def to_delegate(self, identity: bytes, task: Frames) -> bool:
        line = self.lines.get(identity)
        if line is None or not line.up or not line.send([task]):
            return False
        self.watcher.on_hand_over(identity, task)
        return True

    def to_steward(self, messages: list[Frames]) -> bool:
        raise AssertionError("no admin asks for anything here")
