"""A broker: the real dispatcher, routers that take their time, a steward, and lines to other brokers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from famulus.core.access import BACKEND, FRONTEND
from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.config.edit import SignedEdit
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.routing.book import Book
from famulus.core.routing.router import Router
from famulus.core.steward.principals import public_key_of
from famulus.lab.sim.actor import BATCH_MAX, Doors
from famulus.lab.sim.invariants import Broken, Invariant
from famulus.lab.sim.network import DELAY_NS_MAX, Frames, Link, Plug, delay_ns
from famulus.lab.sim.tasks.access import Access, Heard
from famulus.lab.sim.tasks.affinity import Affinity
from famulus.lab.sim.tasks.dispatcher_checks import check_step
from famulus.lab.sim.tasks.holders import ANYBODY
from famulus.lab.sim.tasks.ledger import Ledger
from famulus.lab.sim.tasks.setting import Setting
from famulus.lab.sim.tasks.steward import StewardActor
from famulus.lab.sim.tasks.watcher import Watched, Watcher
from famulus.lab.sim.world import World
from famulus.wire import headers, inner

#: The router within its own process.
ROUTER = b"router"
REPORT_NS = 1 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Common:
    """What all brokers of one network have in common."""

    setting: Setting
    #: The first edits of the network.
    first: list[SignedEdit]
    ledger: Ledger
    #: If there are principals.
    access: Access | None = None
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
        heard = None
        if common.access is not None:
            heard = common.access.by_broker[name] = Heard(name)
        self.steward = StewardActor(world, self, common.first, common.stewards, heard)
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
        self._leaves = False
        self.open_doors("client", "worker", "router")
        self._offers: list[list[inner.PeerOffer]] = []
        #: Workers that the config wants drained, as the dispatcher was told; None: nothing new.
        self._drained: frozenset[bytes] = frozenset()
        self._drained_news: list[str] | None = None
        self._told: list[inner.Principals] = []
        self._principals = inner.Principals({}, {}, True, {})
        self._clients_gone: list[bytes] = []
        #: The bodies of tasks that others have, by their tickets.
        self._handed_over: dict[bytes, bytes] = {}
        self._report_ns = 0
        now_ns = self.clock.now_ns
        self.core = self.new_dispatcher(now_ns + NS_PER_S if self.lives > 1 else 0)
        self.watcher = Watcher(self.world, self.name, self.core, self.lines, self._common.watched)
        self._affinity = Affinity(self.core) if self._common.setting.policy == "key" else None
        self._take_book(self.steward.book)
        if self._common.access is not None:
            self.core.accounts.guard()
            self._take_principals(self.steward.told())
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
        if self._common.access is not None:
            self._common.access.by_broker[self.name].note_pause(self.clock.now_ns, paused_ns)
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

    def on_drained(self, workers: list[str]) -> None:
        self._drained_news = workers
        self.wake_at(self.clock.now_ns)

    def on_principals(self, told: inner.Principals) -> None:
        self._told.append(told)
        self.wake_at(self.clock.now_ns)

    def _take_principals(self, told: inner.Principals) -> None:
        self._principals = told
        self.core.on_principals(told)

    def on_book(self, book: Book) -> None:
        if book != self._book:
            self._take_book(book)

    def _take_book(self, book: Book) -> None:
        self._book = book
        self.router = Router(book, lambda: f"{self.name}-{next(self._ids)}")

    # -- who comes and goes -------------------------------------------------------------------------------------

    def key_for(self, address: str) -> bytes:
        """Of another broker, which may want our key."""
        delegates = self.core.delegates.by_identity.items()
        wants = any(each.frontend == address and name.decode() in self._principals.brokers for name, each in delegates)
        return public_key_of(self.steward.core.config.brokers[self.name]) if wants else b""

    def accept(self, link: Link) -> bool:
        access = self._common.access
        if access is not None and link.door != "router":
            if self.paused:
                return False  # nobody answers before it goes on
            principal = self._principals.keys.get(link.key)
            if principal is None and (link.key or not self._principals.plain):
                access.check_turned_away(self.name, link.key, self.clock.now_ns)
                return False
            if principal is not None:
                port = FRONTEND if link.door == "client" else BACKEND
                self.core.accounts.come(port, [(link.peer, principal, link.key)], self.clock.now_ns)
        return super().accept(link)

    def cut_off(self, link: Link) -> None:
        super().cut_off(link)
        if link.door == "client":
            self._clients_gone.append(link.peer)

    # -- one pass -----------------------------------------------------------------------------------------------

    def run(self, now_ns: int) -> None:
        if self._leaves:
            return
        core = self.core
        core.at(now_ns)
        if self._affinity is not None:
            self._affinity.before_run()
        if self.asks_itself:
            core.on_router(ROUTER, [[inner.NO_NUMBER, inner.HELLO]])
        came = self.take_inbox(1 if self.instant else BATCH_MAX)
        core.on_announcements([message for _, *message in came["announcement"]])
        for router, *decision in came["router"]:
            core.on_router(router, [decision])
        core.on_workers(came["worker"])
        self._decide_instantly()
        gone = self.take_gone()
        core.sessions.gone(gone)
        core.accounts.gone(BACKEND, gone)
        self.watcher.on_clients(came["client"])
        core.on_clients(came["client"])
        if not self.inbox:
            core.on_clients_gone(list(self._clients_gone))
            self._clients_gone.clear()
        self._decide_instantly()
        self._follow_steward()
        self._follow_lines()
        if core.next_due_ns <= now_ns:
            core.on_tick()
        core.flush(self)
        check_step(core, now_ns)
        self._check_drained()
        if self._affinity is not None:
            self._affinity.after_run()
        self.watcher.after_run(self.links["client"].keys() | set(self._clients_gone))
        if now_ns >= self._report_ns:
            self._report(now_ns)
        if core.drained():
            self._take_leave()
        else:
            self.wake_at(max(min(core.next_due_ns, self._report_ns), now_ns + 1))

    def _check_drained(self) -> None:
        """None of them may be given a task from the moment when the dispatcher hears of it."""
        for name in self._drained:
            session = self.core.sessions.by_identity.get(name)
            if session is not None and any(session in service.chooser.listed() for service in session.services):
                raise Broken(Invariant.DRAINED, f"{name!r} is drained, and may still be given tasks")

    def _take_leave(self) -> None:
        """From now on it reads nothing; it ends when its last words have had time to arrive."""
        self.world.events["broker drained"] += 1
        self._leaves = True
        self.send("client", [[peer, b"", headers.LEAVING, b""] for peer in self.links["client"]])
        self.clock.after(DELAY_NS_MAX, partial(self._end, self.lives))

    def _end(self, life: int) -> None:
        if self.alive and self.lives == life:
            self.die(0, self.random.randrange(50 * NS_PER_MS, NS_PER_S), with_steward=True)

    def _decide_instantly(self) -> None:
        while self.instant and (batches := self.core.questions.take_batches()):
            for router, questions in batches:
                self.core.on_router(router, self.router.decide(questions))

    def _follow_steward(self) -> None:
        for told in self._told:
            if told != self._principals:
                self._take_principals(told)
        self._told.clear()
        if self._drained_news is not None:
            drained = [name.encode() for name in self._drained_news]
            self.core.sessions.drain(drained)
            self.world.events["drained by an admin"] += len(set(drained) - self._drained)
            self._drained, self._drained_news = frozenset(drained), None
        all_offers, self._offers = self._offers, []
        for offers in all_offers:
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
            # What a connection brought before it was lost still counts.
            changes, came = line.changes(), line.recv()
            if came:
                self.watcher.on_delegate(came)
                self._check_refusals(came)
                self.core.on_delegate(identity, came)
            for up in changes:
                with self.watcher.peer_loss():
                    self.core.on_delegate_link(identity, up)

    def _check_refusals(self, answers: list[Frames]) -> None:
        """Another broker may lack a right that we know of, but not for long."""
        for ticket, header, _ in answers:
            body = self._handed_over.pop(ticket, b"")
            if body and self._common.access is not None and b'"reason":"not_allowed' in header:
                entry = self._common.ledger.entries[body]
                self._common.access.check_refused(entry.holder, entry.service, entry.submitted_ns)

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
        if self._affinity is not None:
            self._affinity.on_hand_outs(messages)
        if self._common.access is not None:
            self._check_rights(self._common.access, messages)
        return self.send("worker", messages)

    def _check_rights(self, access: Access, messages: list[Frames]) -> None:
        for peer, ticket, _, body in messages:
            session, worker = self.core.sessions.by_peer.get(peer), self.links["worker"].get(peer)
            task = session.running.get(ticket) if session is not None else None
            if task is None or worker is None:
                continue
            entry, came = self._common.ledger.entries[body], self.links["client"].get(task.client)
            # Who is behind a task that a broker without keys passes on, nobody can know.
            caller = ANYBODY if task.flow.visited and came is not None and not came.key else entry.holder
            access.check_run(self.name, caller, "call", entry.service, task.arrived_ns)
            if came is not None and came.key and caller is not ANYBODY and not task.flow.visited:
                access.check_key(self.name, caller, came.key, task.arrived_ns)
            server = access.holder_of(worker.key) or ANYBODY
            access.check_run(self.name, server, "serve", entry.service, self.clock.now_ns)

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
        if task[1] == headers.CANCEL:
            self.world.events["cancelled at another broker"] += 1
            return True
        if task[1] == headers.CREDIT:
            self.world.events["more of a stream is wanted of another broker"] += 1
            return True
        self.watcher.on_hand_over(identity, task)
        if self._common.access is not None:
            self._handed_over[task[0]] = task[2]
        return True

    def to_steward(self, messages: list[Frames]) -> bool:
        raise AssertionError("no admin asks for anything here")
