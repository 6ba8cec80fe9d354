"""The HTTP port without a broker: a board that a test fills, and somebody who asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import httpx
import pytest

from famulus.core.status.board import Board
from famulus.web.app import make_app
from famulus.web.desk import Desk
from famulus.wire import status


class Port:
    def __init__(self, host: str) -> None:
        self.board = Board()
        self.desk = Desk(self.board)
        self.app = make_app(self.desk, host)

    def ask(self, method: str, address: str, headers: dict[str, str] | None = None) -> httpx.Response:
        async def answer() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7104") as client:
                return await client.request(method, address, headers=headers)

        return asyncio.run(answer())

    def get(self, address: str, headers: dict[str, str] | None = None) -> httpx.Response:
        return self.ask("GET", address, headers)

    def tell(self, *snapshots: status.Snapshot) -> None:
        for snapshot in snapshots:
            self.board.take(snapshot, time.monotonic_ns(), int(time.time() * 1000))


@pytest.fixture
def port_at() -> Callable[[str], Port]:
    return Port


@pytest.fixture
def port() -> Port:
    return Port("127.0.0.1")
