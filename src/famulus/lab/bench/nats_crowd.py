"""The workers and the clients of the scale measurement at a nats-server.

python -m famulus.lab.bench.nats_crowd workers ADDRESS FIRST COUNT SERVICES
python -m famulus.lab.bench.nats_crowd callers ADDRESS CALL

They do what `crowd` and `callers` do at a broker. A service is a subject, and its workers are a queue group of it. The
protocol is spoken by hand: thousands of connections fit into one process, and none waits for another.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from collections.abc import Iterable
from itertools import cycle
from time import monotonic_ns

import msgspec

from famulus.core.clock import NS_PER_S
from famulus.lab.bench import descriptors
from famulus.lab.bench.callers import CallStep, ClosedLoop
from famulus.lab.bench.crowd import service_name
from famulus.lab.bench.meter import STAMP_BYTES

_GREETING = {"verbose": False, "pedantic": False, "lang": "python", "version": "0", "protocol": 1}
_END = b"\r\n"
READ_MAX = 1 << 18
ANSWER_WITHIN_S = 30.0


class NatsLine:
    """A connection to a nats-server."""

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


class Lines:
    def __init__(self, lines: Iterable[NatsLine]) -> None:
        self._poll = select.epoll()
        self._by_fd: dict[int, NatsLine] = {}
        for line in lines:
            self._by_fd[line.socket.fileno()] = line
            self._poll.register(line.socket, select.EPOLLIN)

    def ready(self, within_ns: int) -> list[NatsLine]:
        return [self._by_fd[fd] for fd, _ in self._poll.poll(within_ns / NS_PER_S)]


class Callers(ClosedLoop):
    def __init__(self, address: str, call: CallStep) -> None:
        super().__init__(call)
        step = call.step
        self._callers = [_caller(address, number) for number in range(step.connections)]
        self._lines = Lines(line for line, _ in self._callers)
        self._turn = cycle(self._callers[: step.asking])
        self._services = cycle([service_name(number).encode() for number in range(step.asked)])
        self._rest = bytes(step.size - STAMP_BYTES)

    def _step(self, until_ns: int) -> None:
        now_ns = monotonic_ns()
        eager: set[NatsLine] = set()
        body = now_ns.to_bytes(STAMP_BYTES, "big") + self._rest
        for _ in range(self._room):
            line, inbox = next(self._turn)
            line.publish(next(self._services), body, inbox)
            eager.add(line)
            self._open += 1
        for line in eager:
            line.flush()
        for line in self._lines.ready(max(0, until_ns - now_ns)):
            self._take(line)

    def _take(self, line: NatsLine) -> None:
        messages, now_ns = line.messages(), monotonic_ns()
        for _, body in messages:
            self._ended("OK", int.from_bytes(body[:STAMP_BYTES], "big"), now_ns)
        line.flush()


def _caller(address: str, number: int) -> tuple[NatsLine, bytes]:
    line, inbox = NatsLine(address), f"inbox-{os.getpid()}-{number}"
    line.subscribe(inbox)
    line.settle()
    return line, inbox.encode()


def _worker(address: str, service: str) -> NatsLine:
    line = NatsLine(address)
    line.subscribe(service, queue="workers")
    line.settle()
    return line


def work(address: str, first: str, count: str, services: str) -> None:
    numbers = range(int(first), int(first) + int(count))
    lines = Lines([_worker(address, service_name(number % int(services))) for number in numbers])
    signal.signal(signal.SIGTERM, lambda *_: _end(len(numbers)))
    print(f"{len(numbers)} workers are ready", flush=True)
    while True:
        for line in lines.ready(NS_PER_S):
            for inbox, body in line.messages():
                line.publish(inbox, body)
            line.flush()


def _end(connected: int) -> None:
    # A line that is lost ends this process long before.
    print(json.dumps({"connected": connected, "relinks": 0}), flush=True)
    os._exit(0)


def call(address: str, text: str) -> None:
    callers = Callers(address, msgspec.json.decode(text, type=CallStep))
    print(msgspec.json.encode(callers.run()).decode())


if __name__ == "__main__":
    descriptors.raise_limit()
    if sys.argv[1] == "workers":
        work(*sys.argv[2:])
    else:
        call(*sys.argv[2:])
