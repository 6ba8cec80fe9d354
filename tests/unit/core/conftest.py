"""A broker without a network: a dispatcher, routers that answer on the spot, and people who talk to it.

    ann = broker.client("ann")
    bob = broker.worker("bob").starts()
    ann.asks("echo", b"hello")
    task = bob.gets_task()
    bob.answers(task, b"hello")
    assert ann.hears_outcome() == "OK"

Time stands still unless a test says `broker.later(ms)`. A test that wants to be slower than the routers sets
`broker.routers_answer = False` and lets them speak with `broker.decide()`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.delivery import ServicePolicy
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.routing.book import Book, BrokerAddress
from famulus.core.routing.router import Router
from famulus.wire import headers, inner, reasons

Frames = list[bytes]

HEARTBEAT_MS = 1000
SERVICES = {
    "echo": ServicePolicy(timeout_ms=20_000, backlog_tasks_max=3, backlog_bytes_max=100, backlog_age_ms=15_000),
    "again": ServicePolicy(delivery="at_least_once", timeout_ms=20_000, max_attempts=3),
}


@dataclass(frozen=True, slots=True)
class Heard:
    """One message from the broker."""

    envelope: bytes
    fields: dict[str, Any]
    body: bytes

    @property
    def kind(self) -> str:
        return str(self.fields["request"])

    @property
    def code(self) -> str:
        return reasons.code_of(self.fields.get("reason", ""))


class Peer:
    """Somebody with a connection to the broker. What the broker says waits in `inbox` until the test looks."""

    def __init__(self, broker: Broker, peer: bytes) -> None:
        self.broker = broker
        self.peer = peer
        self.inbox: list[Heard] = []
        #: The broker's ROUTER refuses to send to it from now on.
        self.gone = False

    def hears(self) -> list[Heard]:
        heard, self.inbox = self.inbox, []
        return heard

    def hears_one(self) -> Heard:
        (heard,) = self.hears()
        return heard

    def hears_kinds(self) -> list[str]:
        return [heard.kind for heard in self.hears()]


class Client(Peer):
    def sends(self, *frames: bytes) -> None:
        self.broker.core.on_clients([[self.peer, *frames]])
        self.broker.settle()

    def says(self, request: str, body: bytes = b"", envelope: bytes = b"", **fields: Any) -> None:
        self.sends(envelope, headers.write(request, "REQUEST", **fields), body)

    def asks(self, service: str, body: bytes = b"", envelope: bytes = b"", **fields: Any) -> None:
        self.says("TASK", body, envelope, service=service, **fields)

    def hears_outcome(self) -> str:
        """The outcome of its only task, and the code of the reason if there is one."""
        answer = self.hears_one()
        assert answer.kind == "TASK"
        assert answer.fields["type"] == "RESPONSE"
        return " ".join(filter(None, [str(answer.fields["outcome"]), answer.code]))


class Worker(Peer):
    def __init__(self, broker: Broker, peer: bytes, identity: str, services: tuple[str, ...], slots: int) -> None:
        super().__init__(broker, peer)
        self.who: dict[str, Any] = {"identity": identity, "services": list(services)}
        self.slots = slots

    def sends(self, *frames: bytes) -> None:
        self.broker.core.on_workers([[self.peer, *frames]])
        self.broker.settle()

    def says(self, request: str, envelope: bytes = b"", **fields: Any) -> None:
        self.sends(envelope, headers.write(request, "REQUEST", **fields), b"")

    def connects(self, **fields: Any) -> None:
        self.says("CONNECT", **self.who, slots=self.slots, **fields)

    def starts(self, **fields: Any) -> Worker:
        """The whole start, and nothing but a start may be heard."""
        self.connects(**fields)
        assert self.hears_kinds() == ["CONFIG"]
        self.says("PING")
        assert self.inbox.pop(0).kind == "PONG"
        return self

    def pings(self) -> None:
        self.says("PING")
        self.inbox = [heard for heard in self.inbox if heard.kind != "PONG"]

    def gets_task(self) -> Heard:
        task = self.hears_one()
        assert task.kind == "TASK"
        assert task.fields["type"] == "REQUEST"
        return task

    def answers(self, task: Heard, body: bytes = b"", **fields: Any) -> None:
        header = headers.write(
            "TASK", "RESPONSE", message_id=task.fields["message_id"], service=task.fields["service"], **fields
        )
        self.sends(task.envelope, header, body)

    def is_in_lru(self) -> bool:
        session = self.broker.core.sessions.by_peer.get(self.peer)
        return session is not None and all(session in service.chooser.listed() for service in session.services)


class Broker:
    def __init__(self, services: dict[str, ServicePolicy], bounds: Bounds) -> None:
        self.core = Dispatcher(bounds, first_number=0, declared=[name.encode() for name in services])
        self.now_ns = 1000 * NS_PER_S
        address = BrokerAddress("b1", "family", "tcp://here:7100", "tcp://here:7101")
        self.book = Book(address, HEARTBEAT_MS, services)
        self._ids = 0
        self._router = Router(self.book, self._make_id)
        self.routers_answer = True
        #: What routers were asked and have not answered, as (router, question).
        self.asked: list[tuple[bytes, Frames]] = []
        self.for_delegates: list[tuple[bytes, Frames]] = []
        self.for_steward: list[Frames] = []
        self.people: dict[bytes, Peer] = {}

    @property
    def now_ns(self) -> int:
        return self._now_ns

    @now_ns.setter
    def now_ns(self, now_ns: int) -> None:
        self._now_ns = now_ns
        self.core.at(now_ns)

    # -- people -------------------------------------------------------------------------------------------------

    def client(self, name: str) -> Client:
        client = Client(self, b"c/" + name.encode())
        self.people[client.peer] = client
        return client

    def worker(self, name: str, *services: str, slots: int = 1, identity: str = "") -> Worker:
        """A new connection of a worker; `name` is the connection's and, unless told otherwise, its identity too."""
        worker = Worker(self, b"w/" + name.encode(), identity or name, services or ("echo",), slots)
        self.people[worker.peer] = worker
        return worker

    def router(self, name: bytes = b"router") -> bytes:
        self.core.at(self.now_ns)
        self.core.on_router(name, [[inner.NO_NUMBER, inner.HELLO]])
        self.settle()
        return name

    def configure(self, **services: ServicePolicy) -> None:
        """There is a new config, in which these services are different."""
        self.book = replace(self.book, services=self.book.services | services, epoch=self.book.epoch + 1)
        self._router = Router(self.book, self._make_id)
        self.core.on_announcements([inner.write_announcement(inner.CONFIG, self.book.epoch, b"")])

    # -- the shell ----------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Carry messages until nobody has anything to say."""
        self.core.flush(self)
        while self.routers_answer and self.asked:
            self._decide_all()
            self.core.flush(self)

    def to_clients(self, messages: list[Frames]) -> list[Frames]:
        return self._deliver(messages)

    def to_workers(self, messages: list[Frames]) -> list[Frames]:
        return self._deliver(messages)

    def to_router(self, router: bytes, questions: list[Frames]) -> bool:
        self.asked += [(router, question) for question in questions]
        return True

    def to_delegate(self, identity: bytes, task: Frames) -> bool:
        self.for_delegates.append((identity, task))
        return True

    def to_steward(self, messages: list[Frames]) -> bool:
        self.for_steward += messages
        return True

    def decide(self) -> None:
        """Routers answer what they were asked so far."""
        self._decide_all()
        self.settle()

    def decisions(self) -> list[tuple[bytes, Frames]]:
        """What the routers would say now, without their saying it."""
        return [(router, self._router.decide([question])[0]) for router, question in self.asked]

    def hear(self, router: bytes, *decisions: Frames) -> None:
        self.core.on_router(router, list(decisions))
        self.settle()

    def lose_router(self, router: bytes) -> None:
        """Its supervisor says that it is gone; what it was asked is lost with it."""
        self.asked = [(asked, question) for asked, question in self.asked if asked != router]
        self.core.on_announcements([inner.write_announcement(inner.ROUTER_GONE, 0, router)])
        self.settle()

    def _decide_all(self) -> None:
        decisions, self.asked = self.decisions(), []
        for router, decision in decisions:
            self.core.on_router(router, [decision])

    def _deliver(self, messages: list[Frames]) -> list[Frames]:
        refused = []
        for message in messages:
            somebody = self.people[message[0]]
            if somebody.gone:
                refused.append(message)
            else:
                assert len(message) == 4
                somebody.inbox.append(Heard(message[1], headers.read_fields(message[2]), message[3]))
        return refused

    def _make_id(self) -> str:
        self._ids += 1
        return f"id-{self._ids}"

    # -- time ---------------------------------------------------------------------------------------------------

    def later(self, ms: float, *pinging: Worker) -> None:
        """Time passes, in steps of half a heartbeat; these workers ping meanwhile, all others are silent."""
        until_ns = self.now_ns + int(ms * NS_PER_MS)
        while self.now_ns < until_ns:
            self.now_ns = min(self.now_ns + HEARTBEAT_MS * NS_PER_MS // 2, until_ns)
            for worker in pinging:
                worker.pings()
            # Routers tell that they are alive, unless a test is about their silence.
            if self.routers_answer:
                for router in self.core.questions.routers:
                    alive = inner.write_announcement(inner.ROUTER_ALIVE, 0, router)
                    self.core.on_announcements([alive])
            if self.core.next_due_ns <= self.now_ns:
                self.core.on_tick()
            self.settle()


@pytest.fixture
def broker_with() -> Callable[..., Broker]:
    """A broker of your own: policies of services that differ from the usual ones, and bounds."""

    def make(bounds: Bounds | None = None, **services: ServicePolicy) -> Broker:
        broker = Broker(SERVICES | services, bounds or Bounds())
        broker.router()
        return broker

    return make


@pytest.fixture
def broker(broker_with: Callable[..., Broker]) -> Broker:
    return broker_with()
