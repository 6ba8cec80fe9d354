"""Decides who is connected: workers come, say goodbye, fall silent, break the protocol, come back under their name."""

from __future__ import annotations

from typing import Final

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.dispatch.accounts import Account
from famulus.core.dispatch.assignment import Assignment
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.claims import Claims
from famulus.core.dispatch.counters import Counters
from famulus.core.dispatch.error_workers import ErrorWorkers
from famulus.core.dispatch.facts import Facts
from famulus.core.dispatch.liveness import Liveness
from famulus.core.dispatch.now import Now
from famulus.core.dispatch.outgoing import Frames, Outgoing
from famulus.core.dispatch.service import Service
from famulus.core.dispatch.services import Services
from famulus.core.dispatch.session import Session
from famulus.core.dispatch.strangers import readable
from famulus.wire import reasons
from famulus.wire.headers import write, write_error
from famulus.wire.inner import SessionTerms

_TAKEN: Final = write_error(
    reasons.CONFLICT, "this worker was asked and did not answer, and another one has its identity now"
)
IN_USE: Final = write_error(
    reasons.CONFLICT,
    "a worker with this identity is connected and answers; give this one another identity, or stop that one first",
)
NOT_YOURS: Final = write_error(reasons.NOT_ALLOWED, "a worker of another principal is connected with this identity")
_NO_RIGHT: Final = write_error(reasons.NOT_ALLOWED, "what this worker may serve has changed; it has to connect again")
_PING: Final = write("PING", "REQUEST")
_FULL: Final = write_error(reasons.OVERLOAD, "this broker has all the workers or services it can hold")
_NAMED: Final = write_error(reasons.NOT_ALLOWED, "this worker is on the list of error workers of the config")
_DRAINED: Final = write_error(
    reasons.NOT_ALLOWED,
    "an admin has drained this worker: it gets no more tasks until its key in the config is removed",
)
_CLOSED: Final = write_error(reasons.DISABLED, "this broker is shutting down")

# Why a worker was lost, for the journal: codes, as everywhere.
_SILENT: Final = reasons.EXPIRED.encode()
_UNREACHABLE: Final = reasons.NOT_CONNECTED.encode()
_FAULTS: Final = reasons.NOT_ALLOWED.encode()
_REPLACED: Final = reasons.CONFLICT.encode()


class Sessions:
    def __init__(
        self,
        assignment: Assignment,
        services: Services,
        now: Now,
        out: Outgoing,
        counters: Counters,
        bounds: Bounds,
        facts: Facts,
    ) -> None:
        self._assignment = assignment
        self._services = services
        self._now = now
        self._out = out
        self._counters = counters
        self._bounds = bounds
        self._facts = facts
        self._liveness = Liveness()
        #: By the name of the connection, which the listener assigns.
        self.by_peer: dict[bytes, Session] = {}
        self.by_identity: dict[bytes, Session] = {}
        self.error_workers = ErrorWorkers()
        #: Identities of workers that the config wants drained.
        self.drained: frozenset[bytes] = frozenset()
        self.claims = Claims()
        #: The broker is draining: nobody may connect.
        self.closed = False

    def holder(self, account: Account, peer: bytes, identity: bytes, token: bytes) -> Session | None:
        """Who has this name, unless it is the very worker that now comes with this token or over this connection."""
        holder = None if self.closed else self.by_identity.get(identity)
        if holder is None or holder.peer == peer:
            return None
        return None if token and token == holder.token and holder.account is account else holder

    def ask(self, holder: Session) -> None:
        """Ask whether it is there. A closed connection refuses the question; a worker that is there says something."""
        self._out.workers.append([holder.peer, b"", _PING, b""])

    def dispossess(self, holder: Session) -> None:
        """It did not answer, so another worker gets its name."""
        self._out.workers.append([holder.peer, b"", _TAKEN, b""])
        self._lose([holder], _REPLACED)

    def connect(
        self, account: Account, peer: bytes, identity: bytes, names: list[bytes], terms: SessionTerms, token: bytes
    ) -> bytes | None:
        """Begin a session, or return the header that says why not. It gets no tasks yet."""
        now_ns = self._now.ns
        if self.closed:
            return _CLOSED
        if identity in self.error_workers.named:
            return _NAMED
        wait_ns = self.error_workers.ignored_for_ns(listed_as(identity, account), now_ns)
        if wait_ns:
            seconds = -(-wait_ns // NS_PER_S)
            return write_error(reasons.NOT_ALLOWED, f"too many faults; come again in {seconds} s")
        services = self._services.offer(list(dict.fromkeys(names)))
        known = peer in self.by_peer or identity in self.by_identity
        if services is None or (len(self.by_peer) >= self._bounds.workers_max and not known):
            return _FULL
        self._make_way(peer, identity)
        session = Session(account, peer, identity, services, terms, now_ns, token)
        for service in services:
            service.sessions += 1
        self.by_peer[peer] = self.by_identity[identity] = session
        self._liveness.watch(session)
        self._facts.worker(session, b"connect", now_ns)
        return None

    def choose_by(self, service: Service, policy: int) -> None:
        """The config says anew how workers of this service are chosen."""
        former = service.chooser
        service.choose_by(policy)
        for session in self.by_peer.values():
            if service in session.services:
                session.exchange(former, service.chooser)

    def say_goodbye(self, session: Session, farewell: Frames) -> None:
        """It gets no more tasks, and is answered when its last one is done."""
        session.leave()
        session.farewell = farewell
        if not session.running:
            self._out.workers.append(farewell)
            self.end(session, b"disconnected")

    def end(self, session: Session, event: bytes = b"lost", reason: bytes = b"") -> None:
        """It is gone: `lost`, for this reason, or `disconnected` at its own request."""
        self._facts.worker(session, event, self._now.ns, len(session.running), reason)
        del self.by_peer[session.peer]
        if self.by_identity.get(session.identity) is session:
            del self.by_identity[session.identity]
        for service in session.services:
            service.sessions -= 1
        self._liveness.forget(session)
        self._assignment.lose(session)

    def unreachable(self, refused: list[Frames]) -> None:
        """Sends that were refused: the worker is gone, and what was refused provably did not leave."""
        self._counters.refused_by_worker += len(refused)
        by_session: dict[Session, list[Frames]] = {}
        for message in refused:
            session = self.by_peer.get(message[0])
            if session is not None:
                by_session.setdefault(session, []).append(message)
        # All of them leave before the first task looks for another slot, or it might find one of theirs.
        for session in by_session:
            session.leave()
        for session, messages in by_session.items():
            for _, ticket, _, body in messages:
                self._assignment.undelivered(session, ticket, body)
            self._lose([session], _UNREACHABLE)

    def gone(self, peers: list[bytes]) -> None:
        """Their connections are closed; what came before that has been processed."""
        self._lose([session for session in map(self.by_peer.get, peers) if session is not None], _UNREACHABLE)

    def pong(self, session: Session, envelope: bytes, pong: bytes, seen_ns: int) -> None:
        """Answer a PING that arrived at `seen_ns`. The first one makes its worker ready."""
        self._out.workers.append([session.peer, envelope, pong, b""])
        if session.ready or session.farewell is not None:
            return
        if session.identity not in self.drained:
            self._assignment.enter(session, seen_ns)
            self._facts.worker(session, b"ready", self._now.ns)
        elif not session.greeted_ns:
            session.greeted_ns = seen_ns
            self._say_drained(session)

    def fault(self, peer: bytes, answer: Frames) -> None:
        """A worker, or a stranger at the backend, broke the protocol: it is told, and eventually ignored."""
        self._counters.faults += 1
        self._out.workers.append(answer)
        now_ns = self._now.ns
        session = self.by_peer.get(peer)
        name = listed_as(session.identity, session.account) if session is not None else peer
        if not self.error_workers.fault(name, now_ns):
            return
        self._facts.stranger(readable(name).encode(), b"error_listed", now_ns, _FAULTS)
        if session is not None:
            self._lose([session], _FAULTS)

    def ignore(self, identities: list[bytes]) -> None:
        """The workers that the config names now: those that are connected are told, and dropped at once."""
        self.error_workers.named = frozenset(identities)
        for identity in identities:
            session = self.by_identity.get(identity)
            if session is not None:
                self._out.workers.append([session.peer, b"", _NAMED, b""])
                self._lose([session], _FAULTS)

    def drain(self, identities: list[bytes]) -> None:
        """The workers that get no more tasks, according to the config now. Whoever is one no more is ready again soon:
        with its next PONG.
        """
        self.drained = frozenset(identities)
        for identity in identities:
            session = self.by_identity.get(identity)
            if session is not None and session.ready:
                session.leave()
                self._say_drained(session)

    def _say_drained(self, session: Session) -> None:
        self._out.workers.append([session.peer, b"", _DRAINED, b""])
        self._facts.worker(session, b"drained", self._now.ns, len(session.running))

    def check_rights(self, accounts: dict[bytes, Account]) -> None:
        """The config says anew who may serve what: whoever serves more than it may is told, and dropped at once.

        `accounts`: by connection.
        """
        for session in self.by_peer.values():
            session.account = accounts.get(session.peer, session.account)
        dropped = [session for session in self.by_peer.values() if session.lacks_rights()]
        for session in dropped:
            self._out.workers.append([session.peer, b"", _NO_RIGHT, b""])
        self._lose(dropped, _FAULTS)

    def ignored(self, peer: bytes) -> bool:
        return bool(self.error_workers) and self.error_workers.ignored_for_ns(peer, self._now.ns) > 0

    def on_tick(self) -> None:
        self._lose(self._liveness.lost(self._now.ns), _SILENT)

    def forgive(self, pause_ns: int) -> None:
        self._liveness.forgive(pause_ns)
        self.claims.forgive(pause_ns)

    @property
    def next_due_ns(self) -> int:
        due_ns = self._liveness.next_due_ns if self.by_peer else NEVER_NS
        return min(due_ns, self.claims.next_due_ns)

    def _lose(self, sessions: list[Session], reason: bytes) -> None:
        # All of them leave before the first task looks for another slot, or it might find one of theirs.
        for session in sessions:
            session.leave()
        for session in sessions:
            self._counters.workers_lost += 1
            self.end(session, b"lost", reason)

    def _make_way(self, peer: bytes, identity: bytes) -> None:
        """A connection has only one session, and so has a worker, even one that comes over another connection."""
        for former in (self.by_peer.get(peer), self.by_identity.get(identity)):
            if former is not None and not former.ended:
                self.end(former, b"lost", _REPLACED)


def listed_as(identity: bytes, account: Account) -> bytes:
    """By what name faults are counted: whatever others do under the same identity is not this worker's fault."""
    return b"%b (%b)" % (identity, account.name) if account.name else identity
