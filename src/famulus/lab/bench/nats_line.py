"""A connection to a nats-server, spoken by hand: thousands of them fit into one process, and none waits for another."""

from __future__ import annotations

import json
import socket

_GREETING = {"verbose": False, "pedantic": False, "lang": "python", "version": "0", "protocol": 1}
_END = b"\r\n"
READ_MAX = 1 << 18
ANSWER_WITHIN_S = 30.0


class NatsLine:
    __slots__ = ("_rest", "_unsent", "socket")

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), ANSWER_WITHIN_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self._unsent: list[bytes] = []
        self.socket.sendall(b"CONNECT %b\r\n" % json.dumps(_GREETING).encode())
        self.settle()

    def settle(self) -> None:
        """Until the server has taken in all that was sent before."""
        self.flush()
        self.socket.sendall(b"PING\r\n")
        seen = b""
        while b"PONG\r\n" not in seen:
            told = self.socket.recv(READ_MAX)
            if not told:
                raise ConnectionError("the server closed the connection")
            seen += told

    def subscribe(self, subject: str, queue: str = "") -> None:
        self._unsent.append(b"SUB %b %b 1\r\n" % (subject.encode(), queue.encode()))

    def publish(self, subject: bytes, body: bytes, reply: bytes = b"") -> None:
        self._unsent.append(b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(body), body))

    def flush(self) -> None:
        """All in one write."""
        if self._unsent:
            self.socket.sendall(b"".join(self._unsent))
            self._unsent.clear()

    def messages(self) -> list[tuple[bytes, bytes]]:
        """What has come, to be called when there is something: where to answer, and the body."""
        told = self.socket.recv(READ_MAX)
        if not told:
            raise ConnectionError("the server closed the connection")
        data = self._rest + told
        found: list[tuple[bytes, bytes]] = []
        start = 0
        while (end := data.find(_END, start)) >= 0:
            words = data[start:end].split()
            after = end + len(_END)
            if words[:1] == [b"MSG"]:
                length = int(words[-1])
                if len(data) < after + length + len(_END):
                    break
                found.append((words[3] if len(words) == 5 else b"", data[after : after + length]))
                after += length + len(_END)
            elif words[:1] == [b"PING"]:
                self._unsent.append(b"PONG\r\n")
            elif words[:1] == [b"-ERR"]:
                raise ConnectionError(data[start:end].decode(errors="replace"))
            start = after
        self._rest = data[start:]
        return found
