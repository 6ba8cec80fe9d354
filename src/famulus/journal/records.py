"""How the processes of a broker tell their scribe what happened: batches of fixed-width records. Knows no Arrow.

A batch is one MessagePack array (the fields of `Batch`, in order). The records of a table are laid out like its rows
(`famulus.wire.rows`), with the letters of `packing_python`: as columns, as in the files. A column that is the same in
all rows, as most are in most batches, is one number, and costs next to nothing to send. Texts are codes, and each batch
has its own dictionary, so it can be read without any other, and a lost batch means only that its own rows are lost. A
batch carries the time of the monotonic clock and of the wall clock, read together, to convert one into the other.
`told` counts the rows that its source had for each table before, so that the scribe sees how many it missed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final, cast

import msgspec
from msgspec import Struct

from famulus.journal import packing_python
from famulus.wire.rows import LAYOUTS, TABLES, Row, WriteOpenTask, WriteTask

#: How many rows there are, and their columns: each is all its values, little-endian, or the one that all rows have.
Records = tuple[int, list[int | memoryview]]


#: Changes with LAYOUTS, or with how records are packed: a scribe that is restarted after an upgrade, while its
#: dispatcher keeps running, must not misread that dispatcher's records.
LAYOUT: Final = 4


def _choose() -> type[packing_python.Packer]:
    """The compiled one if it was built, for this layout, unless somebody wants the Python sources to run."""
    if os.environ.get("FAMULUS_CORE") != "python":
        with suppress(ImportError):
            from famulus.journal import _packing

            if getattr(_packing, "LAYOUT", 0) == LAYOUT:
                return cast("type[packing_python.Packer]", _packing.Packer)
    return packing_python.Packer


Packer = _choose()

LETTERS: Final = {table: "".join(letter for _, letter in fields) for table, fields in LAYOUTS.items()}


class Batch(Struct, frozen=True, array_like=True):
    #: How the records are laid out: LAYOUT.
    layout: int
    #: Which process sent it.
    source: str
    #: The life of the dispatcher that it belongs to; empty for the current one.
    boot: str
    #: Two clocks, read together.
    wall_us: int
    monotonic_ns: int
    #: The beginning of the message_ids that this source makes itself.
    head: bytes
    told: dict[str, int]
    tables: dict[str, Records]
    texts: list[bytes]
    ids: list[bytes]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Batch).decode


class BatchWriter:
    """What a process writes its batches with."""

    def __init__(self, source: str, boot: str, head: bytes = b"") -> None:
        self._source = source
        self._boot = boot
        self._head = head
        self._told: dict[str, int] = {}
        self._codes: dict[bytes, int] = {}
        self._ids: list[bytes] = []
        self._packers = {table: Packer(letters, self._codes, head, self._ids) for table, letters in LETTERS.items()}
        self.task: WriteTask = self._packers["tasks"].add
        self.open_task: WriteOpenTask = self._packers["open_tasks"].add

    def note(self, row: Row) -> None:
        self._packers[TABLES[type(row)]].add(*row)

    @property
    def told(self) -> dict[str, int]:
        """How many rows of each table were in all batches so far."""
        return dict(self._told)

    @property
    def rows(self) -> int:
        return sum(packer.rows for packer in self._packers.values())

    def write(self, wall_us: int, monotonic_ns: int) -> bytes:
        """A batch of the rows noted so far. They count as reported, whether the batch arrives or not."""
        told = dict(self._told)
        tables: dict[str, Records] = {}
        for table, packer in self._packers.items():
            if rows := packer.rows:
                self._told[table] = told.get(table, 0) + rows
                tables[table] = (rows, packer.take())
        texts, ids = list(self._codes), self._ids[:]
        self._codes.clear()
        self._ids.clear()
        return _encode(
            Batch(LAYOUT, self._source, self._boot, wall_us, monotonic_ns, self._head, told, tables, texts, ids)
        )


def read(frame: bytes) -> Batch:
    """What a BatchWriter wrote; raises a msgspec.DecodeError for anything else. Its columns are views of the frame."""
    try:
        batch = _decode(frame)
    except msgspec.ValidationError as error:
        raise msgspec.DecodeError(f"its records are laid out in another way: {error}") from None
    if batch.layout != LAYOUT:
        raise msgspec.DecodeError(f"its records are laid out in another way: {batch.layout}")
    return batch
