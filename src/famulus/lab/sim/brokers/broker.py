"""One broker of several: the real dispatcher, a router that takes its time, a steward, and lines to other brokers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.config.edit import SignedEdit
from famulus.core.dispatch.delegates import Offer
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.routing.book import Book
from famulus.core.routing.router import Router
from famulus.lab.sim.actors import BATCH_MAX, Doors
from famulus.lab.sim.brokers.invariants import check_broker
from famulus.lab.sim.brokers.plug import Plug
from famulus.lab.sim.brokers.steward import StewardActor
from famulus.lab.sim.brokers.watcher import Watcher
from famulus.lab.sim.network import Frames
from famulus.wire import inner

if TYPE_CHECKING:
    from famulus.lab.sim.brokers.world import World

ROUTER = b"router"
REPORT_NS = 1 * NS_PER_S


class Broker(Doors):
    """Dispatcher and steward live and die together; routers are never lost here, as the other simulation loses them."""

    world: World

    def __init__(self, world: World, name: str, network: str, first: list[SignedEdit]) -> None:
        super().__init__(world, name)
        self.lives = 0
        #: How often its dispatcher was asked for a task that it knew, when somebody looked last.
        self.repeated = 0
        #: To other brokers, by their names.
        self.lines: dict[bytes, Plug] = {}
        self.steward = StewardActor(world, self, network, first)
        self._start_dispatcher()

    @property
    def frontend(self) -> str:
        return self._book.broker.frontend

    @property
    def backend(self) -> str:
        return self._book.broker.backend

    def _start_dispatcher(self) -> None:
        self.lives += 1
        self.open_doors("client", "worker")
        self._decisions: list[list[Frames]] = []
        self._offers: list[list[Offer]] = []
        self._announcements: list[Frames] = []
        self._report_ns = self.repeated = 0
        now_ns = self.world.clock.now_ns
        settled_at_ns = now_ns + NS_PER_S if self.lives > 1 else 0
        secret = f"{self.random.getrandbits(64):016x}"
        self.core = Dispatcher(
            self.world.bounds, self.random.getrandbits(64), self.world.declared, settled_at_ns, secret=secret
        )
        self.watcher = Watcher(self)
        self._take_book(self.steward.book)
        self.wake_at(now_ns)

    # -- life and death -----------------------------------------------------------------------------------------

    def die(self, notice_ns: int, away_ns: int, *, with_steward: bool) -> None:
        """It starts again later, with an empty memory; the edits of its steward are on its disk."""
        self.world.count_up(self)
        self.close_doors(notice_ns)
        for line in self.lines.values():
            line.close()
        self.lines.clear()
        if with_steward:
            self.steward.die()
            for other in self.world.brokers.values():
                if other is not self:
                    self.world.clock.after(notice_ns, partial(other.steward.cut, self.steward.pen.broker))
        self.world.clock.after(away_ns, self._start)

    def _start(self) -> None:
        if not self.steward.alive:
            self.steward.start()
        self._start_dispatcher()

    # -- its steward tells --------------------------------------------------------------------------------------

    def on_epoch(self, epoch: int) -> None:
        self._announcements.append(inner.write_announcement(inner.CONFIG, epoch, b""))
        self.wake_at(self.world.clock.now_ns)

    def on_offers(self, offers: list[Offer]) -> None:
        self._offers.append(offers)
        self.wake_at(self.world.clock.now_ns)

    def on_book(self, book: Book) -> None:
        if book != self._book:
            self._take_book(book)

    def _take_book(self, book: Book) -> None:
        self._book = book
        self._router = Router(book, lambda: f"{self.random.getrandbits(64):016x}")

    # -- one pass -----------------------------------------------------------------------------------------------

    def run(self, now_ns: int) -> None:
        core = self.core
        core.at(now_ns)
        core.on_router(ROUTER, [[inner.NO_NUMBER, inner.HELLO]])
        decisions, self._decisions = self._decisions, []
        for each in decisions:
            core.on_router(ROUTER, each)
        by_door: dict[str, list[Frames]] = {"worker": [], "client": []}
        for link, message in self.inbox[:BATCH_MAX]:
            by_door[link.door].append([link.peer, *message])
        del self.inbox[:BATCH_MAX]
        core.on_workers(by_door["worker"])
        core.on_gone_workers(self.take_gone())
        self.watcher.on_clients(by_door["client"])
        core.on_clients(by_door["client"])
        announcements, self._announcements = self._announcements, []
        core.on_announcements(announcements)
        self._follow_steward(now_ns)
        self._follow_lines(now_ns)
        core.on_tick()
        core.flush(self)
        check_broker(self, now_ns)
        if now_ns >= self._report_ns:
            self._report(now_ns)
        if core.drained():
            self.world.on_drained(self)
        else:
            self.wake_at(max(min(core.next_due_ns, self._report_ns), now_ns + 1))

    def _follow_steward(self, now_ns: int) -> None:
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
                self.lines[identity] = Plug(self.world, self, self.name, address, "client")

    def _follow_lines(self, now_ns: int) -> None:
        for identity, line in self.lines.items():
            for up in line.changes():
                with self.watcher.peer_loss():
                    self.core.on_delegate_link(identity, up)
            came = line.recv()
            self.watcher.on_delegate(came)
            self.core.on_delegate(identity, came)

    def to_clients(self, messages: list[Frames]) -> list[Frames]:
        self.watcher.on_answers(messages)
        return self.send("client", messages)

    def to_workers(self, messages: list[Frames]) -> list[Frames]:
        self.watcher.on_hand_outs(messages)
        return self.send("worker", messages)

    def to_router(self, router: bytes, questions: list[Frames]) -> bool:
        self._ask(questions, self.lives)
        return True

    def to_delegate(self, identity: bytes, task: Frames) -> bool:
        line = self.lines.get(identity)
        if line is None or not line.up or not line.send([task]):
            return False
        self.watcher.on_hand_over(identity, task)
        return True

    def to_steward(self, messages: list[Frames]) -> bool:
        raise AssertionError("no admin asks for anything here")

    def _ask(self, questions: list[Frames], life: int) -> None:
        """A router reads as fast as it can, which is not always fast."""

        def decide() -> None:
            if self.lives == life and self.alive:
                self._decisions.append(self._router.decide(questions))
                self.wake_at(self.world.clock.now_ns)

        slow = self.random.random() < 0.03
        self.world.clock.after(self.random.randrange(100 * NS_PER_MS if slow else NS_PER_MS), decide)

    def _report(self, now_ns: int) -> None:
        """Once a second the steward hears how much there is to do."""
        self._report_ns = now_ns + REPORT_NS
        work, slots, steward = self.core.work(), self.core.slots(), self.steward.core
        self.world.clock.after(self.random.randrange(2 * NS_PER_MS), lambda: steward.on_work(work, slots))
