"""What a worker of the invented world does with its tasks: mostly well and quickly, now and then neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.session.header_cache import Given
from famulus.core.session.worker import WorkerSession

if TYPE_CHECKING:
    from famulus.lab.sim.actors import Actor
    from famulus.lab.sim.ledger import Ledger

QUICK_NS = 30 * NS_PER_MS
#: Longer than most time-outs.
SLOW_NS = 3 * NS_PER_S


class Hands:
    def __init__(
        self,
        actor: Actor,
        ledger: Ledger,
        session: WorkerSession,
        flush: Callable[[], None],
        quick_ns: int = QUICK_NS,
    ) -> None:
        self._actor = actor
        self._random = actor.random
        self._clock = actor.world.clock
        self._ledger = ledger
        self._session = session
        self._flush = flush
        self._quick_ns = quick_ns

    def start(self, given: Given) -> None:
        self._ledger.ran(given.body)
        quick = self._random.random() < 0.9
        self._clock.after(self._random.randrange(self._quick_ns if quick else SLOW_NS), lambda: self._finish(given))

    def _finish(self, given: Given) -> None:
        session = self._session
        if not self._actor.alive:
            return
        if self._actor.paused:
            self._clock.after(50 * NS_PER_MS, lambda: self._finish(given))
            return
        chance = self._random.random()
        if chance < 0.02 and given.ticket in session._tickets:
            # A worker with a bug: it answers with rubbish.
            del session._tickets[given.ticket]
            session.outbox.append([given.ticket, b"{rubbish", b""])
        else:
            outcome, reason = ("OK", "") if chance < 0.9 else ("ERROR", "ValueError: no")
            session.answer(given, outcome, reason, given.body)
            if chance < 0.05 and session.outbox:
                session.outbox.append(session.outbox[-1])  # and one that answers twice
        self._flush()
