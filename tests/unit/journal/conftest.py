"""Rows as a dispatcher would tell them, and what must become of them, worked out one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from famulus.journal.records import BatchWriter
from famulus.journal.writing import Roll, Writing
from famulus.wire.rows import LAYOUTS

#: Of any table.
Row = tuple[object, ...]

HEAD = b'"01234567-89ab-4cde-a123-'
#: 2026-11-15, 08:30.
NOW_US = 1_794_731_400_000_000
NOW_NS = 77_000_000_000_000
OK = b',"outcome":"OK"}'


def task(number: int = 1, *, ended_ns: int = NOW_NS, **changes: object) -> Row:
    """A task that came, went to a worker after 1 ms, and ended 5 ms later."""
    values: dict[str, object] = {
        "ticket": (number + (1 << 63)).to_bytes(8, "big"),
        "message_id": HEAD + b'%012x"' % number,
        "attempt": 1,
        "service": b"echo",
        "worker": b"worker-1",
        "client": b"\0abcd",
        "at_least_once": False,
        "priority": 5,
        "arrived": ended_ns - 6_000_000,
        "assigned": ended_ns - 5_000_000,
        "delegated_from": b"",
        "delegated_to": b"",
        "tail": OK,
        "ended": ended_ns,
        "request_bytes": 100,
        "response_bytes": 200,
    }
    values.update(changes)
    return tuple(values[name] for name, _ in LAYOUTS["tasks"])


def frame(pen: BatchWriter, tables: dict[str, list[Row]], now_us: int = NOW_US, now_ns: int = NOW_NS) -> bytes:
    for table, rows in tables.items():
        for row in rows:
            pen._packers[table].add(*row)
    return pen.write(now_us, now_ns)


class Desk:
    """A scribe without a process: its warnings are kept, and it reads no clock."""

    def __init__(self, path: Path, boot: str = "b007", roll: Roll | None = None) -> None:
        self.path = path
        self.warnings: list[str] = []
        self.writing = Writing(path, "ann", "main", roll or Roll(), self.warnings.append)
        self.writing.boot = boot
        self.pen = BatchWriter("dispatcher", boot, HEAD)
        self.now_us = NOW_US

    def tell(self, *rows: Row, table: str = "tasks") -> None:
        self.writing.take(frame(self.pen, {table: list(rows)}, self.now_us), self.now_us)

    def lose(self, *rows: Row, table: str = "tasks") -> None:
        """The dispatcher told them, but nobody heard it."""
        frame(self.pen, {table: list(rows)})

    def later(self, seconds: float) -> None:
        self.now_us += int(seconds * 1e6)
        self.writing.tick(self.now_us, NOW_NS + (self.now_us - NOW_US) * 1000)

    def close(self) -> None:
        self.writing.close(self.now_us, NOW_NS + (self.now_us - NOW_US) * 1000)

    def rows(self, table: str = "tasks") -> list[dict[str, Any]]:
        from famulus.journal.reading import JournalReader

        reading = JournalReader(self.path)
        found = []
        for file in reading.folder.visible():
            if file.table == table:
                rows = reading.rows_of(file)
                assert rows is not None
                found += rows.to_pylist()
        return found

    def names(self, table: str = "tasks") -> list[str]:
        return sorted(str(path.relative_to(self.path)) for path in self.path.glob(f"{table}/*/*/*"))

    def gaps(self) -> list[tuple[str, int, str]]:
        return [(row["table"], row["rows"], row["detail"]) for row in self.rows("brokers") if row["event"] == "gap"]


@pytest.fixture
def desks(tmp_path: Path) -> Callable[..., Desk]:
    def make(boot: str = "b007", roll: Roll | None = None) -> Desk:
        return Desk(tmp_path / "journal", boot, roll)

    return make


@pytest.fixture
def desk(desks: Callable[..., Desk]) -> Desk:
    return desks()


def tail(outcome: str, reason: str) -> bytes:
    return b"," + json.dumps({"outcome": outcome, "reason": reason}).encode()[1:]
