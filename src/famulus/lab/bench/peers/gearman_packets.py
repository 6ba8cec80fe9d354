"""Packets of Gearman's binary protocol, as many kinds as an echo needs. Knows no tasks.

A packet is a magic word, its kind and the length of its body; a body is parts with zero bytes between them.
"""

from __future__ import annotations

import socket
from struct import Struct

REQUEST = b"\0REQ"
HEADER = Struct(">4sII")

CAN_DO, PRE_SLEEP, NOOP, SUBMIT_JOB, JOB_CREATED = 1, 4, 6, 7, 8
GRAB_JOB, NO_JOB, JOB_ASSIGN, WORK_COMPLETE = 9, 10, 11, 13

READ_BYTES = 1 << 18
TIMEOUT_S = 30.0

Packet = tuple[int, bytes]


def packet(kind: int, *parts: bytes) -> bytes:
    body = b"\0".join(parts)
    return HEADER.pack(REQUEST, kind, len(body)) + body


class Cutter:
    """Cuts a stream of bytes into packets, wherever it comes apart."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def cut(self, data: bytes) -> list[Packet]:
        rest = self._rest
        rest += data
        found, at = [], 0
        while len(rest) - at >= HEADER.size:
            _, kind, length = HEADER.unpack_from(rest, at)
            end = at + HEADER.size + length
            if len(rest) < end:
                break
            found.append((kind, bytes(rest[at + HEADER.size : end])))
            at = end
        del rest[:at]
        return found


class Wire:
    """A connection to a gearmand of this machine."""

    def __init__(self, port: str, timeout_s: float | None = TIMEOUT_S) -> None:
        self._socket = socket.create_connection(("127.0.0.1", int(port)))
        # Else small packets wait for each other: 40 ms each time.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(timeout_s)
        self._cutter = Cutter()

    def send(self, packets: list[bytes]) -> None:
        # Even of nothing the kernel would have to be told.
        if packets:
            self._socket.sendall(b"".join(packets))

    def receive(self) -> list[Packet]:
        """Whatever is there, which may be half a packet and so nothing yet."""
        data = self._socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("gearmand closed the connection")
        return self._cutter.cut(data)
