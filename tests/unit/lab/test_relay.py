"""The demo's network: it carries, is cut, and heals."""

from __future__ import annotations

import asyncio
import signal
import socket

import pytest

from famulus.lab.processes import python
from famulus.lab.relay import Relay

KNOWN, OWN = "127.0.11.1", "127.0.12.1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((OWN, 0))
        port: int = probe.getsockname()[1]
        return port


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(100):
        writer.write(chunk)
    writer.close()


async def asked(port: int) -> bytes:
    reader, writer = await asyncio.open_connection(KNOWN, port)
    try:
        writer.write(b"hello")
        return await reader.read(100)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def test_what_is_cut_is_gone_and_comes_back_when_it_heals() -> None:
    async def play() -> None:
        port = free_port()
        server = await asyncio.start_server(echo, OWN, port)
        relay = Relay(KNOWN, OWN, port)
        await relay.open()
        assert await asked(port) == b"hello"
        reader, writer = await asyncio.open_connection(KNOWN, port)
        writer.write(b"hello")
        assert await reader.read(100) == b"hello"
        await relay.cut()
        assert await reader.read(100) == b"", "who was through is gone"
        writer.close()
        assert await asked(port) == b"", "nobody gets through"
        relay.heal()
        assert await asked(port) == b"hello"
        await relay.close()
        server.close()

    asyncio.run(asyncio.wait_for(play(), 20))


def test_nobody_behind_it_looks_like_nobody() -> None:
    async def play() -> None:
        relay = Relay(KNOWN, OWN, free_port())
        await relay.open()
        assert await asked(relay.port) == b""
        await relay.close()

    asyncio.run(asyncio.wait_for(play(), 20))


def test_a_stopped_one_keeps_everything_to_itself_and_lets_nobody_know() -> None:
    async def play() -> None:
        port = free_port()
        server = await asyncio.start_server(echo, OWN, port)
        command = python("famulus.lab.relay", KNOWN, OWN, str(port))
        relay = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert relay.stdout is not None
        assert await relay.stdout.readline() == b"relay is open\n"
        reader, writer = await asyncio.open_connection(KNOWN, port)
        writer.write(b"hello")
        assert await reader.read(100) == b"hello"
        relay.send_signal(signal.SIGSTOP)
        writer.write(b"anybody there?")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(100), 0.3)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asked(port), 0.3)
        writer.close()
        relay.kill()
        await relay.wait()
        server.close()

    asyncio.run(asyncio.wait_for(play(), 20))
