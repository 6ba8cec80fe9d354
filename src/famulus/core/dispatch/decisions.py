"""What follows from the decisions of routers. Each decision is about a question, and must fit it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from famulus.core.access import BACKEND, FRONTEND, SERVE
from famulus.core.clock import NEVER_NS
from famulus.core.dispatch import delegation
from famulus.core.dispatch.flows import Flow
from famulus.core.dispatch.outgoing import Frames
from famulus.core.dispatch.parts import Parts
from famulus.core.dispatch.questions import Question
from famulus.core.dispatch.repeats import Known
from famulus.core.dispatch.service import Service
from famulus.core.dispatch.session import Session
from famulus.core.dispatch.sessions import IN_USE, NOT_YOURS
from famulus.core.dispatch.strangers import unique_part
from famulus.core.dispatch.task import Task
from famulus.errors import ProtocolError
from famulus.wire import inner, limits, reasons
from famulus.wire.headers import write_error, write_text

TERMS_REMEMBERED: Final = 4096
#: This many may wait for the same task; a client that asks more often is faulty.
WAITERS_MAX: Final = 100

_POISON: Final = write_error(reasons.BAD_HEADER, "no router could read this header")
_NOT_CONNECTED: Final = write_error(reasons.NOT_CONNECTED, "connect again")
#: To one that was let in, and that the config does not know any more.
VOID: Final = write_error(reasons.NOT_ALLOWED, "your key is not valid here any more")
LONG_ENVELOPE: Final = write_error(
    reasons.BAD_FRAMES, f"the envelope of a task with credit has at most {limits.STREAM_ENVELOPE_BYTES_MAX} bytes"
)


def follow(parts: Parts, question: Question, decision: Frames) -> None:
    """Raises a ProtocolError if the decision does not fit its question: its router is as good as lost."""
    _FOLLOW[decision[1]](parts, question, decision)


def _on_accept(parts: Parts, question: Question, decision: Frames) -> None:
    _, _, name, terms_frame, worker_head, client_head, message_id, epoch_frame, visited, token, passed_for, mark = (
        decision
    )
    _demand(question.origin == inner.FROM_CLIENT and (not passed_for or question.account.is_broker))
    is_named = bool(message_id)
    if not is_named:
        message_id = parts.message_ids.next()
    account = parts.accounts.now_of(question.asker, question.account)
    is_passed_on = account.is_broker and not account.is_void
    if is_passed_on:
        # What a broker passes on is its client's, who has no name if it came without a key.
        account = parts.accounts.of(passed_for) if passed_for else parts.accounts.others
    if account.is_void:
        # It was there when it asked.
        parts.facts.void(account, FRONTEND, question.asker, parts.now.ns)
        _reply(parts, question, client_head + message_id + inner.REJECTED_VOID, b"")
        return
    epoch = inner.read_epoch(epoch_frame) if epoch_frame else 0
    key, may_come_again = b"", True
    if is_named:
        # Without a token it is known by its connection, and other connections may send the same header.
        may_come_again = bool(token) and not visited
        token = token or _token_of(parts, question.asker)
        key = _key(account.name, token, name, message_id)
    terms = parts.terms.get(terms_frame)
    if terms is None:
        terms = _remember(parts, terms_frame)
    if terms.credit and len(question.envelope) > limits.STREAM_ENVELOPE_BYTES_MAX:
        parts.counters.faults += 1
        _reply(parts, question, LONG_ENVELOPE, b"")
        return
    if key and _told_before(parts, question, key, client_head + message_id, bool(visited), terms.credit):
        return
    service = parts.services.find(name, parts.now.ns)
    way = tuple(inner.read_names(visited)) if visited else ()
    seen_ns = question.seen_ns
    if service is None or parts.closing.on or question.is_cancelled:
        # It must not count for any service of ours.
        flow = Flow(Service(name), terms, worker_head, client_head, way)
        task = Task(account, question.asker, question.envelope, question.body, seen_ns, flow, message_id, seen_ns)
        parts.counters.accepted += 1
        parts.outcomes.begin(task)
        parts.outcomes.reject(task, _why_not_accepted(parts, question))
        return
    if terms.policy != service.policy:
        parts.sessions.choose_by(service, terms.policy)
    if is_named:
        service.remember(terms)
    flow = Flow(service, terms, worker_head, client_head, way, token if key else b"", inner.read_mark(mark))
    task = Task(account, question.asker, question.envelope, question.body, seen_ns, flow, message_id, seen_ns)
    if visited:
        parts.delegates.exchange(flow.came_from).taken += 1
    if key:
        task.known = parts.repeats.begin(key, terms.credit)
    if terms.is_hedge:
        parts.assignment.hedge(task)
        return
    if terms.delay_ms:
        parts.delays.accept(task)
        return
    parts.assignment.accept(task)
    may_keep = may_come_again and service.expected_by_ns == NEVER_NS and not is_passed_on
    # Equal rights share their flows: those of a principal must be known to be what this decision was made of.
    if may_keep and parts.accounts.is_current(account, epoch):
        if not is_named:
            parts.flows.install(account.flows, question.header, epoch, flow)
        elif not terms.credit:
            parts.flows.install_named(account.flows, question.header, message_id, epoch, flow)


def _why_not_accepted(parts: Parts, question: Question) -> bytes:
    if question.is_cancelled:
        return inner.REJECTED_CANCELLED
    return inner.REJECTED_DRAINING if parts.closing.on else inner.REJECTED_NO_SERVICE


def _token_of(parts: Parts, client: bytes) -> bytes:
    """For a client that gave none: its connection's. Nobody else can give it, since it contains our secret."""
    return write_text(f"{parts.secret}-{unique_part(client).hex()}")


def _told_before(parts: Parts, question: Question, key: bytes, head: bytes, from_broker: bool, credit: int) -> bool:
    """Whether we already know this task: then its client is told how it ended, or will be."""
    known = parts.repeats.get(key, parts.now.ns)
    if known is None:
        return False
    is_awaited = not known.until_ns and not known.is_streamed and known.credit == credit
    refusal = b""
    if is_awaited and question.is_cancelled:
        refusal = inner.UNKNOWN_LEFT_TO_OTHERS
    elif is_awaited and from_broker and parts.delegates.hold(known):
        # Two brokers got it from one client and hand it to each other: both would wait, and neither would run it.
        refusal = inner.REJECTED_HANDED_OVER
    if refusal:
        parts.counters.repeated += 1
        parts.out.clients.append([question.asker, question.envelope, head + refusal, b""])
    else:
        tell_again(parts, known, question.asker, question.envelope, head, credit)
    return True


def tell_again(parts: Parts, known: Known, client: bytes, envelope: bytes, head: bytes, credit: int = 0) -> None:
    """One more asks for this task: now it is told how it ended, or later how it ends."""
    parts.counters.repeated += 1
    if known.is_streamed or (not known.until_ns and known.credit != credit):
        parts.out.clients.append([client, envelope, head + inner.UNKNOWN_STREAMED, b""])
    elif known.until_ns:
        tail = known.tail if known.whole else inner.UNKNOWN_FORGOTTEN
        parts.out.clients.append([client, envelope, head + tail, known.body])
    elif len(known.waiters) < WAITERS_MAX:
        known.waiters.append((client, envelope))
    else:
        parts.out.clients.append([client, envelope, head + inner.UNKNOWN_TOO_MANY_WAIT, b""])


def _on_answer(parts: Parts, question: Question, decision: Frames) -> None:
    _demand(question.task is not None)
    assert question.task is not None
    _, _, outcome, tail = decision
    is_unfinished = outcome == inner.OUTCOME_REJECTED or outcome == inner.OUTCOME_UNKNOWN
    if not is_unfinished:
        parts.assignment.answer(question.task, outcome, tail, question.body)
    elif question.origin != inner.FROM_DELEGATE:
        parts.assignment.given_up(question.task, tail, question.body, begun=outcome == inner.OUTCOME_UNKNOWN)
    elif outcome == inner.OUTCOME_REJECTED:
        delegation.rejected(parts, question.task, question.asker)
    else:
        delegation.unknown(parts, question.task, tail)


def _on_reply(parts: Parts, question: Question, decision: Frames) -> None:
    _reply(parts, question, decision[2], decision[3])


def _on_refuse(parts: Parts, question: Question, decision: Frames) -> None:
    _, _, header, wanted, principal, names = decision
    services = inner.read_names(names)
    parts.facts.not_allowed(question.origin, wanted, principal, question.asker, services, parts.now.ns)
    _reply(parts, question, header, b"")


def _on_connect(parts: Parts, question: Question, decision: Frames) -> None:
    _, _, identity, terms, names, header, body, token = decision
    _demand(question.origin != inner.FROM_CLIENT)
    former = parts.sessions.by_peer.get(question.asker)
    if former is not None and former.ready and question.seen_ns < former.greeted_ns:
        # It sent CONNECT twice before its PING, and this one took longer at its router: the worker is ready by now.
        _reply(parts, question, header, body)
        return
    session_terms = inner.read_session_terms(terms)
    account = parts.accounts.now_of(question.asker, question.account)
    holder = parts.sessions.holder(account, question.asker, identity, token)
    if account.is_void:
        parts.facts.void(account, BACKEND, question.asker, parts.now.ns)
        _reply(parts, question, VOID, b"")
        return
    if holder is not None and holder.account is not account:
        parts.facts.not_allowed(question.origin, SERVE, account.name, question.asker, [], parts.now.ns)
        _reply(parts, question, NOT_YOURS, b"")
        return
    if holder is not None:
        _claim(parts, holder, question, decision)
        return
    refusal = parts.sessions.connect(account, question.asker, identity, inner.read_names(names), session_terms, token)
    if refusal is None:
        _reply(parts, question, header, body)
    else:
        _reply(parts, question, refusal, b"")


def _claim(parts: Parts, holder: Session, question: Question, decision: Frames) -> None:
    """Another worker has the name: first find out whether that one is still there."""
    is_to_be_asked = parts.sessions.claims.make(holder, question, decision, parts.now.ns)
    if is_to_be_asked is None:
        _reply(parts, question, IN_USE, b"")
    elif is_to_be_asked:
        parts.sessions.ask(holder)


def settle_claims(parts: Parts) -> None:
    """Decide the claims that can be decided by now."""
    for claim, holder_stays in parts.sessions.claims.due(parts.now.ns):
        if not holder_stays and not claim.holder.ended:
            parts.sessions.dispossess(claim.holder)
        for question, decision in claim.claimants.values():
            if holder_stays:
                _reply(parts, question, IN_USE, b"")
            else:
                # The first one gets the name, and the next one is then a claimant again.
                _on_connect(parts, question, decision)


def _on_pong(parts: Parts, question: Question, decision: Frames) -> None:
    _demand(question.origin == inner.FROM_WORKER)
    session = parts.sessions.by_peer.get(question.asker)
    if session is None:
        _reply(parts, question, _NOT_CONNECTED, b"")
        return
    _, _, pong, epoch_frame = decision
    if epoch_frame:
        parts.flows.install_pong(question.header, inner.read_epoch(epoch_frame), pong)
    parts.sessions.pong(session, question.envelope, pong, question.seen_ns)


def _on_disconnect(parts: Parts, question: Question, decision: Frames) -> None:
    _demand(question.origin != inner.FROM_CLIENT)
    session = parts.sessions.by_peer.get(question.asker)
    farewell = [question.asker, question.envelope, decision[2], b""]
    if session is None:
        parts.out.workers.append(farewell)
    else:
        parts.sessions.say_goodbye(session, farewell)


def _on_late(parts: Parts, question: Question, decision: Frames) -> None:
    parts.counters.late += 1
    if decision[2]:
        _reply(parts, question, decision[2], b"")


def _on_cancel(parts: Parts, question: Question, decision: Frames) -> None:
    _demand(question.origin == inner.FROM_CLIENT)
    parts.cancels.ask(question.asker, question.body, question.seen_ns)
    parts.cancels.look()


def _on_manage(parts: Parts, question: Question, decision: Frames) -> None:
    _demand(question.origin == inner.FROM_CLIENT)
    parts.managing.ask(question, parts.now.ns)


def _on_fault(parts: Parts, question: Question, decision: Frames) -> None:
    if question.task is not None:
        parts.assignment.bad_answer(question.task)
    if question.origin == inner.FROM_DELEGATE:
        parts.counters.faults += 1
    elif question.origin == inner.FROM_CLIENT:
        parts.counters.faults += 1
        _reply(parts, question, decision[2], b"")
    else:
        parts.sessions.fault(question.asker, [question.asker, question.envelope, decision[2], b""])


def give_up_poison(parts: Parts) -> None:
    for question in parts.questions.take_poison():
        parts.counters.faults += 1
        if question.task is not None:
            parts.assignment.bad_answer(question.task)
        _reply(parts, question, _POISON, b"")


def _remember(parts: Parts, frame: bytes) -> inner.Terms:
    terms = inner.read_terms(frame)
    if not terms.delay_ms:  # delays are many, and would push out what comes again
        if len(parts.terms) >= TERMS_REMEMBERED:
            parts.terms.clear()
        parts.terms[frame] = terms
    if terms.abandoned_is_cancelled:
        parts.cancels.minds_gone = True
    return terms


def _reply(parts: Parts, question: Question, header: bytes, body: bytes) -> None:
    to = parts.out.clients if question.origin == inner.FROM_CLIENT else parts.out.workers
    to.append([question.asker, question.envelope, header, body])


def _key(principal: bytes, token: bytes, service: bytes, message_id: bytes) -> bytes:
    """What a task is remembered by: an id means something only together with its owner. No part contains a zero."""
    return b"\0".join((principal, token, service, message_id))


def _demand(fits: bool) -> None:
    """A decision must fit its question: a router that mixes them up is as good as lost."""
    if not fits:
        raise ProtocolError(reasons.BAD_FRAMES, "this decision does not fit its question")


_FOLLOW: Final[dict[bytes, Callable[[Parts, Question, Frames], None]]] = {
    inner.ACCEPT: _on_accept,
    inner.ANSWER: _on_answer,
    inner.REPLY: _on_reply,
    inner.REFUSE: _on_refuse,
    inner.CONNECT: _on_connect,
    inner.PONG: _on_pong,
    inner.DISCONNECT: _on_disconnect,
    inner.LATE: _on_late,
    inner.CANCEL: _on_cancel,
    inner.MANAGE: _on_manage,
    inner.FAULT: _on_fault,
}
