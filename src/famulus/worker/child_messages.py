"""What a child process sends: its answers, and before them parts and progress. The protocol is that of `child`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from socket import MSG_WAITALL, socket
from threading import Lock
from time import monotonic_ns
from typing import Final

from famulus.core.session.header_cache import Given
from famulus.wire import headers
from famulus.worker.calls import STOPPED, Call
from famulus.worker.outgoing_parts import OVER

#: Which it is, then the lengths of reason, traceback and body.
SAID: Final = struct.Struct("=BIIQ")
#: The number of the last part that is wanted.
WANTED: Final = struct.Struct("=Q")

ANSWER: Final = 0
PART: Final = 1
WAIT: Final = 2
PROGRESS: Final = 3


class Sender:
    """Of one child. A function may say how far it has got from any thread."""

    def __init__(self, line: socket) -> None:
        self._line = line
        #: What it works on: of anything else nobody wants to hear.
        self.calls: Sequence[Call] = []
        self._lock = Lock()

    def answer(self, reason: bytes, trace: bytes, body: bytes) -> None:
        with self._lock:
            self.calls = []
            self._line.sendall(SAID.pack(ANSWER, len(reason), len(trace), len(body)) + reason + trace)
            self._line.sendall(body)

    def send(self, kind: int, body: bytes = b"", place: int = 0) -> None:
        with self._lock:
            self._line.sendall(SAID.pack(kind, place, 0, len(body)) + body)

    def tell_progress(self, given: Given, body: bytes) -> None:
        with self._lock:
            for place, call in enumerate(self.calls):
                if call.given is given:
                    self._line.sendall(SAID.pack(PROGRESS, place, 0, len(body)) + body)


class PartsOfChild:
    """The parts of one stream, as `OutgoingParts` in the worker's own process."""

    def __init__(self, line: socket, sender: Sender, last: int, deadline_ns: int) -> None:
        self._line = line
        self._sender = sender
        self._added = 0
        self._last = last
        self._deadline_ns = deadline_ns

    def are_wanted(self) -> bool:
        return self._added < self._last and monotonic_ns() < self._deadline_ns

    def wait(self) -> str:
        if monotonic_ns() < self._deadline_ns:
            self._sender.send(WAIT)
            (self._last,) = WANTED.unpack(read(self._line, WANTED.size))
        if monotonic_ns() >= self._deadline_ns:
            return OVER
        return "" if self._last else STOPPED

    def add(self, body: bytes) -> None:
        self._added += 1
        self._sender.send(PART, body)


def credit_of(header: bytes) -> int:
    request = headers.read_task_request(header)
    return request.credit if request is not None else 0


def read_all(line: socket, lengths: Sequence[int]) -> list[bytes]:
    return [read(line, length) for length in lengths]


def read(line: socket, length: int) -> bytes:
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
