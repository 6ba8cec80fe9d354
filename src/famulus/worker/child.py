"""A child process and the protocol with it: a call goes down, an answer comes up, with lengths first. No pickle.

call      lengths of name, header and body; deadline; then name, header, body
answer    lengths of reason, traceback and body; then these; an empty reason means OK

For a batch the header is empty, and both bodies are those of `child_batches`.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from socket import MSG_WAITALL, SOCK_STREAM, socket

from famulus.core.clock import NS_PER_S
from famulus.core.session.header_cache import Given, ParsedHeader
from famulus.worker import lifelines
from famulus.worker.calls import Answer, BatchCall, Call, attempt, log_failure, my_current
from famulus.worker.child_batches import attempt_and_write, read_answers, read_batch, write_batch
from famulus.worker.nursery import Nursery
from famulus.worker.services import Services

_CALL = struct.Struct("=IIQq")
_ANSWER = struct.Struct("=IIQ")


class TimeIsUp(Exception):
    """The function runs longer than its service allows. This child is of no use any more."""


class Child:
    """The worker's end. Used by one thread, except for `close`."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
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
        if isinstance(call, BatchCall):
            reason, trace, body = self._ask(call, b"", write_batch(call))
        else:
            reason, trace, body = self._ask(call, given.header, given.body)
        if trace:
            log_failure(call, trace.decode())
        if isinstance(call, BatchCall):
            return read_answers(call, body)
        return Answer(given, reason.decode(), body)

    def _ask(self, call: Call, header: bytes, body: bytes) -> list[bytes]:
        service = call.service
        name = service.name.encode()
        limit_s = service.time_limit_ns / NS_PER_S if service.is_limited else None
        try:
            if limit_s != self._line.gettimeout():
                self._line.settimeout(limit_s)
            head = _CALL.pack(len(name), len(header), len(body), call.deadline_ns)
            self._line.sendall(head + name + header)
            self._line.sendall(body)
            return _read_parts(self._line, _ANSWER.unpack(_read(self._line, _ANSWER.size)))
        except TimeoutError as error:
            raise TimeIsUp from error
        except OSError as error:
            raise EOFError from error

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
    with suppress(EOFError, ConnectionError):
        while True:
            *lengths, deadline_ns = _CALL.unpack(_read(line, _CALL.size))
            name, header, body = _read_parts(line, lengths)
            service = services[name.decode()]
            if header:
                # Only the parent needs to know who it is from, and its message_id.
                given = Given(b"", ParsedHeader(service.name, None), b"", header, body)
                current.call = Call(given, service, deadline_ns)
                answer, trace = attempt(current.call)
                reason, body = answer.reason, answer.body
            else:
                current.call = batch = read_batch(body, service)
                body, trace = attempt_and_write(batch)
                reason = ""
            current.call = None
            parts = reason.encode(), trace.encode("utf-8", "replace")
            line.sendall(_ANSWER.pack(*map(len, parts), len(body)) + parts[0] + parts[1])
            line.sendall(body)


def _read_parts(line: socket, lengths: list[int] | tuple[int, ...]) -> list[bytes]:
    return [_read(line, length) for length in lengths]


def _read(line: socket, length: int) -> bytes:
    if not length:
        return b""
    data = line.recv(length)
    while len(data) < length:
        # The rest of a large message comes in one go, unless a signal interrupts it.
        piece = line.recv(length - len(data), MSG_WAITALL)
        if not piece:
            raise EOFError
        data += piece
    return data
