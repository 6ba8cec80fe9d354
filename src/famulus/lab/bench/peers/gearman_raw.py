"""gearmand by hand, for speed: bare sockets, no table of jobs; many packets in one write, and the worker asks ahead.

With the Python libraries one measures the library and not the server. Of Gearman's binary protocol, only the kinds of
packets that an echo needs are implemented: a packet is a magic word, its kind and the length of its body; a body is
parts with zero bytes between them.
"""

from __future__ import annotations

import socket
from functools import partial
from struct import Struct

from famulus.errors import BenchFailed
from famulus.lab.bench.meter import Meter, Order
from famulus.lab.bench.peers import gearman
from famulus.lab.bench.peers.peer import TIMEOUT_S, Needs, Peer

REQUEST = b"\0REQ"
HEADER = Struct(">4sII")

CAN_DO, PRE_SLEEP, NOOP, SUBMIT_JOB, JOB_CREATED = 1, 4, 6, 7, 8
GRAB_JOB, NO_JOB, JOB_ASSIGN, WORK_COMPLETE = 9, 10, 11, 13

READ_BYTES = 1 << 18

Packet = tuple[int, bytes]


def packet(kind: int, *parts: bytes) -> bytes:
    body = b"\0".join(parts)
    return HEADER.pack(REQUEST, kind, len(body)) + body


def cut(stream: bytearray) -> list[Packet]:
    """Takes the complete packets off its beginning, wherever it was split."""
    found, at = [], 0
    while len(stream) - at >= HEADER.size:
        _, kind, length = HEADER.unpack_from(stream, at)
        end = at + HEADER.size + length
        if len(stream) < end:
            break
        found.append((kind, bytes(stream[at + HEADER.size : end])))
        at = end
    del stream[:at]
    return found


class Wire:
    """A connection to a gearmand of this machine."""

    def __init__(self, port: str, timeout_s: float | None = TIMEOUT_S) -> None:
        self._socket = socket.create_connection(("127.0.0.1", int(port)))
        # Otherwise small packets wait for each other: 40 ms each time.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(timeout_s)
        self._unread = bytearray()

    def send(self, packets: list[bytes]) -> None:
        # Sending nothing would still be a system call.
        if packets:
            self._socket.sendall(b"".join(packets))

    def receive(self) -> list[Packet]:
        """Whatever has arrived, which may be half a packet and so nothing yet."""
        data = self._socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("gearmand closed the connection")
        self._unread += data
        return cut(self._unread)


# -- an echo over this ----------------------------------------------------------------------------------------------

#: Jobs that the worker asks for at once. With one at a time each costs a round trip; with many more than there are, the
#: server is busy saying that there is none.
AHEAD = 16
GRAB, SLEEP = packet(GRAB_JOB), packet(PRE_SLEEP)


class Echo:
    """How a worker answers what it receives."""

    def __init__(self) -> None:
        self._asked = 0

    def greeting(self) -> list[bytes]:
        return [packet(CAN_DO, gearman.SERVICE), SLEEP]

    def answers(self, heard: list[Packet]) -> list[bytes]:
        said: list[bytes] = []
        for kind, body in heard:
            if kind == JOB_ASSIGN:
                handle, _, data = body.split(b"\0", 2)
                said += [packet(WORK_COMPLETE, handle, data), GRAB]
            elif kind == NOOP:
                said += [GRAB] * (AHEAD - self._asked)
                self._asked = AHEAD
            elif kind == NO_JOB:
                self._asked -= 1
                # Sleep only when no request is pending: the server does not wake a worker that is still asking.
                said += [] if self._asked else [SLEEP]
            else:
                raise BenchFailed(f"gearmand said {kind} to a worker: {body!r}")
        return said


def worker(port: str) -> None:
    wire, echo = Wire(port, timeout_s=None), Echo()
    wire.send(echo.greeting())
    print("worker is ready", flush=True)
    while True:
        wire.send(echo.answers(wire.receive()))


def client(order: Order) -> Meter:
    wire = Wire(order.address)
    meter, stream = order.begin()
    opened, free = 0, order.window
    while True:
        # Without a key of their own: the server would merge those with the same one into one job.
        asked = [packet(SUBMIT_JOB, gearman.SERVICE, b"", body) for _, body in zip(range(free), stream, strict=False)]
        opened += len(asked)
        if not opened:
            return meter
        wire.send(asked)
        free = 0
        for kind, body in wire.receive():
            if kind == WORK_COMPLETE:
                meter.note(body.partition(b"\0")[2])
                free += 1
            elif kind != JOB_CREATED:
                raise BenchFailed(f"gearmand said {kind} to a client: {body!r}")
        opened -= free


PEER = Peer("gearman_raw", partial(gearman.start, "gearman_raw"), client, {"worker": worker}, Needs(gearman.PROGRAMS))
