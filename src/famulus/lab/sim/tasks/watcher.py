"""Watches what one broker says and hears in one life, and notes what happens there that is worth a mention.

It has to stand by what it said once: a task that it answered with OK or ERROR it answers the same way ever after, and
gives to nobody any more. What comes from another broker must have taken a path without cycles, and brokers may not wait
for each other in a cycle.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from famulus.core.clock import NS_PER_MS
from famulus.core.delivery import ServicePolicy
from famulus.core.dispatch.delegates import HOPS_MAX
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.dispatch.session import Session
from famulus.core.dispatch.task import Task
from famulus.lab.sim.invariants import Invariant, demand
from famulus.lab.sim.network import Frames, Plug
from famulus.lab.sim.tasks.setting import POLICIES
from famulus.lab.sim.tasks.streams import StreamWatcher
from famulus.lab.sim.world import World
from famulus.wire import inner
from famulus.wire.headers import CANCEL, CREDIT

_IDEMPOTENT = b'"idempotent":true'
_HEDGE = b'"hedge":true'
_decode = msgspec.json.Decoder(dict[str, object]).decode


def _is_before(ticket: bytes, other: bytes) -> bool:
    """They are numbers that go up, and begin anew at 0 some day."""
    return 0 < (int.from_bytes(other, "big") - int.from_bytes(ticket, "big")) % 2**64 < 2**63


@dataclass(frozen=True, slots=True)
class Watched:
    """What the watchers of all brokers share."""

    #: Of the brokers that are alive.
    by_broker: dict[str, Watcher] = field(default_factory=dict)
    #: Which brokers a task has really come through, by the connection and the ticket that it came with.
    ways: dict[tuple[bytes, bytes], list[str]] = field(default_factory=dict)


class Watcher:
    def __init__(
        self, world: World, name: str, core: Dispatcher, lines: Mapping[bytes, Plug], watched: Watched
    ) -> None:
        self._name = name
        self._core = core
        self._lines = lines
        self._watched = watched
        self._events = world.events
        self._clock = world.clock
        #: How often the dispatcher was asked for a task that it knew, when we looked last.
        self._repeated = 0
        #: Tasks by their bodies: how they were answered, and when for the first time.
        self._answered: dict[bytes, tuple[bytes, int]] = {}
        self._streams = StreamWatcher(name)
        #: Those that may run twice: each id is a task of its own, and most of them have none at first.
        self._idempotent: set[bytes] = set()
        watched.by_broker[name] = self

    def forget(self) -> None:
        """This life is over."""
        del self._watched.by_broker[self._name]

    def on_clients(self, batch: list[Frames]) -> None:
        """What comes from another broker says which path it took, and that must be true, short and without cycles."""
        ways = self._watched.ways
        self._idempotent.update(message[3] for message in batch if len(message) == 4 and _IDEMPOTENT in message[2])
        for peer, *message in batch:
            self._streams.on_client(peer, message)
            way = ways.get((peer, message[0])) if message else None
            if way is not None:
                self._check_way(way, _decode(message[1])["via"])
            elif len(message) > 1 and b'"via"' in message[1]:
                # It was given up while it was in an outbox, but left all the same: so nobody saw which way it went.
                ways[peer, message[0]] = msgspec.convert(_decode(message[1])["via"], list[str])

    def _check_way(self, way: list[str], via: object) -> None:
        name = self._name
        demand(via == way, Invariant.WAYS, f"a task came to {name} via {way}, but says {via}")
        demand(name not in way, Invariant.WAYS, f"a task came to {name} in a circle, via {way}")
        demand(len(way) < HOPS_MAX, Invariant.WAYS, f"a task came to {name} over too many brokers, via {way}")
        self._events["came over two brokers or more"] += len(way) > 1

    def on_answers(self, messages: list[Frames]) -> None:
        now_ns = self._clock.now_ns
        for peer, envelope, header, body in messages:
            self._streams.on_answer(peer, envelope, header, body)
            self._events["refused what it had handed over itself"] += header.endswith(inner.REJECTED_HANDED_OVER)
            outcome = b"OK" if b'"outcome":"OK"' in header else b"ERROR" if b'"outcome":"ERROR"' in header else b""
            if not outcome or not body:
                continue
            said, said_ns = self._answered.setdefault(self._named(header, body), (outcome, now_ns))
            what = f"{self._name} said {said!r} to task {body!r}, and then {outcome!r}"
            demand(said == outcome, Invariant.MEMORY, what)
            self._events["answered from memory"] += said_ns < now_ns

    def on_hand_outs(self, messages: list[Frames]) -> None:
        cancelled = {body for _, _, header, body in messages if header == CANCEL}
        for peer, ticket, header, body in messages:
            self._events["more of a stream is wanted"] += header == CREDIT
            self._streams.on_hand_out(body)
            self._check_unanswered(header, body)
            session = self._core.sessions.by_peer.get(peer)
            task = session.running.get(ticket) if session is not None else None
            if session is not None and task is not None and _HEDGE in header:
                self._check_hedge(session, task, body)
            wanted = task is None or not task.is_cancelled or ticket in cancelled
            demand(wanted, Invariant.CANCELS, f"{self._name} gives task {body!r} to a worker after it was cancelled")

    def on_hand_over(self, identity: bytes, message: Frames) -> None:
        self._streams.on_hand_out(message[2])
        self._check_unanswered(message[1], message[2])
        ticket, ways = message[0], self._watched.ways
        delegate = self._core.delegates.by_identity[identity]
        demand(delegate.up, Invariant.PEERS, f"{self._name} hands tasks to {identity!r}, which it has lost")
        link, task = self._lines[identity].link, delegate.running.get(ticket)
        # If the connection was lost and has just been made again, the task was given up while it was in the outbox.
        if link is not None and task is not None:
            ways[link.peer, ticket] = [*ways.get((task.client, task.envelope), []), self._name]
        self._events["handed over to another family" if delegate.rank else "handed over within the family"] += 1

    def _check_unanswered(self, header: bytes, body: bytes) -> None:
        named = self._named(header, body)
        if named not in self._answered:
            return
        # How long it has to remember, the service says.
        policy = POLICIES.get(str(_decode(header).get("service", "")), ServicePolicy())
        _, said_ns = self._answered.pop(named)
        is_over = self._clock.now_ns - said_ns >= policy.results_age_ms * NS_PER_MS
        demand(is_over, Invariant.MEMORY, f"{self._name} gives task {body!r} out again after its answer")
        self._events["given out again when its answer was forgotten"] += 1

    def _named(self, header: bytes, body: bytes) -> bytes:
        """What a task is known by: its body, which no other one has."""
        if body not in self._idempotent or header == CANCEL:
            return body
        return body + str(_decode(header)["message_id"]).encode()

    def _check_hedge(self, session: Session, task: Task, body: bytes) -> None:
        """The worker that has the first attempt does not get the second one, too; the other way round it may be."""
        self._events["second attempt at a worker"] += 1
        had = [each for ticket, each in session.running.items() if _is_before(ticket, task.ticket)]
        same = [each for each in had if each.client == task.client]
        what = f"{self._name} gives {session.identity!r} both attempts at task {body!r}"
        demand(all(each.envelope != task.envelope[:-1] for each in same), Invariant.HEDGES, what)

    def on_delegate(self, messages: list[Frames]) -> None:
        for _, header, _ in messages:
            for outcome in ("ERROR", "REJECTED", "UNKNOWN"):
                self._events[f"{outcome} from a peer"] += f'"outcome":"{outcome}"'.encode() in header

    @contextmanager
    def peer_loss(self) -> Iterator[None]:
        """Wraps whatever may tell the dispatcher that it lost a peer."""
        counters = self._core.counters
        unknown, again = counters.unknown, counters.attempts_again
        yield
        self._events["UNKNOWN by the loss of a peer"] += counters.unknown - unknown
        self._events["another attempt after the loss of a peer"] += counters.attempts_again - again

    # -- after each run of the dispatcher -----------------------------------------------------------------------

    def after_run(self, clients: Container[bytes]) -> None:
        """Before anybody else does anything. `clients`: who is connected, as far as it knows."""
        core = self._core
        for task in core.streams._by_task:
            what = f"{self._name} has a stream made for {task.client!r}, which is gone"
            demand(task.is_cancelled or task.client in clients, Invariant.STREAMS, what)
        for delegate in core.delegates.by_identity.values():
            if not delegate.running:
                continue
            demand(delegate.up, Invariant.PEERS, f"{self._name} waits for {delegate.identity!r}, which it has lost")
            started = all(task.attempt > 0 for task in delegate.running.values())
            what = f"a task that {self._name} handed over to {delegate.identity!r} counts as never started"
            demand(started, Invariant.DELIVERY, what)
        if core.counters.repeated != self._repeated:
            self._repeated = core.counters.repeated
            for key, known in core.repeats._known.items():
                if not known.until_ns:
                    self._check_nobody_waits_for_himself(key)

    def _check_nobody_waits_for_himself(self, key: bytes) -> None:
        """A broker that handed a task over waits for the other one, and so on; it must not come back to the first."""
        way = [self._name]
        at = self._whom_it_waits_for(key)
        while at is not None:
            what = f"each of {way} waits for the next one's answer to {key!r}, in a circle"
            demand(at._name not in way, Invariant.CIRCLES, what)
            way.append(at._name)
            at = at._whom_it_waits_for(key)

    def _whom_it_waits_for(self, key: bytes) -> Watcher | None:
        """The broker that this one handed the task over to, if it has arrived there and is open there."""
        for identity, delegate in self._core.delegates.by_identity.items():
            for ticket, task in delegate.running.items():
                if task.known is None or task.known.key != key or not task.waits_for(ticket):
                    continue
                line, other = self._lines.get(identity), self._watched.by_broker.get(identity.decode())
                known = other._core.repeats._known.get(key) if other is not None else None
                if line is None or line.link is None or known is None or known.until_ns:
                    return None
                return other if (line.link.peer, ticket) in known.waiters else None
        return None
