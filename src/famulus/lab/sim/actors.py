"""The processes of the invented world: each is the real core with a thin shell, as on real sockets.

An actor can be paused (SIGSTOP: what comes waits for it) and killed (its links are cut, its memory is gone).
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Protocol

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.dispatch.questions import ROUTER_HEARTBEAT_NS
from famulus.core.routing.router import Router
from famulus.core.session.client import ClientSession, Done
from famulus.core.session.worker import State, WorkerSession
from famulus.lab.sim.hands import Hands
from famulus.lab.sim.invariants import Invariant, check_step, demand
from famulus.lab.sim.network import Clock, Frames, Link
from famulus.wire import headers, inner

if TYPE_CHECKING:
    from famulus.lab.sim.world import World

BATCH_MAX = 64


class Stage(Protocol):
    """All that an actor needs to know of its world."""

    seed: int
    clock: Clock


class Actor:
    """Wakes when something came or is due, unless it is paused or dead."""

    def __init__(self, world: Stage, name: str) -> None:
        self.world = world
        self.name = name
        self.random = Random(f"{world.seed}/{name}")
        self.alive = True
        self.paused = False
        self.inbox: list[tuple[Link, Frames]] = []
        self._wake_ns = NEVER_NS

    def receive(self, link: Link, message: Frames) -> None:
        self.inbox.append((link, message))
        self.wake_at(self.world.clock.now_ns + self.random.randrange(NS_PER_MS // 5))

    def cut_off(self, link: Link) -> None:
        """A link was cut; the actor looks into it when it wakes."""

    def wake_at(self, time_ns: int) -> None:
        if time_ns < self._wake_ns:
            self._wake_ns = time_ns
            self.world.clock.at(time_ns, self._wake)

    def _wake(self) -> None:
        now_ns = self.world.clock.now_ns
        if now_ns < self._wake_ns:
            return
        self._wake_ns = NEVER_NS
        if self.paused or not self.alive:
            return
        self.run(now_ns)
        if self.inbox:
            self.wake_at(now_ns + 1)

    def pause(self, for_ns: int) -> None:
        self.paused = True
        self.world.clock.after(for_ns, lambda: self.resume(for_ns))

    def resume(self, paused_ns: int) -> None:
        self.paused = False
        self.wake_at(self.world.clock.now_ns)

    def run(self, now_ns: int) -> None:
        raise NotImplementedError


class Doors(Actor):
    """A dispatcher's process: the links at its doors, by the names that the core has for whom they lead to."""

    def __init__(self, world: Stage, name: str) -> None:
        super().__init__(world, name)
        self.core: Dispatcher
        self.links: dict[str, dict[bytes, Link]] = {}
        #: Connections so far: none has the name of another one.
        self.accepted = 0
        #: Workers whose connection is known to be over, and of whom the core has not heard that.
        self._gone: list[bytes] = []

    def open_doors(self, *doors: str) -> None:
        self.alive = True
        self._wake_ns = NEVER_NS
        self.links = {door: {} for door in doors}
        self.inbox.clear()
        self._gone.clear()

    def close_doors(self, notice_ns: int = 0) -> None:
        """It is dead: whoever was connected learns of it within that time."""
        self.alive = False
        self._wake_ns = NEVER_NS
        for links in self.links.values():
            for link in list(links.values()):
                link.believes[True] = False
                link.cut(notice_ns)

    def cut_off(self, link: Link) -> None:
        if self.links[link.door].pop(link.peer, None) is not None and link.door == "worker":
            self._gone.append(link.peer)
            self.wake_at(self.world.clock.now_ns + 1)

    def take_gone(self) -> list[bytes]:
        """Those of whom nothing is left to be read."""
        speak = {link.peer for link, _ in self.inbox if link.door == "worker"}
        gone = [peer for peer in self._gone if peer not in speak]
        self._gone = [peer for peer in self._gone if peer in speak]
        return gone

    def resume(self, paused_ns: int) -> None:
        if self.alive and paused_ns > NS_PER_S:
            self.core.on_pause(paused_ns)
        super().resume(paused_ns)

    def send(self, door: str, messages: list[Frames]) -> list[Frames]:
        """Send all; give those that were refused."""
        refused = []
        for message in messages:
            link = self.links[door].get(message[0])
            if link is None or not link.to_peer(message[1:]):
                refused.append(message)
        return refused


class BrokerActor(Doors):
    """The dispatcher's process. When it dies, the supervisor starts it anew with an empty memory."""

    world: World

    def __init__(self, world: World) -> None:
        super().__init__(world, "dispatcher")
        self.lives = 0
        self.by_flow = 0
        self.start()

    def start(self) -> None:
        self.lives += 1
        self.open_doors("client", "worker", "router")
        settled_at_ns = self.world.clock.now_ns + NS_PER_S if self.lives > 1 else 0
        self.core = Dispatcher(self.world.bounds, self.random.getrandbits(64), self.world.declared, settled_at_ns)

    def die(self) -> None:
        self.by_flow += self.core.counters.by_flow
        self.close_doors()
        self.world.clock.after(self.random.randrange(300 * NS_PER_MS), self.start)

    def run(self, now_ns: int) -> None:
        core = self.core
        core.at(now_ns)
        batch_max = 1 if self.world.instant else BATCH_MAX
        batch, self.inbox = self.inbox[:batch_max], self.inbox[batch_max:]
        by_door: dict[str, list[Frames]] = {"client": [], "worker": [], "router": [], "announcement": []}
        for link, message in batch:
            if link.door == "announcement":
                by_door["announcement"].append(message)
            else:
                by_door[link.door].append([link.peer, *message])
        if self.world.instant:
            core.on_router(b"instant", [[inner.NO_NUMBER, inner.HELLO]])
        core.on_announcements(by_door["announcement"])
        for router, *decision in by_door["router"]:
            core.on_router(router, [decision])
        core.on_workers(by_door["worker"])
        self._decide_instantly(now_ns)
        core.on_gone_workers(self.take_gone())
        core.on_clients(by_door["client"])
        self._decide_instantly(now_ns)
        if core.next_due_ns <= now_ns:
            core.on_tick()
        core.flush(self)
        check_step(core, now_ns)
        self.wake_at(max(core.next_due_ns, now_ns + 1))

    def _decide_instantly(self, now_ns: int) -> None:
        while self.world.instant and (batches := self.core.questions.take_batches()):
            for router, questions in batches:
                self.core.on_router(router, self.world.router.decide(questions))

    def to_clients(self, messages: list[Frames]) -> list[Frames]:
        return self.send("client", messages)

    def to_workers(self, messages: list[Frames]) -> list[Frames]:
        return self.send("worker", messages)

    def to_router(self, router: bytes, questions: list[Frames]) -> bool:
        return not self.send("router", [[router, *question] for question in questions])

    def to_delegate(self, identity: bytes, task: Frames) -> bool:
        raise AssertionError("this broker stands alone")

    def to_steward(self, messages: list[Frames]) -> bool:
        raise AssertionError("this broker stands alone")


class Peer(Actor):
    """Somebody who connects to the broker."""

    door = ""
    world: World

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.link: Link | None = None

    def connect(self) -> None:
        broker = self.world.broker
        if not self.alive:
            return
        if not broker.alive:
            self.world.clock.after(self.random.randrange(100 * NS_PER_MS), self.connect)
            return
        broker.accepted += 1
        peer = f"{self.name}/{broker.accepted}".encode()
        self.link = Link(self.world.clock, self.random, peer, self.door, broker, self)
        broker.links[self.door][peer] = self.link
        self.on_connected()

    def on_connected(self) -> None:
        self.wake_at(self.world.clock.now_ns)

    def cut_off(self, link: Link) -> None:
        if link is self.link:
            self.link = None
            if self.alive:
                self.world.clock.after(self.random.randrange(1, 100 * NS_PER_MS), self.reconnect)

    def reconnect(self) -> None:
        if self.alive and self.link is None:
            self.connect()

    def kill(self) -> None:
        self.alive = False
        if self.link is not None:
            self.link.cut()
            self.link = None

    def take_inbox(self) -> list[Frames]:
        batch = [message for link, message in self.inbox if link is self.link]
        self.inbox.clear()
        return batch


class RouterActor(Peer):
    door = "router"

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.core = Router(world.book, lambda: f"{self.random.getrandbits(64):016x}")
        self._beat_ns = 0

    def on_connected(self) -> None:
        assert self.link is not None
        self.link.to_broker([inner.NO_NUMBER, inner.HELLO])
        super().on_connected()

    def run(self, now_ns: int) -> None:
        link = self.link
        if link is None:
            self.inbox.clear()
            return
        for decision in self.core.decide(self.take_inbox()):
            link.to_broker(decision)
        if self._beat_ns <= now_ns:
            self._beat_ns = now_ns + ROUTER_HEARTBEAT_NS
            if self.random.random() < 0.9:  # PUB may drop
                self.world.announce(inner.ROUTER_ALIVE, link.peer)
        self.wake_at(self._beat_ns)


class WorkerActor(Peer):
    door = "worker"

    def __init__(self, world: World, name: str, services: list[str], slots: int, heartbeat_ms: int) -> None:
        super().__init__(world, name)
        self.heartbeat_ms = heartbeat_ms
        token = f"{self.random.getrandbits(64):016x}"
        self.session = WorkerSession(name, services, slots, heartbeat_ms, self.random.random, token=token)
        #: When it was last cut off or stopped: what it has at the broker may be lost by that, for a while.
        self.disturbed_ns = world.clock.now_ns
        self._hands = Hands(self, world.ledger, self.session, self._flush)

    def on_connected(self) -> None:
        self.session.on_link(self.world.clock.now_ns)
        super().on_connected()

    def kill(self) -> None:
        self.disturbed_ns = NEVER_NS
        super().kill()

    def pause(self, for_ns: int) -> None:
        self.disturbed_ns = self.world.clock.now_ns + for_ns
        super().pause(for_ns)

    def cut_off(self, link: Link) -> None:
        self.disturbed_ns = max(self.disturbed_ns, self.world.clock.now_ns)
        if link is self.link:
            self.link = None
            if self.alive and not self.paused:
                self.session.on_link_lost(self.world.clock.now_ns)
                self.wake_at(self.world.clock.now_ns)

    def run(self, now_ns: int) -> None:
        session = self.session
        if self.link is None and session.state is not State.OFFLINE:
            session.on_link_lost(now_ns)  # it was cut while we were paused
        for given in session.on_messages(now_ns, self.take_inbox()) if self.inbox else []:
            self._hands.start(given)
        session.on_tick(now_ns)
        if session.state is State.OFFLINE and session.relink_at_ns <= now_ns:
            if self.link is not None:
                self.link.cut()
                self.link = None
            session.relink_at_ns = NEVER_NS
            self.connect()
        self._flush()
        if session.state is State.GONE and self.alive:
            self.kill()
            self.world.respawn_worker(self)
        else:
            self.wake_at(max(session.next_due_ns, now_ns + 1))

    def _flush(self) -> None:
        for message in self.session.outbox:
            if self.link is not None:
                self.link.to_broker(message)
        self.session.outbox.clear()


class ThiefActor(Peer):
    """Somebody who wants to be another worker, and goes away with whatever it is told."""

    door = "worker"

    def __init__(self, world: World, name: str, victim: WorkerActor) -> None:
        super().__init__(world, name)
        self._victim = victim
        # A name that nobody has is nobody's.
        self._was_there = victim.session.state is State.READY
        self._came_ns = world.clock.now_ns

    def on_connected(self) -> None:
        assert self.link is not None
        wish = {"identity": self._victim.name, "services": self._victim.session.services}
        self.link.to_broker([b"", headers.write("CONNECT", "REQUEST", **wish), b""])

    def reconnect(self) -> None:
        """It does not try again."""

    def run(self, now_ns: int) -> None:
        for _, header, _ in self.take_inbox():
            is_taken = b'"CONFIG"' in header
            demand(
                not is_taken or not self._was_there or not self._is_undisturbed(),
                Invariant.NAMES,
                f"{self._victim.name} was there, and its name was given to another",
            )
            self.world.thefts[is_taken] += 1
            self.kill()

    def _is_undisturbed(self) -> bool:
        """Nothing has happened to the victim or the broker since long before it was asked whether it is there."""
        quiet_from_ns = max(self._victim.disturbed_ns, self.world.ledger.quiet_from_ns)
        return quiet_from_ns + NS_PER_S < self._came_ns and self._victim.session.state is State.READY


class ClientActor(Peer):
    door = "client"

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.session = ClientSession(self.random.getrandbits(32))

    def cut_off(self, link: Link) -> None:
        if link is self.link and not self.paused:
            self._ended(self.session.on_lost())
        self.world.ledger.disturb(self)
        super().cut_off(link)

    def submit(self, service: str, body: bytes, timeout_ms: int, priority: int) -> None:
        self.session.submit(self.world.clock.now_ns, body, service, body, timeout_ms, priority)
        self.wake_at(self.world.clock.now_ns)

    def run(self, now_ns: int) -> None:
        session = self.session
        if self.inbox:
            self._ended(session.on_messages(self.take_inbox()))
        if self.link is None:
            self._ended(session.on_lost())
        else:
            taken = 0
            for message in session.next_to_send(now_ns, BATCH_MAX):
                if not self.link.to_broker(message):
                    break
                taken += 1
            session.on_sent(taken)
        self._ended(session.on_tick(now_ns))
        self.wake_at(max(now_ns + 1, session.next_due_ns))

    def _ended(self, done: list[Done]) -> None:
        for each in done:
            assert isinstance(each.token, bytes)
            self.world.ledger.ended(each.token, self.world.clock.now_ns, each.outcome, each.reason)
