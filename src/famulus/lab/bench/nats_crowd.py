"""The workers and the clients of the scale measurement at a nats-server.

They do what those of `crowd` and `load` do at a broker. A service is a subject, and its workers are a queue group on
it. The protocol is implemented by hand: thousands of connections fit into one process, and none waits for another.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Collection
from typing import NoReturn

from famulus.core.clock import NEVER_NS
from famulus.core.session.done import Done
from famulus.core.session.task_kind import TaskKind
from famulus.lab.bench.meter import STAMP_BYTES
from famulus.net.waiting import Waiting

SCHEME = "nats://"
_GREETING = {"verbose": False, "pedantic": False, "lang": "python", "version": "0", "protocol": 1}
_END = b"\r\n"
READ_MAX = 1 << 18
ANSWER_WITHIN_S = 30.0


class NatsLine:
    """A connection to a nats-server."""

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix(SCHEME).rpartition(":")
        self.socket = socket.create_connection((host, int(port)), ANSWER_WITHIN_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self._unsent: list[bytes] = []
        self.socket.sendall(b"CONNECT %b\r\n" % json.dumps(_GREETING).encode())
        self.settle()

    def settle(self) -> None:
        """Wait until the server has processed everything that was sent before."""
        self.send()
        self.socket.sendall(b"PING\r\n")
        seen = b""
        while b"PONG\r\n" not in seen:
            seen += self._read()

    def subscribe(self, subject: str, queue: str = "") -> None:
        self._unsent.append(b"SUB %b %b 1\r\n" % (subject.encode(), queue.encode()))

    def publish(self, subject: bytes, body: bytes, reply: bytes = b"") -> None:
        self._unsent.append(b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(body), body))

    def send(self) -> None:
        """All in one write."""
        if self._unsent:
            self.socket.sendall(b"".join(self._unsent))
            self._unsent.clear()

    def _read(self) -> bytes:
        told = self.socket.recv(READ_MAX)
        if not told:
            raise ConnectionError("the server closed the connection")
        return told

    def messages(self) -> list[tuple[bytes, bytes]]:
        """The messages that have come, each as reply subject and body; to be called when there is something to read."""
        data = self._rest + self._read()
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


class NatsCaller(NatsLine):
    """A client's connection, like those that `load` has to a broker. The body of a task says when it was due."""

    is_up = True
    next_due_ns = NEVER_NS

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.fd = self.socket.fileno()
        #: Of the last task; all ends look alike to whoever measures.
        self._kind = TaskKind("", 0)
        self._inbox = f"inbox-{os.getpid()}-{self.fd}".encode()
        self.subscribe(self._inbox.decode())
        self.settle()

    def submit(self, now_ns: int, due_ns: int, kind: TaskKind, body: bytes) -> None:
        self._kind = kind
        self.publish(kind.service.encode(), due_ns.to_bytes(STAMP_BYTES, "big") + body[STAMP_BYTES:], self._inbox)

    def step(self) -> list[Done]:
        ended: list[Done] = []
        for _, body in self.messages():
            done = Done(int.from_bytes(body[:STAMP_BYTES], "big"), self._kind, "", b"", b"", b"", 0, 0)
            done.outcome = "OK"
            ended.append(done)
        self.send()
        return ended


def work(address: str, services: Collection[str]) -> NoReturn:
    """A worker for each of these services."""
    waiting = Waiting()
    for service in services:
        line = NatsLine(address)
        line.subscribe(service, queue="workers")
        line.settle()
        waiting.watch(line.socket, line)
    signal.signal(signal.SIGTERM, lambda *_: _end(len(services)))
    print(f"{len(services)} workers are ready", flush=True)
    while True:
        for line in waiting.wait(NEVER_NS):
            for inbox, body in line.messages():
                line.publish(inbox, body)
            line.send()


def _end(connected: int) -> None:
    # A lost connection would have ended this process long before.
    print(json.dumps({"connected": connected, "relinks": 0}), flush=True)
    os._exit(0)
