"""What follows from the decisions of routers. Each is about a question, and must fit it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from famulus.core.clock import NEVER_NS
from famulus.core.dispatch.flows import Flow
from famulus.core.dispatch.outgoing import Frames
from famulus.core.dispatch.parts import Parts
from famulus.core.dispatch.question import Question
from famulus.core.dispatch.session import Session
from famulus.core.dispatch.sessions import IN_USE
from famulus.core.dispatch.strangers import unique_part
from famulus.core.dispatch.task import Task
from famulus.errors import ProtocolError
from famulus.wire import inner, reasons
from famulus.wire.headers import write_error, write_text

TERMS_REMEMBERED: Final = 4096
#: This many may wait for the same task; a client that asks more often has a fault.
WAITERS_MAX: Final = 100

_POISON: Final = write_error(reasons.BAD_HEADER, "no router could read this header")
_NOT_CONNECTED: Final = write_error(reasons.NOT_CONNECTED, "connect again")


class Decisions:
    def __init__(self, parts: Parts) -> None:
        self._now = parts.now
        self._out = parts.out
        self._counters = parts.counters
        self._closing = parts.closing
        self._flows = parts.flows
        self._facts = parts.facts
        self._questions = parts.questions
        self._managing = parts.managing
        self._delegates = parts.delegates
        self._repeats = parts.repeats
        self._services = parts.services
        self._assignment = parts.assignment
        self._delegation = parts.delegation
        self._sessions = parts.sessions
        self._secret = parts.secret
        self._terms: dict[bytes, inner.Terms] = {}
        self._follow: dict[bytes, Callable[[Question, Frames], None]] = {
            inner.ACCEPT: self._on_accept,
            inner.ANSWER: self._on_answer,
            inner.REPLY: self._on_reply,
            inner.CONNECT: self._on_connect,
            inner.PONG: self._on_pong,
            inner.DISCONNECT: self._on_disconnect,
            inner.LATE: self._on_late,
            inner.MANAGE: self._on_manage,
            inner.FAULT: self._on_fault,
        }

    def follow(self, question: Question, decision: Frames) -> None:
        """A ProtocolError if the decision does not fit its question: its router is as good as lost."""
        self._follow[decision[1]](question, decision)

    def _on_accept(self, question: Question, decision: Frames) -> None:
        _, _, name, terms_frame, worker_head, client_head, message_id, epoch_frame, visited, token = decision
        _demand(question.origin == inner.FROM_CLIENT)
        epoch = inner.read_epoch(epoch_frame) if epoch_frame else 0
        key = b""
        if not epoch_frame:
            token = token or self._token_of(question.asker)
            key = _key(token, name, message_id)
        if key and self._told_before(question, key, client_head + message_id, bool(visited)):
            return
        service = self._services.find(name, self._now.ns)
        terms = self._terms.get(terms_frame)
        if terms is None:
            terms = self._remember(terms_frame)
        if service is None or self._closing.on:
            rejection = inner.REJECTED_DRAINING if self._closing.on else inner.REJECTED_NO_SERVICE
            self._counters.accepted += 1
            self._counters.rejected += 1
            self._out.clients.append([question.asker, question.envelope, client_head + message_id + rejection, b""])
            self._facts.rejected_unseen(
                self._questions.next_number(),
                message_id,
                name,
                question.asker,
                terms,
                inner.read_names(visited),
                question.seen_ns,
                rejection,
                self._now.ns,
                len(question.body),
            )
            return
        way = tuple(inner.read_names(visited)) if visited else ()
        flow = Flow(service, terms, worker_head, client_head, way, token if key else b"")
        seen_ns = question.seen_ns
        task = Task(question.asker, question.envelope, question.body, seen_ns, flow, message_id, seen_ns)
        if visited:
            self._delegates.exchange(flow.came_from).taken += 1
        if key:
            task.known = self._repeats.begin(key)
        self._assignment.accept(task)
        if epoch and service.expected_by_ns == NEVER_NS:
            self._flows.install(question.header, epoch, flow)

    def _token_of(self, client: bytes) -> bytes:
        """Of a client that gave none: its connection's. Nobody else can give it, since it has our secret in it."""
        return write_text(f"{self._secret}-{unique_part(client).hex()}")

    def _told_before(self, question: Question, key: bytes, head: bytes, from_broker: bool) -> bool:
        """Whether this is a task that we know already: then its client hears how it ended, or will."""
        known = self._repeats.get(key, self._now.ns)
        if known is None:
            return False
        self._counters.repeated += 1
        if known.ended_ns:
            tail = known.tail if known.whole else inner.UNKNOWN_FORGOTTEN
            self._out.clients.append([question.asker, question.envelope, head + tail, known.body])
        elif from_broker and self._delegates.hold(known):
            # Two brokers got it from one client, and hand it over: each would wait for the other, and nobody run it.
            self._out.clients.append([question.asker, question.envelope, head + inner.REJECTED_HANDED_OVER, b""])
        elif len(known.waiters) < WAITERS_MAX:
            known.waiters.append((question.asker, question.envelope))
        else:
            self._out.clients.append([question.asker, question.envelope, head + inner.UNKNOWN_TOO_MANY_WAIT, b""])
        return True

    def _on_answer(self, question: Question, decision: Frames) -> None:
        _demand(question.task is not None)
        assert question.task is not None
        if decision[2] == inner.OUTCOME_REJECTED:
            _demand(question.origin == inner.FROM_DELEGATE)
            self._delegation.rejected(question.task, question.asker)
            return
        if decision[2] == inner.OUTCOME_UNKNOWN:
            _demand(question.origin == inner.FROM_DELEGATE)
            self._delegation.unknown(question.task, decision[3])
            return
        self._assignment.answer(question.task, decision[2], decision[3], question.body)

    def _on_reply(self, question: Question, decision: Frames) -> None:
        self._reply(question, decision[2], decision[3])

    def _on_connect(self, question: Question, decision: Frames) -> None:
        _, _, identity, terms, names, header, body, token = decision
        _demand(question.origin != inner.FROM_CLIENT)
        former = self._sessions.by_peer.get(question.asker)
        if former is not None and former.ready and question.seen_ns < former.greeted_ns:
            # It said CONNECT twice before its PING, and this one took longer at its router: it is ready by now.
            self._reply(question, header, body)
            return
        session_terms = inner.read_session_terms(terms)
        holder = self._sessions.holder(question.asker, identity, token)
        if holder is not None:
            self._claim(holder, question, decision)
            return
        refusal = self._sessions.connect(question.asker, identity, inner.read_names(names), session_terms, token)
        if refusal is None:
            self._reply(question, header, body)
        else:
            self._reply(question, refusal, b"")

    def _claim(self, holder: Session, question: Question, decision: Frames) -> None:
        """Another worker has the name: whether that one is there is found out first."""
        is_to_be_asked = self._sessions.claims.make(holder, question, decision, self._now.ns)
        if is_to_be_asked is None:
            self._reply(question, IN_USE, b"")
        elif is_to_be_asked:
            self._sessions.ask(holder)

    def settle_claims(self) -> None:
        """Who gets a name that another worker has, where that is known by now."""
        for claim, holder_stays in self._sessions.claims.due(self._now.ns):
            if not holder_stays and not claim.holder.ended:
                self._sessions.dispossess(claim.holder)
            for question, decision in claim.claimants.values():
                if holder_stays:
                    self._reply(question, IN_USE, b"")
                else:
                    # The first one gets the name, and the next one is another that claims it.
                    self._on_connect(question, decision)

    def _on_pong(self, question: Question, decision: Frames) -> None:
        _demand(question.origin == inner.FROM_WORKER)
        session = self._sessions.by_peer.get(question.asker)
        if session is None:
            self._reply(question, _NOT_CONNECTED, b"")
            return
        _, _, pong, epoch_frame = decision
        if epoch_frame:
            self._flows.install_pong(question.header, inner.read_epoch(epoch_frame), pong)
        self._sessions.pong(session, question.envelope, pong, question.seen_ns)

    def _on_disconnect(self, question: Question, decision: Frames) -> None:
        _demand(question.origin != inner.FROM_CLIENT)
        session = self._sessions.by_peer.get(question.asker)
        farewell = [question.asker, question.envelope, decision[2], b""]
        if session is None:
            self._out.workers.append(farewell)
        else:
            self._sessions.say_goodbye(session, farewell)

    def _on_late(self, question: Question, decision: Frames) -> None:
        self._counters.late += 1
        if decision[2]:
            self._reply(question, decision[2], b"")

    def _on_manage(self, question: Question, decision: Frames) -> None:
        _demand(question.origin == inner.FROM_CLIENT)
        self._managing.ask(question, self._now.ns)

    def _on_fault(self, question: Question, decision: Frames) -> None:
        if question.task is not None:
            self._assignment.bad_answer(question.task)
        if question.origin == inner.FROM_DELEGATE:
            self._counters.faults += 1
        elif question.origin == inner.FROM_CLIENT:
            self._counters.faults += 1
            self._reply(question, decision[2], b"")
        else:
            self._sessions.fault(question.asker, [question.asker, question.envelope, decision[2], b""])

    def give_up_poison(self) -> None:
        for question in self._questions.take_poison():
            self._counters.faults += 1
            if question.task is not None:
                self._assignment.bad_answer(question.task)
            self._reply(question, _POISON, b"")

    def _remember(self, frame: bytes) -> inner.Terms:
        # Clients mostly use few time-outs and priorities, so a dict saves the unpacking.
        if len(self._terms) >= TERMS_REMEMBERED:
            self._terms.clear()
        terms = self._terms[frame] = inner.read_terms(frame)
        return terms

    def _reply(self, question: Question, header: bytes, body: bytes) -> None:
        to = self._out.clients if question.origin == inner.FROM_CLIENT else self._out.workers
        to.append([question.asker, question.envelope, header, body])


def _key(token: bytes, service: bytes, message_id: bytes) -> bytes:
    """What a task is remembered by: an id means something only together with whose it is. All have no zero in them."""
    return b"\0".join((token, service, message_id))


def _demand(fits: bool) -> None:
    """A decision must fit its question: a router that mixes them up is as good as lost."""
    if not fits:
        raise ProtocolError(reasons.BAD_FRAMES, "this decision does not fit its question")
