"""A stretch of network that can be cut: passes on what comes in at one address to another one."""

from __future__ import annotations

import asyncio
from contextlib import suppress

CHUNK_BYTES = 1 << 16


class Relay:
    def __init__(self, known_host: str, own_host: str, port: int) -> None:
        self.port = port
        self._known = (known_host, port)
        self._own = (own_host, port)
        self._is_cut = False
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, *self._known)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._drop_all()

    async def cut(self) -> None:
        """From now on nobody gets through, and whoever did is gone."""
        self._is_cut = True
        await self._drop_all()

    def heal(self) -> None:
        self._is_cut = False

    async def _drop_all(self) -> None:
        passing = list(self._passing)
        for each in passing:
            each.cancel()
        await asyncio.gather(*passing, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.close()
            return
        task = asyncio.create_task(self._carry(reader, writer))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """There and back, until one side ends or the relay is cut."""
        try:
            other_reader, other_writer = await asyncio.open_connection(*self._own)
        except OSError:
            writer.close()  # nobody is there: the other side sees it as it would without us
            return
        try:
            ways = [
                asyncio.ensure_future(_pass(reader, other_writer)),
                asyncio.ensure_future(_pass(other_reader, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            writer.close()
            other_writer.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
