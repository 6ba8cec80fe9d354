"""Whatever the disk refuses and however often the scribe dies: each row told is in a file, or in a gap, once."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.longer import examples
from tests.unit.journal.conftest import NOW_NS, Desk, Row, task

from famulus.journal import writing
from famulus.journal.parquet import OpenFile

TABLES = ("tasks", "workers")


class Disk:
    """Refuses so many of the next calls as it is told to; 0 is none."""

    refusals = 0

    @classmethod
    def ask(cls) -> None:
        if cls.refusals:
            cls.refusals -= 1
            raise OSError(28, "No space left on device")


class Fragile(OpenFile):
    """A file on that disk."""

    def __init__(self, *given: Any) -> None:
        Disk.ask()
        super().__init__(*given)

    def write(self, rows: Any) -> None:
        Disk.ask()
        super().write(rows)

    def finish(self, told: Any) -> None:
        Disk.ask()
        super().finish(told)

    def drop(self) -> None:
        """As a kill does: it stays as it is, and nobody holds it."""
        os.close(self._fd)


def row(table: str, number: int) -> Row:
    return task(number) if table == "tasks" else (NOW_NS, b"worker-1", b"ready", b"echo", 4, -1, b"")


steps = st.lists(
    st.one_of(
        st.tuples(st.just("tell"), st.sampled_from(TABLES), st.integers(1, 3)),
        st.tuples(st.just("lose"), st.sampled_from(TABLES), st.integers(1, 3)),
        st.tuples(st.just("later"), st.sampled_from([1, 5, 61])),
        st.tuples(st.just("refuse"), st.integers(1, 4)),
        st.tuples(st.just("die")),
    ),
    max_size=25,
)


@settings(max_examples=examples(60), deadline=None)
@given(steps)
def test_each_row_is_written_or_missed_once(script: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "OpenFile", Fragile)
        patch.setattr(writing, "GROUP_ROWS", 4)
        patch.setattr(Disk, "refusals", 0)
        desk = Desk(Path(folder) / "journal")
        told = dict.fromkeys(TABLES, 0)
        for verb, *rest in script:
            if verb in ("tell", "lose"):
                table, count = rest
                told[table] += count
                rows = [row(table, told[table] + each) for each in range(count)]
                desk.tell(*rows, table=table) if verb == "tell" else desk.lose(*rows, table=table)
            elif verb == "later":
                desk.later(rest[0])
            elif verb == "refuse":
                Disk.refusals = rest[0]
            else:
                desk = succeeded(desk)
        Disk.refusals = 0
        desk.writing.ledger.end("dispatcher", "b007", desk.pen.told, desk.now_us)
        desk.later(10)
        desk.later(10)
        desk.close()
        missed = dict.fromkeys(TABLES, 0)
        for table, rows_missed, _ in desk.gaps():
            if table in missed:
                missed[table] += rows_missed
        assert {table: missed[table] + len(desk.rows(table)) for table in TABLES} == told


def succeeded(former: Desk) -> Desk:
    """The former scribe is killed: what it had in memory is gone, and so are its locks."""
    for sheet in former.writing._sheets.values():
        if isinstance(sheet.file, Fragile):
            sheet.file.drop()
    desk = Desk(former.path)
    desk.pen, desk.now_us = former.pen, former.now_us
    desk.writing.folder.recover()
    return desk
