"""Whether the tasks of a key go to its worker, as seen from outside: it knows nothing of how that one is found.

Whoever gets a task of a key is preferred, for that key, to all who had room for it. Two workers never change places:
so a key moves only if its worker is gone or full, or if one comes that it prefers, and it prefers that one for good.
Second attempts go to another one on purpose.
"""

from __future__ import annotations

from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.dispatch.session import Session
from famulus.core.dispatch.task import Task
from famulus.lab.sim.invariants import Invariant, demand
from famulus.lab.sim.network import Frames
from famulus.wire.inner import POLICIES

BY_KEY = POLICIES.index("key")


class Affinity:
    def __init__(self, core: Dispatcher) -> None:
        self._core = core
        #: By service and key: who was preferred to whom.
        self._preferred: dict[tuple[bytes, int], set[tuple[bytes, bytes]]] = {}
        self._room: dict[Session, int] = {}
        self._handed_out: list[tuple[Session, Task]] = []

    def before_run(self) -> None:
        """Who has room now."""
        self._room = {session: session.free for session in self._core.sessions.by_peer.values() if session.ready}
        self._handed_out.clear()

    def on_hand_outs(self, messages: list[Frames]) -> None:
        for peer, ticket, _, _ in messages:
            session = self._core.sessions.by_peer.get(peer)
            task = session.running.get(ticket) if session is not None else None
            if session is None or task is None:
                continue
            if session in self._room:
                # Whatever came back in this run: who has room without that had it all the time.
                self._room[session] -= 1
            self._handed_out.append((session, task))

    def after_run(self) -> None:
        had_room = [session for session, free in self._room.items() if free > 0 and session.ready]
        for session, task in self._handed_out:
            service, key = task.service, task.flow.key
            if not key or service.policy != BY_KEY or task.terms.is_hedge:
                continue
            preferred = self._preferred.setdefault((service.name, key), set())
            for other in had_room:
                if other is not session and service in other.services:
                    self._check(preferred, session.identity, other.identity)

    @staticmethod
    def _check(preferred: set[tuple[bytes, bytes]], one: bytes, other: bytes) -> None:
        what = f"{one!r} got a task of a key that was {other!r}'s, which had room for it"
        demand((other, one) not in preferred, Invariant.AFFINITY, what)
        preferred.add((one, other))
