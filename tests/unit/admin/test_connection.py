"""A question and its answer over a real socket, with a broker that does the oddest things."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import zmq

from famulus.admin.connection import AdminConnection
from famulus.admin.secret import Secret
from famulus.errors import HeadsMoved, NoBroker, NotAllowed, Refused, SettingsError
from famulus.wire import headers, limits

OK = headers.write("MANAGE", "RESPONSE", outcome="OK")
PASSWORD = Secret("swordfish")

#: What was asked, to the messages that come back, each without its routing id.
Play = Callable[[list[bytes]], list[list[bytes]]]


class OddBroker:
    def __init__(self) -> None:
        self.play: Play = lambda message: [[message[0], OK, b"{}"]]
        self.messages: list[list[bytes]] = []
        self._stop = threading.Event()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self.port = self._socket.bind_to_random_port("tcp://127.0.0.1")
        self.address = f"tcp://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with self._socket:
            while not self._stop.is_set():
                if self._socket.poll(10):
                    peer, *message = self._socket.recv_multipart()
                    self.messages.append(message)
                    for answer in self.play(message):
                        self._socket.send_multipart([peer, *answer])

    def vanish(self) -> None:
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def close(self) -> None:
        self.vanish()
        self._thread.join()
        self._context.term()


@pytest.fixture
def broker() -> Iterator[OddBroker]:
    odd = OddBroker()
    yield odd
    odd.close()


@pytest.fixture
def connection(broker: OddBroker) -> Iterator[AdminConnection]:
    with AdminConnection(broker.address, connect_s=5, answer_s=5) as connected:
        yield connected


def ask(connection: AdminConnection, command: str = "show", **arguments: Any) -> bytes:
    return connection.ask("ann", PASSWORD, command, arguments)


def test_a_request_is_what_the_protocol_says(broker: OddBroker, connection: AdminConnection) -> None:
    assert ask(connection, "set_password", name="ben", new_password=Secret("new")) == b"{}"
    ((_, header, body),) = broker.messages
    assert msgspec.json.decode(header) == {
        "request": "MANAGE",
        "type": "REQUEST",
        "username": "ann",
        "command": "set_password",
    }
    assert msgspec.json.decode(body) == {"password": "swordfish", "name": "ben", "new_password": "new"}


def test_each_question_has_its_own_answer(broker: OddBroker, connection: AdminConnection) -> None:
    first = ask(connection, number=1)
    broker.play = lambda message: [[b"1", OK, b"late"], [b"", OK, b"odd"], [message[0], OK, b"mine"], [b"x"]]
    assert (first, ask(connection, number=2)) == (b"{}", b"mine")
    assert broker.messages[0][0] != broker.messages[1][0]


def test_what_is_not_ok_is_raised(broker: OddBroker, connection: AdminConnection) -> None:
    def answer_with(header: bytes, body: bytes = b"") -> None:
        broker.play = lambda message: [[message[0], header, body]]

    def rejected(reason: str) -> bytes:
        return headers.write("MANAGE", "RESPONSE", outcome="REJECTED", reason=reason)

    for header in (headers.write_error("not_allowed", "no"), rejected("not_allowed: no")):
        answer_with(header)
        with pytest.raises(NotAllowed, match="not_allowed: no"):
            ask(connection)
    answer_with(rejected("bad_edit: too long"))
    with pytest.raises(Refused, match="bad_edit: too long") as caught:
        ask(connection)
    assert (caught.value.code, caught.value.exit_code) == ("bad_edit", 1)
    answer_with(rejected("conflict: moved"), b'{"moved": [{"key": "k", "heads": [], "difference": []}]}')
    with pytest.raises(HeadsMoved) as moved:
        ask(connection)
    assert [each.key for each in moved.value.moved] == ["k"]
    answer_with(rejected(""))
    with pytest.raises(Refused, match="without a reason"):
        ask(connection)
    for header in (
        b"nonsense",
        headers.write("PONG", "RESPONSE"),
        headers.write("MANAGE", "RESPONSE", outcome="MAYBE"),
    ):
        answer_with(header)
        with pytest.raises(Refused, match="answer"):
            ask(connection)


def test_a_broker_that_is_too_old_is_named(broker: OddBroker, connection: AdminConnection) -> None:
    broker.play = lambda message: [[message[0], headers.write_error("unknown_request", "no 'MANAGE' here"), b""]]
    with pytest.raises(Refused, match=f"the broker at {broker.address} is older"):
        ask(connection)


def test_nobody_is_there() -> None:
    started = time.monotonic()
    with (
        AdminConnection("127.0.0.1:9", connect_s=0.2) as connection,
        pytest.raises(NoBroker, match=r"no broker answers at tcp://127.0.0.1:9 \(tried for 0.2 s\)"),
    ):
        connection.connect()
    assert 0.2 <= time.monotonic() - started < 20


def test_an_answer_that_never_comes(broker: OddBroker) -> None:
    broker.play = lambda message: []
    with (
        AdminConnection(broker.address, answer_s=0.2) as connection,
        pytest.raises(NoBroker, match=r"did not answer within 0\.2 s; what was asked for may have been done"),
    ):
        ask(connection)


def test_a_broker_that_vanishes_is_noticed_before_the_time_is_over(broker: OddBroker) -> None:
    def vanish(message: list[bytes]) -> list[list[bytes]]:
        broker.vanish()
        return []

    broker.play = vanish
    started = time.monotonic()
    with (
        AdminConnection(broker.address, answer_s=60) as connection,
        pytest.raises(NoBroker, match="was lost; what was asked for may have been done"),
    ):
        ask(connection)
    assert time.monotonic() - started < 20


def test_what_cannot_be_sent_is_not(broker: OddBroker, connection: AdminConnection) -> None:
    with pytest.raises(SettingsError, match="cannot be sent"):
        ask(connection, text="\ud800")
    with pytest.raises(Refused, match="too_large"):
        ask(connection, text="x" * limits.BODY_BYTES_MAX)
    assert broker.messages == []


def test_an_address_that_is_none() -> None:
    with pytest.raises(SettingsError):
        AdminConnection("tcp://nowhere")
