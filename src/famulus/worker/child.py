"""A child process and the protocol with it: a call goes down, an answer comes up, with lengths first. No pickle.

call      lengths of name, header and body; deadline; then name, header, body
answer    lengths of reason, traceback and body; then these; an empty reason means OK

For a batch the header is empty, and both bodies are those of `child_batches`. Before its answer a child may say more,
each time in the form of an answer, whose first byte says which it is:

part      the next one of a stream, with only a body
wait      it has no credit for the next part: what comes down is the number of the last part that is wanted by now, or 0
          if nobody wants any more
progress  how far a task has got: its place in the batch in the place of the reason's length, and a body
"""

from __future__ import annotations

import struct
from contextlib import suppress
from socket import SOCK_STREAM, socket
from time import monotonic_ns

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.session.header_cache import Given, ParsedHeader
from famulus.worker import lifelines
from famulus.worker.calls import Answer, BatchCall, Call, attempt, log_failure, my_current
from famulus.worker.child_batches import attempt_and_write, read_answers, read_batch, write_batch
from famulus.worker.child_messages import (
    ANSWER,
    PART,
    PROGRESS,
    SAID,
    WANTED,
    PartsOfChild,
    Sender,
    credit_of,
    read,
    read_all,
)
from famulus.worker.nursery import Nursery
from famulus.worker.outgoing_parts import OutgoingParts, StreamCall
from famulus.worker.services import Services
from famulus.worker.stream_call import attempt_stream

_CALL = struct.Struct("=IIQq")


class TimeIsUp(Exception):
    """The function runs longer than its service allows. This child is of no use any more."""


class Child:
    """The worker's end. Used by one thread, except for `close`."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        #: It was told that nobody wants more of its stream, and closes its generator.
        self.is_closing = False
        self._line, theirs = lifelines.new_pair(SOCK_STREAM)
        try:
            self.pid = nursery.fork(theirs)
        except BaseException:
            self.close()
            raise
        finally:
            lifelines.close(theirs)

    def perform(self, call: Call) -> Answer:
        """Have the child call the function. Raises EOFError if the child died of it, and TimeIsUp."""
        given = call.given
        self.is_closing = False
        if isinstance(call, BatchCall):
            reason, trace, body = self._ask(call, b"", write_batch(call))
        elif isinstance(call, StreamCall):
            try:
                reason, trace, body = self._ask(call, given.header, given.body, call.parts)
            finally:
                call.parts.over.set()
        else:
            reason, trace, body = self._ask(call, given.header, given.body)
        if trace:
            log_failure(call, trace.decode())
        if isinstance(call, BatchCall):
            return read_answers(call, body)
        return Answer(given, reason.decode(), body)

    def _ask(self, call: Call, header: bytes, body: bytes, parts: OutgoingParts | None = None) -> list[bytes]:
        service = call.service
        until_ns = monotonic_ns() + service.time_limit_ns if service.is_limited else NEVER_NS
        name = service.name.encode()
        limit_s = service.time_limit_ns / NS_PER_S if service.is_limited else None
        try:
            if limit_s != self._line.gettimeout():
                self._line.settimeout(limit_s)
            head = _CALL.pack(len(name), len(header), len(body), call.deadline_ns)
            self._line.sendall(head + name + header)
            self._line.sendall(body)
            while True:
                kind, *lengths = SAID.unpack(read(self._line, SAID.size))
                if kind == ANSWER:
                    return read_all(self._line, lengths)
                self._hear(call, parts, kind, lengths, until_ns)
                if service.is_limited:
                    self._line.settimeout(_seconds_until(until_ns))
        except TimeoutError as error:
            raise TimeIsUp from error
        except OSError as error:
            raise EOFError from error

    def _hear(self, call: Call, parts: OutgoingParts | None, kind: int, lengths: list[int], until_ns: int) -> None:
        """What the child says before its answer."""
        place, _, length = lengths
        body = read(self._line, length)
        if kind == PROGRESS:
            told = call.calls[place] if isinstance(call, BatchCall) else call
            if call.service.tell_progress is not None:
                call.service.tell_progress(told.given, body)
            return
        assert parts is not None
        if kind == PART:
            if not parts.closed:
                parts.add(body)
            return
        refusal = parts.wait(until_ns)
        _seconds_until(until_ns)
        self.is_closing = bool(refusal)
        self._line.sendall(WANTED.pack(0 if refusal else parts.last))

    def interrupt(self) -> None:
        """By another thread: whatever it does, it is of no use any more. Who waits for its answer gets an EOFError."""
        with suppress(OSError):
            self._line.shutdown(2)

    def bury(self) -> str:
        """How it died."""
        lifelines.close(self._line)
        return self._nursery.bury(self.pid)

    def close(self) -> None:
        """The child ends when it sees this; a thread that waits for its answer gets an EOFError."""
        self.interrupt()
        lifelines.close(self._line)


def serve(line: socket, services: Services) -> None:
    """The life of a child: calls in, answers out, until the worker is gone."""
    current = my_current()
    sender = Sender(line)
    for service in services.values():
        service.tell_progress = sender.tell_progress
    with suppress(EOFError, ConnectionError):
        while True:
            *lengths, deadline_ns = _CALL.unpack(read(line, _CALL.size))
            name, header, body = read_all(line, lengths)
            service = services[name.decode()]
            if header:
                # Only the parent needs to know who it is from, and its message_id.
                given = Given(b"", ParsedHeader(service.name, None), b"", header, body)
                current.call = call = Call(given, service, deadline_ns)
                sender.calls = [call]
                if service.streams:
                    answer, trace = attempt_stream(call, PartsOfChild(line, sender, credit_of(header), deadline_ns))
                else:
                    answer, trace = attempt(call)
                reason, body = answer.reason, answer.body
            else:
                current.call = batch = read_batch(body, service)
                sender.calls = batch.calls
                body, trace = attempt_and_write(batch)
                reason = ""
            current.call = None
            sender.answer(reason.encode(), trace.encode("utf-8", "replace"), body)


def _seconds_until(until_ns: int) -> float:
    left_ns = until_ns - monotonic_ns()
    if left_ns <= 0:
        raise TimeIsUp
    return left_ns / NS_PER_S
