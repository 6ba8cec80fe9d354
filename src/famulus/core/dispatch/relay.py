"""The parts of streams, on their way from whoever has a task to its client, and the credit for them, the other way.

No router reads them: their headers are constants, and their envelopes and bodies say all that there is. A part must be
the next one, and wanted: the client reads so many and no more, so nobody has to keep any for it.
"""

from __future__ import annotations

from typing import Final

from famulus.core.dispatch.outgoing import Frames
from famulus.core.dispatch.parts import Parts
from famulus.core.dispatch.session import Session
from famulus.core.dispatch.task import RUNNING, Task
from famulus.wire import inner, limits, reasons
from famulus.wire.headers import CANCEL, CREDIT, PART, write_error
from famulus.wire.stream import NUMBER_BYTES, PROGRESS

# Final, so that compiled code need not look it up each time.
_CREDIT: Final = CREDIT
_PART: Final = PART
_NUMBER_BYTES: Final = NUMBER_BYTES
_BAD_PART: Final = write_error(
    reasons.BAD_FRAMES, "a part has the ticket of a task that was asked for with credit and the next number, if wanted"
)
_BAD_CREDIT: Final = write_error(
    reasons.BAD_FRAMES,
    "a credit is a number of four bytes and the envelope of a task, and wants no more than"
    f" {limits.CREDIT_MAX} parts at once",
)


# -- from workers and other brokers to clients ----------------------------------------------------------------------


def from_worker(parts: Parts, session: Session, place: bytes, body: bytes) -> None:
    """`place`: the ticket and the number."""
    ticket = place[:-_NUMBER_BYTES]
    task = session.running.get(ticket)
    if task is None or task.is_cancelled or not task.waits_for(ticket):
        parts.counters.late += 1
    elif not _pass_on(parts, task, place[-_NUMBER_BYTES:], body):
        unreadable(parts, session, place)
        parts.sessions.fault(session.peer, [session.peer, place, _BAD_PART, b""])


def from_delegate(parts: Parts, identity: bytes, place: bytes, body: bytes) -> None:
    delegate = parts.delegates.by_identity.get(identity)
    ticket = place[:-_NUMBER_BYTES]
    task = delegate.running.get(ticket) if delegate is not None else None
    if task is None or task.is_cancelled or not task.waits_for(ticket):
        parts.counters.late += 1
    elif len(body) > parts.body_bytes_max or not _pass_on(parts, task, place[-_NUMBER_BYTES:], body):
        parts.counters.faults += 1
        parts.out.delegates.append((identity, [b"", CANCEL, ticket]))
        parts.outcomes.unknown(task, inner.UNKNOWN_BAD_PART)


def unreadable(parts: Parts, session: Session, place: bytes) -> None:
    """A part is missing, so the rest is worth nothing. The worker keeps its slot until it says that it has stopped."""
    ticket = place[:-_NUMBER_BYTES]
    task = session.running.get(ticket)
    if task is not None and task.waits_for(ticket):
        parts.out.workers.append([session.peer, b"", CANCEL, ticket])
        parts.outcomes.unknown(task, inner.UNKNOWN_BAD_PART)


def _pass_on(parts: Parts, task: Task, number: bytes, body: bytes) -> bool:
    """Whether it was what it should be."""
    credit = task.flow.credit
    if int.from_bytes(number, "big") == PROGRESS:
        if len(body) > limits.PROGRESS_BYTES_MAX:
            return False
        parts.progress.note(task, body, parts.now.ns)
        if credit:
            parts.out.clients.append([task.client, task.envelope + number, _PART, body])
        return True
    stream = parts.streams.of(task)
    passed = stream.passed if stream is not None else 0
    wanted = stream.wanted if stream is not None else credit
    if passed >= wanted or int.from_bytes(number, "big") != passed + 1:
        return False
    if stream is None:
        if task.known is not None:
            _choose_listener(parts, task)
        stream = parts.streams.begin(task)
    stream.passed = passed + 1
    stream.bytes += len(body)
    parts.out.clients.append([task.client, task.envelope + number, _PART, body])
    return True


def _choose_listener(parts: Parts, task: Task) -> None:
    """Several may have asked for it by its id, but the parts go to one: the last, since that is most likely there."""
    known = task.known
    assert known is not None
    known.is_streamed = True
    waiters, known.waiters = known.waiters, []
    for client, envelope in waiters:
        left_out = [task.client, task.envelope, task.client_header(inner.UNKNOWN_STREAMED), b""]
        parts.out.clients.append(left_out)
        task.client, task.envelope = client, envelope


# -- from clients to workers and other brokers ----------------------------------------------------------------------


def more(parts: Parts, client: bytes, envelope: bytes, body: bytes) -> None:
    """The client wants parts up to a certain number by now. What comes after the end of a stream is no fault."""
    wanted = int.from_bytes(body[:_NUMBER_BYTES], "big")
    stream = parts.streams.find(client, body[_NUMBER_BYTES:])
    if len(body) < _NUMBER_BYTES or (stream is not None and wanted - stream.passed > limits.CREDIT_MAX):
        parts.counters.faults += 1
        parts.out.clients.append([client, envelope, _BAD_CREDIT, b""])
    elif stream is not None and wanted > stream.wanted:
        stream.wanted = wanted
        task = stream.task
        if task.stage != RUNNING or task.is_cancelled:
            return
        credit = [b"", _CREDIT, body[:_NUMBER_BYTES] + task.ticket]
        if task.delegate:
            parts.out.delegates.append((task.delegate, credit))
        elif (session := parts.sessions.by_identity.get(task.worker)) is not None:
            parts.out.workers.append([session.peer, *credit])


def undelivered_credit(parts: Parts, identity: bytes, body: bytes) -> None:
    """The other broker was not told, so its worker would wait for ever."""
    delegate = parts.delegates.by_identity.get(identity)
    ticket = body[_NUMBER_BYTES:]
    task = delegate.running.get(ticket) if delegate is not None else None
    if task is not None and task.waits_for(ticket):
        parts.outcomes.unknown(task, inner.UNKNOWN_WORKER_LOST)


# -- nobody reads ---------------------------------------------------------------------------------------------------


def clients_gone(parts: Parts, clients: list[bytes]) -> None:
    """Nothing is to be made for nobody: the rest of a stream can go to no other connection."""
    for client in clients:
        for stream in parts.streams.of_client(client):
            parts.cancels.cancel(stream.task)


def refused(parts: Parts, messages: list[Frames]) -> None:
    """The port did not take these: their clients are gone, or read too slowly, and now lack a part."""
    for client, place, header, _ in messages:
        if header == _PART:
            stream = parts.streams.find(client, place[:-_NUMBER_BYTES])
            if stream is not None:
                parts.cancels.cancel(stream.task)
