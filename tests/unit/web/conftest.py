"""The HTTP port without a broker: a board that a test fills, and somebody who asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from famulus.journal import apart as journal_apart
from famulus.tables import apart as tables_apart
from famulus.web import findings
from famulus.web.app import Api, make_app
from famulus.web.events import Events
from famulus.web.findings import Findings
from famulus.web.past import PastTasks
from famulus.web.status.board import Board
from famulus.wire import status

HERE = "127.0.0.1"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read in a process of its own, which takes its time to start on a busy machine."""
    monkeypatch.setattr(findings, "WAIT_S", 120.0)
    for apart in (journal_apart, tables_apart):
        monkeypatch.setattr(apart, "SECONDS_MAX", 120.0)


class Clock:
    """Goes only when a test says so."""

    def __init__(self) -> None:
        self.now_ns = time.monotonic_ns()

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Port:
    def __init__(
        self,
        host: str,
        admins_at: str = "",
        clock: Callable[[], int] = time.monotonic_ns,
        tables: Path = Path("/nowhere"),
        *,
        journal: Path | None = None,
        tls: bool = False,
    ) -> None:
        self.board = Board()
        self.api = Api(self.board, Findings(tables, "famulus pipeline run", clock), PastTasks(journal, clock))
        self.events = Events(self.board)
        self.app = make_app(self.api, self.events, host, admins_at, clock, tls=tls)
        self._base = f"{'https' if tls else 'http'}://{HERE}:7104"

    def ask(
        self, method: str, address: str, headers: dict[str, str] | None = None, content: bytes = b"", client: str = HERE
    ) -> httpx.Response:
        """`client`: the address that it seems to come from."""

        async def answer() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=(client, 1234))
            async with httpx.AsyncClient(transport=transport, base_url=self._base) as asking:
                return await asking.request(method, address, headers=headers, content=content)

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
def tables(tmp_path: Path) -> Path:
    """Where the port looks for findings."""
    return tmp_path / "tables"


@pytest.fixture
def port(tables: Path) -> Port:
    return Port("127.0.0.1", tables=tables)
