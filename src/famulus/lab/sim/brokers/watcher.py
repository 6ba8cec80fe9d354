"""Watches what one broker says and hears in one life, and writes down what happens there that is worth a mention.

What it said once it has to stand by: a task that it answered with OK or ERROR it answers the same way ever after, and
gives it to nobody any more. And whatever comes from another broker must have come a way without circles.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from famulus.core.dispatch.delegates import HOPS_MAX
from famulus.lab.sim.invariants import Invariant, demand
from famulus.lab.sim.network import Frames
from famulus.wire import inner

if TYPE_CHECKING:
    from famulus.lab.sim.brokers.broker import Broker

_decode = msgspec.json.Decoder(dict[str, object]).decode


class Watcher:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._events = broker.world.events
        self._clock = broker.world.clock
        #: Tasks by their bodies: how they were answered, and when for the first time.
        self._answered: dict[bytes, tuple[bytes, int]] = {}

    def on_clients(self, batch: list[Frames]) -> None:
        """What comes from another broker says which way it came, and that must be true, short and without circles."""
        ways = self._broker.world.ways
        for peer, *message in batch:
            way = ways.get((peer, message[0])) if message else None
            if way is not None:
                self._check_way(way, _decode(message[1])["via"])
            elif len(message) > 1 and b'"via"' in message[1]:
                # It was given up while it lay in an outbox, and left all the same: so nobody saw which way it went.
                ways[peer, message[0]] = msgspec.convert(_decode(message[1])["via"], list[str])

    def _check_way(self, way: list[str], via: object) -> None:
        name = self._broker.name
        demand(via == way, Invariant.WAYS, f"a task came to {name} via {way}, but says {via}")
        demand(name not in way, Invariant.WAYS, f"a task came to {name} in a circle, via {way}")
        demand(len(way) < HOPS_MAX, Invariant.WAYS, f"a task came to {name} over too many brokers, via {way}")
        self._events["came over two brokers or more"] += len(way) > 1

    def on_answers(self, messages: list[Frames]) -> None:
        now_ns = self._clock.now_ns
        for _, _, header, body in messages:
            self._events["refused what it had handed over itself"] += header.endswith(inner.REJECTED_HANDED_OVER)
            outcome = b"OK" if b'"outcome":"OK"' in header else b"ERROR" if b'"outcome":"ERROR"' in header else b""
            if not outcome or not body:
                continue
            said, said_ns = self._answered.setdefault(body, (outcome, now_ns))
            demand(
                said == outcome,
                Invariant.MEMORY,
                f"{self._broker.name} said {said!r} to task {body!r}, and then {outcome!r}",
            )
            self._events["answered from memory"] += said_ns < now_ns

    def on_hand_outs(self, messages: list[Frames]) -> None:
        for message in messages:
            self._check_unanswered(message[3])

    def on_hand_over(self, identity: bytes, message: Frames) -> None:
        self._check_unanswered(message[2])
        broker, ticket = self._broker, message[0]
        delegate = broker.core.delegates.by_identity[identity]
        demand(delegate.up, Invariant.PEERS, f"{broker.name} hands tasks to {identity!r}, which it has lost")
        link, task, ways = broker.lines[identity].link, delegate.running.get(ticket), broker.world.ways
        # If the connection was lost and made anew just now, the task was given up while it lay in the outbox.
        if link is not None and task is not None:
            ways[link.peer, ticket] = [*ways.get((task.client, task.envelope), []), broker.name]
        self._events["handed over to another family" if delegate.rank else "handed over within the family"] += 1

    def _check_unanswered(self, body: bytes) -> None:
        demand(
            body not in self._answered,
            Invariant.MEMORY,
            f"{self._broker.name} gives task {body!r} out again after its answer",
        )

    def on_delegate(self, messages: list[Frames]) -> None:
        for _, header, _ in messages:
            for outcome in ("ERROR", "REJECTED", "UNKNOWN"):
                self._events[f"{outcome} from a peer"] += f'"outcome":"{outcome}"'.encode() in header

    @contextmanager
    def peer_loss(self) -> Iterator[None]:
        """Around what may tell the dispatcher that it lost a peer."""
        counters = self._broker.core.counters
        unknown, again = counters.unknown, counters.attempts_again
        yield
        self._events["UNKNOWN by the loss of a peer"] += counters.unknown - unknown
        self._events["another attempt after the loss of a peer"] += counters.attempts_again - again
