"""The beginning of a TLS connection: whoever says nothing keeps nobody out, and nothing that was said is lost."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from famulus.broker.certificate import make_certificate
from famulus.broker.folder import Folder
from famulus.broker.tls import server_context
from famulus.web import handshake
from famulus.web.handshake import Handshakes

QUESTION = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["scheme"].encode()})


class Door:
    """A port that speaks TLS."""

    def __init__(self, folder: Folder) -> None:
        self.handshakes = Handshakes(server_context(folder.certificate, folder.certificate_key))
        self.trust = ssl.create_default_context(cafile=folder.certificate)
        self.port = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        config = uvicorn.Config(app, lifespan="off", log_config=None)
        facts: dict[str, Any] = {"config": config, "server_state": ServerState(), "app_state": {}}
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: self.handshakes(**facts), "127.0.0.1", 0)
        async with server:
            self.port = server.sockets[0].getsockname()[1]
            yield

    async def ask(self) -> bytes:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.trust, server_hostname="127.0.0.1"
        )
        writer.write(QUESTION)
        answer = await reader.read()
        writer.close()
        return answer

    def knock(self) -> socket.socket:
        """A connection that says nothing."""
        return socket.create_connection(("127.0.0.1", self.port))


@pytest.fixture
def door(tmp_path: Path) -> Door:
    folder = Folder(tmp_path)
    make_certificate(folder, [])
    return Door(folder)


def test_a_viewer_takes_over_and_knows_that_it_is_tls(door: Door) -> None:
    async def look() -> None:
        async with door.open():
            answer = await door.ask()
            assert answer.startswith(b"HTTP/1.1 200 OK")
            assert b"\r\nhttps\r\n" in answer
            assert not door.handshakes.under_way

    asyncio.run(look())


def test_a_question_right_behind_the_handshake_is_answered(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one packet with the last words of the handshake; and whoever does not say goodbye is not waited for."""
    monkeypatch.setattr(handshake, "GOODBYE_S", 0.05)

    def ask() -> bytes:
        inbox, outbox = ssl.MemoryBIO(), ssl.MemoryBIO()
        sealed = door.trust.wrap_bio(inbox, outbox, server_hostname="127.0.0.1")
        with door.knock() as connection:
            connection.settimeout(10)
            while True:
                try:
                    sealed.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    connection.sendall(outbox.read())
                    inbox.write(connection.recv(65536))
            sealed.write(QUESTION)
            connection.sendall(outbox.read())
            while piece := connection.recv(65536):
                inbox.write(piece)
            return sealed.read(65536)

    async def look() -> None:
        async with door.open():
            assert (await asyncio.to_thread(ask)).startswith(b"HTTP/1.1 200 OK")

    asyncio.run(look())


def test_the_oldest_of_too_many_handshakes_is_given_up(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKES_MAX", 3)

    async def look() -> None:
        async with door.open():
            silent = [closing.enter_context(door.knock()) for _ in range(4)]
            for each in silent:
                each.setblocking(False)
            loop = asyncio.get_running_loop()
            assert await asyncio.wait_for(loop.sock_recv(silent[0], 1), 10) == b""
            assert len(door.handshakes.under_way) == 3
            assert b"\r\nhttps\r\n" in await door.ask()

    with ExitStack() as closing:
        asyncio.run(look())


def test_a_handshake_that_takes_too_long_is_given_up(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "REQUEST_S", 0.05)

    async def look() -> None:
        async with door.open():
            with door.knock() as silent:
                silent.setblocking(False)
                assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(silent, 1), 10) == b""
            assert not door.handshakes.under_way

    asyncio.run(look())


def test_whoever_speaks_plain_http_hears_nothing(door: Door) -> None:
    async def look() -> None:
        async with door.open():
            reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
            writer.write(QUESTION)
            assert b"HTTP" not in await asyncio.wait_for(reader.read(), 10)
            writer.close()
            assert not door.handshakes.under_way

    asyncio.run(look())
