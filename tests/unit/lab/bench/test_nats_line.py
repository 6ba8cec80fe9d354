"""What a nats-server says is read as it comes: in pieces, several at once, and with what is not a message between."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Thread

import pytest

from famulus.lab.bench.nats_crowd import NatsLine


@pytest.fixture
def line_and_server() -> Iterator[tuple[NatsLine, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ends: list[socket.socket] = []

        def greet() -> None:
            ends.append(listener.accept()[0])
            ends[0].sendall(b'INFO {"max_payload":1048576}\r\n')
            seen = b""
            while b"PING\r\n" not in seen:
                seen += ends[0].recv(1000)
            ends[0].sendall(b"PONG\r\n")

        server = Thread(target=greet)
        server.start()
        line = NatsLine(f"127.0.0.1:{listener.getsockname()[1]}")
        server.join()
        with ends[0], line.socket:
            yield line, ends[0]


def test_messages_come_in_pieces(line_and_server: tuple[NatsLine, socket.socket]) -> None:
    line, server = line_and_server
    told = b"MSG echo 1 inbox-1 5\r\nhe\r\no\r\nPING\r\nMSG inbox-2 1 2\r\nok\r\n"
    for cut in range(1, len(told)):
        server.sendall(told[:cut])
        found = line.messages()
        server.sendall(told[cut:])
        found += line.messages()
        assert found == [(b"inbox-1", b"he\r\no"), (b"", b"ok")]
        line.send()
        assert server.recv(100) == b"PONG\r\n"


def test_what_is_published_goes_in_one_write(line_and_server: tuple[NatsLine, socket.socket]) -> None:
    line, server = line_and_server
    line.publish(b"echo", b"one", b"inbox")
    line.publish(b"inbox", b"two")
    line.send()
    assert server.recv(1000) == b"PUB echo inbox 3\r\none\r\nPUB inbox  3\r\ntwo\r\n"


@pytest.mark.parametrize("told", [b"-ERR 'Slow Consumer'\r\n", b""])
def test_a_server_that_will_not_go_on_is_an_error(line_and_server: tuple[NatsLine, socket.socket], told: bytes) -> None:
    line, server = line_and_server
    server.sendall(told)
    server.shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionError, match=r"Slow Consumer|closed"):
        line.messages()
