"""A stretch of network that can be cut: passes on what comes in at one address to another one.

python -m famulus.lab.relay KNOWN_HOST OWN_HOST PORT is one; when stopped, it falls silent without telling anybody.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import closing, suppress

CHUNK_BYTES = 1 << 16


class Relay:
    """From one host to another, with the same port. All of 127.0.0.0/8 is this machine."""

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
        """From now on nobody gets through, and existing connections are dropped."""
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
        # If nobody is there, the other side sees it as it would without us.
        with closing(writer), suppress(OSError):
            other_reader, other_writer = await asyncio.open_connection(*self._own)
            with closing(other_writer):
                ways = [
                    asyncio.create_task(self._pass(reader, other_writer)),
                    asyncio.create_task(self._pass(other_reader, writer)),
                ]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                writer.write(chunk)
                await writer.drain()


async def _stay_open(known_host: str, own_host: str, port: str) -> None:
    await Relay(known_host, own_host, int(port)).open()
    print("relay is open", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_stay_open(*sys.argv[1:]))
