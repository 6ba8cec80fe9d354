"""Viewers for a measurement: all of them are there before it begins, and one that is turned away is said."""

from __future__ import annotations

import asyncio

import pytest

from famulus.lab.bench.viewers import watch


async def serve(answer: bytes, asked: list[bytes]) -> asyncio.Server:
    async def on_viewer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readline()
        if request:
            asked.append(request)
            writer.write(answer)
        writer.close()

    return await asyncio.start_server(on_viewer, "127.0.0.1", 0)


def test_all_viewers_come_and_read_to_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[bytes] = []

    async def play() -> None:
        server = await serve(b"HTTP/1.1 200 OK\r\n\r\nretry: 1000\n\n", asked)
        async with server:
            await watch(server.sockets[0].getsockname()[1], 3)

    asyncio.run(play())
    assert asked == [b"GET /api/v1/events HTTP/1.1\r\n"] * 3
    assert capsys.readouterr().out == "all are there\n"


def test_a_viewer_that_is_turned_away_ends_it() -> None:
    async def play() -> None:
        server = await serve(b"HTTP/1.1 503 Service Unavailable\r\n\r\n", [])
        async with server:
            await watch(server.sockets[0].getsockname()[1], 1)

    with pytest.raises(SystemExit, match=r"a viewer was answered HTTP/1\.1 503"):
        asyncio.run(play())
