"""Clients against brokers that a test plays by hand: brokers that are not there, die, refuse, and tell of others."""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple

import pytest
import zmq

from famulus import AsyncClient, Client, Retry
from famulus.client.connection import FORMER_MAX, Connection
from famulus.core.session.client import Done
from famulus.core.session.task_kind import TaskKind
from famulus.errors import OutcomeError, Rejected, Unknown
from famulus.wire import parcels

DISABLED: dict[str, Any] = {"outcome": "REJECTED", "reason": "disabled: this broker is shutting down"}
STOPPED: dict[str, Any] = {"outcome": "UNKNOWN", "reason": "broker_lost: this broker stopped before the answer"}
#: A move takes about 0.3 s; the rest is for a machine that has other things to do.
SOON_S = 15.0


class Asked(NamedTuple):
    peer: bytes
    envelope: bytes
    fields: dict[str, Any]
    body: bytes


class Broker:
    """A ROUTER in the hands of a test."""

    def __init__(self, ports: int = 1) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self.addresses = [self._bind("tcp://127.0.0.1:*") for _ in range(ports)]
        self.address = self.addresses[0]
        self._parcel: list[Asked] = []

    def _bind(self, address: str) -> str:
        self._socket.bind(address)
        endpoint = self._socket.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(endpoint, bytes)
        return endpoint.rstrip(b"\0").decode()

    def hear(self, request: str = "TASK") -> Asked:
        """The next message of this kind, from whoever; what else comes is passed over."""
        while (asked := self.hear_any()).fields["request"] != request:
            pass
        return asked

    def hear_any(self) -> Asked:
        if not self._parcel:
            assert self._socket.poll(int(SOON_S * 1000)), "nothing came"
            peer, *frames = self._socket.recv_multipart()
            messages = parcels.read(frames[0]) if len(frames) == 1 else [frames]
            self._parcel = [Asked(peer, each[0], json.loads(each[1]), each[2]) for each in messages]
        return self._parcel.pop(0)

    def answer(self, asked: Asked, body: bytes = b"", **more: Any) -> None:
        fields = {"message_id": "made-here", **more, "request": asked.fields["request"], "type": "RESPONSE"}
        self._socket.send_multipart([asked.peer, asked.envelope, json.dumps(fields).encode(), body])

    def serve(self, prefix: bytes = b"") -> Asked:
        """Answer the next task with its body."""
        asked = self.hear()
        self.answer(asked, prefix + asked.body, outcome="OK")
        return asked

    def name(self, *frontends: str) -> None:
        """Answer the next NEEDBROKER."""
        self.answer(
            self.hear("NEEDBROKER"), json.dumps({"brokers": [{"frontend": each} for each in frontends]}).encode()
        )

    def restart(self) -> None:
        """Cut all connections, and be there again."""
        self._socket.close(0)
        deadline = time.monotonic() + SOON_S
        while True:
            self._socket = self._context.socket(zmq.ROUTER)
            self._socket.linger = 0
            try:
                self._bind(self.address)
            except zmq.ZMQError:
                # libzmq gives the port back a moment later.
                self._socket.close(0)
                assert time.monotonic() < deadline
                time.sleep(0.005)
            else:
                return

    def die(self) -> None:
        self._context.destroy(linger=0)


class Threads:
    """A `Client`, as the tests use it."""

    def __init__(self, broker: object, **options: Any) -> None:
        self.client: Client | AsyncClient = Client(broker, **options)  # type: ignore[arg-type]

    def submit(self, *arguments: Any, **options: Any) -> Future[bytes]:
        assert isinstance(self.client, Client)
        return self.client.submit(*arguments, **options)

    def map(self, *arguments: Any, **options: Any) -> Future[list[Any]]:
        client, future = self.client, Future[list[Any]]()
        assert isinstance(client, Client)
        answers = client.map(*arguments, **options)
        threading.Thread(target=lambda: future.set_result(list(answers)), daemon=True).start()
        return future

    def watched(self) -> int:
        return len(self.connection.lines)

    def close(self) -> None:
        assert isinstance(self.client, Client)
        self.client.close()

    @property
    def connection(self) -> Connection:
        client = self.client
        return client._connection if isinstance(client, Client) else client._asking.connection


class Loop(Threads):
    """An `AsyncClient` in a loop in a thread of its own."""

    def __init__(self, broker: object, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.client = AsyncClient(broker, **options)  # type: ignore[arg-type]
        self._run(self.client.__aenter__())
        self._others = self._readers() - 1

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SOON_S)

    def _readers(self) -> int:
        return len(self._loop._selector.get_map())  # type: ignore[attr-defined]

    def submit(self, *arguments: Any, **options: Any) -> Future[bytes]:
        async def submit() -> asyncio.Future[bytes]:
            assert isinstance(self.client, AsyncClient)
            return self.client.submit(*arguments, **options)

        async def outcome(submitted: asyncio.Future[bytes]) -> bytes:
            return await submitted

        # In two steps, so that what is raised at once is raised here.
        return asyncio.run_coroutine_threadsafe(outcome(self._run(submit())), self._loop)

    def map(self, *arguments: Any, **options: Any) -> Future[list[Any]]:
        async def collect() -> list[Any]:
            assert isinstance(self.client, AsyncClient)
            return [answer async for answer in self.client.map(*arguments, **options)]

        return asyncio.run_coroutine_threadsafe(collect(), self._loop)

    def watched(self) -> int:
        return self._readers() - self._others

    def close(self) -> None:
        if self._loop.is_closed():
            return
        assert isinstance(self.client, AsyncClient)
        try:
            self._run(self.client.close())
            assert self.watched() == 0
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(SOON_S)
            self._loop.close()


Clients = Callable[..., Threads]


@pytest.fixture(params=[Threads, Loop])
def clients(request: pytest.FixtureRequest) -> Iterator[Clients]:
    made: list[Threads] = []

    def make(broker: object, **options: Any) -> Threads:
        made.append(request.param(broker, **{"timeout": 20.0, **options}))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def brokers() -> Iterator[Callable[..., Broker]]:
    made: list[Broker] = []

    def make(ports: int = 1) -> Broker:
        made.append(Broker(ports))
        return made[-1]

    yield make
    for each in made:
        each.die()


Brokers = Callable[..., Broker]
Nowhere = Callable[[], str]


@pytest.fixture
def nowhere() -> Iterator[Nowhere]:
    """Addresses at which nobody is: they are taken, and nobody listens there."""
    taken: list[socket.socket] = []

    def take() -> str:
        taken.append(socket.socket())
        # A broker that comes there later may listen all the same.
        taken[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken[-1].bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{taken[-1].getsockname()[1]}"

    yield take
    for each in taken:
        each.close()


def wait_until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {SOON_S} s"
        time.sleep(0.005)


def error_of(future: Future[bytes]) -> OutcomeError:
    error = future.exception(SOON_S)
    assert isinstance(error, OutcomeError), error
    return error


# -- brokers that are not there -----------------------------------------------------------------------------------


def test_the_first_address_is_dead(clients: Clients, brokers: Brokers, nowhere: Nowhere) -> None:
    dead, broker = nowhere(), brokers()
    client = clients([dead, broker.address])
    began = time.monotonic()
    future = client.submit("echo", b"hello")
    broker.serve()
    assert future.result(SOON_S) == b"hello"
    assert time.monotonic() - began < SOON_S
    assert client.client.address == broker.address
    assert client.client.addresses == [dead, broker.address]
    assert client.client.was_connected


def test_the_first_address_takes_connections_and_says_nothing(clients: Clients, brokers: Brokers) -> None:
    broker = brokers()
    with socket.create_server(("127.0.0.1", 0)) as mute:
        client = clients(f"127.0.0.1:{mute.getsockname()[1]},{broker.address}")
        future = client.submit("echo", b"hello")
        broker.serve()
        assert future.result(SOON_S) == b"hello"


def test_none_is_there_and_the_addresses_are_named(clients: Clients, nowhere: Nowhere) -> None:
    first, second = nowhere(), nowhere()
    client = clients([first, second], timeout=0.8)
    error = error_of(client.submit("echo", b"hello"))
    assert isinstance(error, Rejected)
    assert error.code == "expired"
    assert first in error.reason
    assert second in error.reason
    assert not client.client.was_connected


def test_it_goes_round_until_one_is_there(clients: Clients, nowhere: Nowhere) -> None:
    addresses = [nowhere(), nowhere()]
    client = clients(addresses)
    future = client.submit("echo", b"hello")
    wait_until(lambda: client.connection.brokers._rounds, "a whole round")
    broker = Broker()
    try:
        broker.address = addresses[1]
        broker.restart()
        broker.serve()
        assert future.result(SOON_S) == b"hello"
    finally:
        broker.die()


# -- brokers that die ---------------------------------------------------------------------------------------------


def test_what_was_not_sent_goes_to_the_next_broker_with_what_is_left_of_its_time(
    clients: Clients, brokers: Brokers
) -> None:
    first, second = brokers(), brokers()
    client = clients([first.address, second.address])
    first.hear("NEEDBROKER")
    first.die()
    wait_until(lambda: not client.connection.line.up, "it is lost")
    future = client.submit("echo", b"hello", timeout=2.0)
    asked = second.serve()
    assert future.result(SOON_S) == b"hello"
    assert 0 < asked.fields["timeout_ms"] <= 2000
    assert "message_id" not in asked.fields


def test_what_was_sent_is_unknown_and_goes_nowhere(clients: Clients, brokers: Brokers) -> None:
    first, second = brokers(), brokers()
    client = clients([first.address, second.address])
    future = client.submit("echo", b"sent")
    first.hear()
    first.die()
    error = error_of(future)
    assert isinstance(error, Unknown)
    assert error.code == "broker_lost"
    after = client.submit("echo", b"after")
    assert second.serve().body == b"after"
    assert after.result(SOON_S) == b"after"


def test_at_least_once_goes_to_the_next_broker_under_the_same_id(clients: Clients, brokers: Brokers) -> None:
    first, second = brokers(), brokers()
    client = clients([first.address, second.address])
    futures = [
        client.submit("echo", b"nameless", at_least_once=True, timeout=2.0),
        client.submit("echo", b"named", at_least_once=True, message_id="order-7"),
    ]
    names = {asked.body: asked.fields["message_id"] for asked in (first.hear(), first.hear())}
    uuid.UUID(names[b"nameless"])
    assert names[b"named"] == "order-7"
    first.die()
    for _ in range(2):
        asked = second.serve(b"2: ")
        assert asked.fields["message_id"] == names[asked.body]
        assert 0 < asked.fields["timeout_ms"] <= 20_000
    assert [future.result(SOON_S) for future in futures] == [b"2: nameless", b"2: named"]


def test_at_least_once_waits_for_its_only_broker_to_come_back(clients: Clients, brokers: Brokers) -> None:
    broker = brokers()
    client = clients(broker.address)
    future = client.submit("echo", b"mine", at_least_once=True)
    before = broker.hear()
    broker.restart()
    after = broker.serve()
    assert future.result(SOON_S) == b"mine"
    assert before.fields["message_id"] == after.fields["message_id"]
    assert before.envelope != after.envelope


def test_what_the_second_broker_rejects_may_have_run_at_the_first(clients: Clients, brokers: Brokers) -> None:
    first, second = brokers(), brokers()
    client = clients([first.address, second.address])
    future = client.submit("echo", b"mine", at_least_once=True, retry=None)
    name = first.hear().fields["message_id"]
    first.die()
    second.answer(second.hear(), outcome="REJECTED", reason="no_service: nobody offers this service", message_id=name)
    error = error_of(future)
    assert isinstance(error, Unknown)
    assert (error.code, error.message_id) == ("broker_lost", name)


def test_a_map_survives_as_well(clients: Clients, brokers: Brokers) -> None:
    first, second = brokers(), brokers()
    client = clients([first.address, second.address])
    answers = client.map("echo", [b"0", b"1", b"2", b"3"], window=2, at_least_once=True)
    first.serve()
    first.hear()
    first.hear()
    first.die()
    for _ in range(3):
        second.serve()
    assert answers.result(SOON_S) == [b"0", b"1", b"2", b"3"]


# -- brokers that refuse ------------------------------------------------------------------------------------------


def test_a_refusal_moves_the_task_and_the_client(clients: Clients, brokers: Brokers) -> None:
    first, second = brokers(), brokers()
    client = clients([first.address, second.address])
    first.hear("NEEDBROKER")
    refused = client.submit("echo", b"refused")
    first.answer(first.hear(), **DISABLED)
    assert second.serve().body == b"refused"
    assert refused.result(SOON_S) == b"refused"
    after = client.submit("echo", b"after")
    assert second.serve().body == b"after"
    assert after.result(SOON_S) == b"after"
    assert client.client.address == second.address
    assert client.watched() == 1


def test_a_broker_that_refuses_still_owes_what_it_took(clients: Clients, brokers: Brokers) -> None:
    """As it is when a broker drains: what runs there may finish, while new tasks go elsewhere."""
    first, second = brokers(), brokers()
    client = clients([first.address, second.address])
    first.hear("NEEDBROKER")
    running, lost = client.submit("echo", b"running"), client.submit("echo", b"lost")
    first_asked = {asked.body: asked for asked in (first.hear(), first.hear())}
    refused = [client.submit("echo", b"refused") for _ in range(3)]
    for asked in [first.hear() for _ in refused]:
        first.answer(asked, **DISABLED)
        second.serve()
    assert [future.result(SOON_S) for future in refused] == [b"refused"] * 3
    assert not running.done()
    assert client.watched() == 2
    first.answer(first_asked[b"running"], b"finished", outcome="OK")
    assert running.result(SOON_S) == b"finished"
    assert client.watched() == 2
    first.die()
    assert error_of(lost).code == "broker_lost"
    wait_until(lambda: client.watched() == 1, "the former line is closed")
    last = client.submit("echo", b"last")
    second.serve()
    assert last.result(SOON_S) == b"last", "the present broker was never in doubt"


def test_the_loss_of_the_present_broker_is_not_that_of_the_former_one(clients: Clients, brokers: Brokers) -> None:
    first, second = brokers(), brokers()
    client = clients([first.address, second.address])
    first.hear("NEEDBROKER")
    running, refused = client.submit("echo", b"running"), client.submit("echo", b"refused")
    asked = first.hear()
    first.answer(first.hear(), **DISABLED)
    assert second.hear().body == b"refused"
    second.die()
    assert error_of(refused).code == "broker_lost"
    first.answer(asked, b"finished", outcome="OK")
    assert running.result(SOON_S) == b"finished"


def test_what_came_before_the_loss_still_counts(brokers: Brokers) -> None:
    """Here its owner looks only when both have happened."""
    broker = brokers()
    connection = Connection(broker.address)

    def is_sent() -> bool:
        connection.step()
        return not connection.session.unsent

    def has_news() -> bool:
        ended.extend(connection.step())
        return not connection.line.up

    ended: list[Done] = []
    try:
        connection.session.submit(time.monotonic_ns(), "mine", TaskKind("echo", 20_000), b"x")
        wait_until(is_sent, "it is sent")
        broker.serve()
        broker.die()
        wait_until(has_news, "it is lost")
        assert [(done.token, done.outcome) for done in ended] == [("mine", "OK")]
    finally:
        connection.close()


def test_the_only_broker_refuses(clients: Clients, brokers: Brokers) -> None:
    broker = brokers()
    client = clients(broker.address)
    for at_least_once in (False, True):
        future = client.submit("echo", b"x", at_least_once=at_least_once, retry=None)
        broker.answer(broker.hear(), **DISABLED)
        error = error_of(future)
        assert isinstance(error, Rejected)
        assert error.code == "disabled"
    assert client.watched() == 1


def test_all_brokers_refuse(clients: Clients, brokers: Brokers) -> None:
    first, second = brokers(), brokers()
    client = clients([first.address, second.address])
    first.hear("NEEDBROKER")
    future = client.submit("echo", b"x", retry=None)
    first.answer(first.hear(), **DISABLED)
    second.answer(second.hear(), **DISABLED)
    error = error_of(future)
    assert isinstance(error, Rejected)
    assert error.code == "disabled"


def test_the_only_broker_refuses_and_then_takes_it(clients: Clients, brokers: Brokers) -> None:
    broker = brokers()
    client = clients(broker.address)
    future = client.submit("echo", b"x")
    broker.answer(broker.hear(), **DISABLED)
    assert broker.serve().body == b"x"
    assert future.result(SOON_S) == b"x"


def test_who_is_tried_again_in_vain_hears_the_last_reason(clients: Clients, brokers: Brokers) -> None:
    broker = brokers()
    client = clients(broker.address, retry=Retry(attempts=2))
    future = client.submit("echo", b"x")
    for _ in range(2):
        broker.answer(broker.hear(), outcome="REJECTED", reason="overload: no room", message_id="m")
    error = error_of(future)
    assert isinstance(error, Rejected)
    assert error.reason == "overload: no room"
    answers = client.map("echo", [b"1", b"2"], retry=Retry(), errors="return")
    broker.answer(broker.hear(), outcome="REJECTED", reason="no_worker: none", message_id="m")
    for _ in range(2):
        broker.serve()
    assert sorted(answers.result(SOON_S)) == [b"1", b"2"]


def test_a_broker_that_stops_in_the_middle(clients: Clients, brokers: Brokers) -> None:
    first, second = brokers(), brokers()
    client = clients([first.address, second.address])
    plain, again = client.submit("echo", b"plain"), client.submit("echo", b"again", at_least_once=True)
    for _ in range(2):
        first.answer(first.hear(), **STOPPED)
    assert second.serve().body == b"again"
    assert again.result(SOON_S) == b"again"
    error = error_of(plain)
    assert isinstance(error, Unknown)
    assert error.reason == STOPPED["reason"]


def test_the_only_broker_stops_in_the_middle_and_comes_back(clients: Clients, brokers: Brokers) -> None:
    broker = brokers()
    client = clients(broker.address)
    future = client.submit("echo", b"again", at_least_once=True)
    broker.answer(broker.hear(), **STOPPED)
    other = client.submit("echo", b"other")
    assert broker.serve().body == b"other", "it is not asked again as long as it is the same"
    assert other.result(SOON_S) == b"other"
    broker.restart()
    assert broker.serve().body == b"again"
    assert future.result(SOON_S) == b"again"


# -- brokers that tell of others ----------------------------------------------------------------------------------


def test_it_goes_to_a_broker_that_it_was_told_of(clients: Clients, brokers: Brokers, nowhere: Nowhere) -> None:
    first, second, third = brokers(), brokers(), brokers()
    client = clients([first.address, nowhere()])
    asked = first.hear("NEEDBROKER")
    assert asked.fields == {"request": "NEEDBROKER", "type": "REQUEST", "services": [], "role": "client"}
    told = [{"frontend": each.address, "identity": "x", "load": 0.5} for each in (first, second, third)]
    first.answer(asked, json.dumps({"brokers": told}).encode())
    wait_until(lambda: len(client.client.addresses) == 4, "it knows them")
    assert client.client.addresses[2:] == [second.address, third.address]
    # It may not know yet that they are dead.
    first.die()
    future = client.submit("echo", b"hello", at_least_once=True)
    second.serve()
    assert future.result(SOON_S) == b"hello"
    second.die()
    future = client.submit("echo", b"again", at_least_once=True)
    third.serve()
    assert future.result(SOON_S) == b"again"


def test_each_connection_is_asked_once(clients: Clients, brokers: Brokers) -> None:
    broker = brokers()
    client = clients(broker.address)
    for _ in range(3):
        assert broker.hear_any().fields["request"] == "NEEDBROKER", "as soon as it is connected"
        for _ in range(10):
            future = client.submit("echo", b"x")
            asked = broker.hear_any()
            assert asked.fields["request"] == "TASK"
            broker.answer(asked, outcome="OK")
            future.result(SOON_S)
        broker.restart()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"rubbish",
        b"\xff\x00",
        b'{"brokers":"many"}',
        b'{"brokers":' + b"[" * 10_000,
        b'{"brokers":[' + b",".join([b'{"frontend":"tcp://127.0.0.1:7"}'] * 1_000_000) + b"]}",
        json.dumps({"brokers": [{"frontend": each} for each in ("x", "tcp://*:1", "ipc:///x", "tcp://x:0")]}).encode(),
    ],
    ids=lambda body: body[:16].decode("ascii", "replace"),
)
def test_rubbish_about_others_is_ignored(clients: Clients, brokers: Brokers, body: bytes) -> None:
    broker = brokers()
    client = clients(broker.address)
    broker.answer(broker.hear("NEEDBROKER"), body)
    future = client.submit("echo", b"hello")
    broker.serve()
    assert future.result(SOON_S) == b"hello"
    assert client.client.addresses == [broker.address]
    assert client.connection.session.told == b""


def test_an_error_instead_of_others_is_ignored(clients: Clients, brokers: Brokers) -> None:
    broker = brokers()
    client = clients(broker.address)
    asked = broker.hear("NEEDBROKER")
    broker.answer(asked._replace(fields={"request": "ERROR"}), reason="unknown_request: what?")
    future = client.submit("echo", b"hello")
    broker.serve()
    assert future.result(SOON_S) == b"hello"


def test_an_address_that_is_none_is_passed_over(clients: Clients, brokers: Brokers) -> None:
    first, second = brokers(), brokers()
    client = clients(first.address)
    first.name("tcp://-:1", second.address)
    wait_until(lambda: len(client.client.addresses) == 3, "it knows of them")
    first.die()
    future = client.submit("echo", b"hello", at_least_once=True)
    second.serve()
    assert future.result(SOON_S) == b"hello"


# -- ends and bounds ----------------------------------------------------------------------------------------------


def test_what_is_kept_for_later_is_bounded(clients: Clients, nowhere: Nowhere) -> None:
    client = clients(nowhere(), timeout=0.5)
    largest = bytes(16 * 1024 * 1024)
    kept = [client.submit("echo", largest, at_least_once=True) for _ in range(16)]
    with pytest.raises(Rejected) as caught:
        client.submit("echo", b"x", at_least_once=True)
    assert caught.value.code == "overload"
    plain = client.submit("echo", largest)
    assert {error_of(future).code for future in (*kept, plain)} == {"expired"}
    assert error_of(client.submit("echo", largest, at_least_once=True)).code == "expired", "there is room again"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("owing", [False, True], ids=["owing nothing", "owing answers"])
def test_fifty_moves_leave_nothing_behind(clients: Clients, brokers: Brokers, owing: bool) -> None:
    """One broker with many addresses, each of which refuses one task; perhaps after having taken another."""
    broker = brokers(51)
    client = clients(broker.addresses)
    broker.hear("NEEDBROKER")
    visited = [broker.addresses[0]]
    owed = []

    def be_refused() -> None:
        if owing:
            owed.append(client.submit("echo", b"owed"))
            broker.hear()
        future = client.submit("echo", b"refused")
        broker.answer(broker.hear(), **DISABLED)
        broker.serve()
        assert future.result(SOON_S) == b"refused"
        # It may have moved on once more, where a busy machine kept the broker from saying that it is there.
        assert client.client.address != visited[-1]
        visited.append(client.client.address)

    for _ in range(10):
        be_refused()
    before, threads = descriptors(), threading.active_count()
    for _ in range(40):
        be_refused()
    # libzmq closes sockets, on both sides, a moment later.
    wait_until(lambda: descriptors() <= before, "all descriptors of former lines are closed")
    assert threading.active_count() == threads
    assert client.watched() == 1 + (FORMER_MAX if owing else 0)
    if owing:
        assert {error_of(future).code for future in owed[:-FORMER_MAX]} == {"broker_lost"}
        assert not any(future.done() for future in owed[-FORMER_MAX:])
    assert len(client.connection.session) == (FORMER_MAX if owing else 0)
    client.close()
    assert {error_of(future).code for future in owed} <= {"broker_lost"}


def test_close_in_every_state(clients: Clients, brokers: Brokers, nowhere: Nowhere) -> None:
    dead = nowhere()
    before = descriptors()
    for state in ("not started", "nobody there", "moving", "lost", "owed", "resting"):
        first, second = Broker(), Broker()
        given = {"nobody there": [dead], "moving": [dead, dead.replace("127.0.0.1", "127.0.0.2")]}
        client = clients(given.get(state, [first.address, second.address]))
        futures = []
        if state == "nobody there":
            futures.append(client.submit("echo", b"x"))
        elif state == "moving":
            futures.append(client.submit("echo", b"x", at_least_once=True))
            wait_until(lambda: client.connection.brokers._rounds, "a whole round")  # noqa: B023
        elif state == "lost":
            futures.append(client.submit("echo", b"x", at_least_once=True))
            first.hear()
            first.die()
            wait_until(lambda: not client.connection.line.up, "it is lost")  # noqa: B023
        elif state == "owed":
            futures += [client.submit("echo", b"x"), client.submit("echo", b"x")]
            first.hear()
            first.answer(first.hear(), **DISABLED)
            second.hear()
        elif state == "resting":
            futures.append(client.submit("echo", b"x", at_least_once=True))
            first.answer(first.hear(), **STOPPED)
            second.answer(second.hear(), **STOPPED)
            wait_until(lambda: client.connection.session._retries._resting, "nobody will have it")  # noqa: B023
        client.close()
        for future in futures:
            assert future.done(), state
            outcome = "REJECTED" if state in ("nobody there", "moving") else "UNKNOWN"
            assert error_of(future).outcome == outcome, state
        first.die()
        second.die()
    wait_until(lambda: descriptors() <= before, "all descriptors are closed")


def test_a_client_whose_loop_starts_late_does_not_blame_the_broker(brokers: Brokers) -> None:
    first, second = brokers(), brokers()
    client = AsyncClient([first.address, second.address])
    late_ns = time.monotonic_ns() + 1_000_000_000
    wait_until(lambda: time.monotonic_ns() > late_ns, "more than its patience has passed")

    async def ask() -> bytes:
        async with client:
            return await client.request("echo", b"x")

    serving = threading.Thread(target=first.serve)
    serving.start()
    assert asyncio.run(ask()) == b"x"
    serving.join(SOON_S)
    assert client.address == first.address


def test_what_comes_along_with_the_only_answer_is_taken_in_without_another_task(brokers: Brokers) -> None:
    broker = brokers()
    client = Loop(broker.address)
    try:
        future = client.submit("echo", b"x")
        asked = broker.hear()
        blocked, go_on = threading.Event(), threading.Event()

        def block() -> None:
            blocked.set()
            go_on.wait(SOON_S)

        client._loop.call_soon_threadsafe(block)
        assert blocked.wait(SOON_S)
        for _ in range(3):
            broker.answer(asked, b"x", outcome="OK")
        # Until at least the first of them is there: the client is to find several at once.
        assert select.select([client.connection.line.fd], [], [], SOON_S)[0]
        go_on.set()
        assert future.result(SOON_S) == b"x"
        deadline = time.monotonic() + SOON_S
        while client.connection.session.late < 2:
            assert time.monotonic() < deadline, "they were left lying there"
            time.sleep(0.005)
    finally:
        client.close()
