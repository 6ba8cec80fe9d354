"""What the tests of workers share: calls to run, a patient look at the answers, and a broker played by hand."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from time import monotonic_ns
from typing import Any

import pytest
import zmq

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.session.header_cache import Given, ParsedHeader
from famulus.core.session.worker import SessionState, WorkerSession
from famulus.net.waiting import Bell, Waiting
from famulus.wire import headers
from famulus.worker.calls import Answer, Call
from famulus.worker.runner import Runner
from famulus.worker.service import Function, Service
from famulus.worker.worker import Worker

MakeCall = Callable[..., Call]
Collect = Callable[[Runner, int], list[Answer]]

_serial = itertools.count()


@pytest.fixture
def bell() -> Iterator[Bell]:
    bell = Bell()
    yield bell
    bell.close()


@pytest.fixture
def make_call() -> MakeCall:
    """A call of a function, as the I/O thread would make it from a message."""

    def make(function: Function, body: bytes = b"", left_ms: int | None = None, name: str = "test") -> Call:
        number = next(_serial)
        header = headers.write(
            "TASK", "REQUEST", service=name, message_id=f"id-{number}", traceparent="00-ab", attempt=2
        )
        deadline_ns = NEVER_NS if left_ms is None else monotonic_ns() + left_ms * NS_PER_MS
        return Call(
            Given(b"%d" % number, ParsedHeader(name, None), b'"id-%d"' % number, header, body),
            Service(name, function),
            deadline_ns,
        )

    return make


@pytest.fixture
def collect(bell: Bell) -> Collect:
    """Do as the I/O thread does until so many answers are there; in the order in which they came."""

    def collect(runner: Runner, count: int) -> list[Answer]:
        waiting = Waiting()
        waiting.watch(bell.fd)
        answers: list[Answer] = []
        deadline = time.monotonic() + 20
        while len(answers) < count:
            assert time.monotonic() < deadline, f"{len(answers)} of {count} answers came"
            waiting.wait(min(runner.next_due_ns, monotonic_ns() + 100 * NS_PER_MS))
            bell.ring()
            bell.answer()
            answers += runner.take(monotonic_ns())
        return answers

    return collect


class Ready:
    """The session of a worker that may be given tasks, and what it would send."""

    def __init__(self) -> None:
        self.session = WorkerSession("bob", ["test"], 8, None, lambda: 1.0)
        self.session.on_link(NS_PER_S)
        self._hear(b"", headers.write("CONFIG", "RESPONSE", identity="bob", heartbeat_ms=1000, version=1, digest="d"))
        self._hear(b"", headers.write("PONG", "RESPONSE", version=1, digest="d"))
        assert self.session.state is SessionState.READY
        self.session.outbox.clear()

    def _hear(self, envelope: bytes, header: bytes) -> list[Given]:
        return self.session.on_messages(NS_PER_S, [[envelope, header, b""]])

    def given(self, credit: int = 0) -> Given:
        number = next(_serial)
        more = {"credit": credit} if credit else {}
        header = headers.write("TASK", "REQUEST", service="test", message_id=f"id-{number}", attempt=1, **more)
        (given,) = self._hear(b"%d" % number, header)
        return given

    def take(self) -> list[bytes]:
        """The bodies of all that it would send."""
        bodies = [body for _, _, body in self.session.outbox]
        self.session.outbox.clear()
        return bodies


@pytest.fixture
def ready() -> Ready:
    return Ready()


class Broker:
    """A ROUTER in the hands of a test."""

    def __init__(self) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._held = socket.socket()
        self._bind("tcp://127.0.0.1:*")

    def _bind(self, address: str) -> None:
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.sndhwm = 0
        self._socket.bind(address)
        endpoint = self._socket.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(endpoint, bytes)
        self.address = endpoint.rstrip(b"\0").decode()
        self._peer = b""

    def hear(self, request: str) -> tuple[bytes, dict[str, Any], bytes]:
        """The next message of this kind, from whoever; what else comes is passed over."""
        deadline = time.monotonic() + 20
        while True:
            assert self._socket.poll(max(0, int((deadline - time.monotonic()) * 1000))), f"no {request} came"
            self._peer, envelope, header, body = self._socket.recv_multipart()
            fields = json.loads(header)
            if fields["request"] == request:
                return envelope, fields, body

    def heard(self, request: str) -> bool:
        """Whether such a message is there already, or comes within a moment; what else is there is passed over."""
        while self._socket.poll(50):
            self._peer, _, header, _ = self._socket.recv_multipart()
            if json.loads(header)["request"] == request:
                return True
        return False

    def heard_anything(self) -> bool:
        return bool(self._socket.poll(0))

    def tell(self, request: str, kind: str = "RESPONSE", envelope: bytes = b"", body: bytes = b"", **more: Any) -> None:
        header = json.dumps({"request": request, "type": kind, **more}).encode()
        self._socket.send_multipart([self._peer, envelope, header, body])

    def welcome(self, heartbeat_ms: int = 1000, config: bytes = b"", digest: str = "d") -> str:
        """All that a worker needs to be ready; the identity that it says it has."""
        _, fields, _ = self.hear("CONNECT")
        identity = str(fields["identity"])
        self.tell("CONFIG", body=config, identity=identity, heartbeat_ms=heartbeat_ms, version=1, digest=digest)
        self.hear("PING")
        self.tell("PONG", version=1, digest=digest)
        return identity

    def refuse(self, reason: str, *others: str) -> None:
        """Send a worker away who wants to connect, and tell it of others when it asks."""
        self.hear("CONNECT")
        self.tell("ERROR", reason=reason)
        self.hear("NEEDBROKER")
        brokers = [{"identity": f"other-{number}", "backend": address} for number, address in enumerate(others)]
        self.tell("NEEDBROKER", body=json.dumps({"brokers": brokers}).encode())

    def give(self, ticket: bytes, service: str, body: bytes = b"", timeout_ms: int = 20_000) -> None:
        fields = {"service": service, "message_id": f"id-{ticket.decode()}", "attempt": 1, "timeout_ms": timeout_ms}
        self.tell("TASK", "REQUEST", ticket, body, **fields)

    def let_go(self) -> None:
        self.hear("DISCONNECT")
        self.tell("DISCONNECT")

    def restart(self) -> None:
        """Cut all connections, and be there again."""
        self.vanish()
        self.come_back()

    def vanish(self) -> None:
        """Nobody is there any more, and the connections are cut; nobody else can have the port."""
        self._socket.close(0)
        # Bound, and nobody listens: who connects is refused.
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        deadline = time.monotonic() + 20
        while True:
            try:
                return self._held.bind(("127.0.0.1", int(self.address.rpartition(":")[2])))
            except OSError:
                # libzmq gives the port back a moment later; until then, who connects is let in and cut.
                assert time.monotonic() < deadline
                time.sleep(0.005)

    def come_back(self) -> None:
        self._held.close()
        self._held = socket.socket()
        self._bind(self.address)

    def close(self) -> None:
        self._held.close()
        self._context.destroy(linger=0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.close()


@pytest.fixture
def second() -> Iterator[Broker]:
    """Another broker."""
    broker = Broker()
    yield broker
    broker.close()


@pytest.fixture
def dead() -> Iterator[Broker]:
    """A broker that has an address and is not there."""
    broker = Broker()
    broker.vanish()
    yield broker
    broker.close()


def family_of(*brokers: Broker, preferred: int = 0) -> bytes:
    """The config of a worker whose family are these brokers."""
    members = [{"identity": f"b{number}", "backend": broker.address} for number, broker in enumerate(brokers)]
    family = {"name": "ours", "brokers": members}
    return json.dumps({"family_config": family, "preferred_broker": f"b{preferred}"}).encode()


class Running:
    """A worker that runs in a thread."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.result: bool | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self.worker.run()
        except BaseException as error:
            self.error = error

    def wait(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive(), "the worker does not end"


@pytest.fixture
def run() -> Iterator[Callable[[Worker], Running]]:
    started: list[Running] = []

    def run(worker: Worker) -> Running:
        started.append(Running(worker))
        return started[-1]

    yield run
    for running in started:
        running.worker.stop(now=True)
        running.wait()


Run = Callable[[Worker], Running]
