"""Packs rows into columns: the plain twin of `_packing.c`, for machines without a compiler.

    Packer(letters, codes, head, ids)
        .add(*values)   one more row
        .take()         the columns, one for each letter: all values as bytes, or one number that all rows have
        .rows           how many there are

A row has a value for each letter, stored little-endian in its column:

    q   a 64-bit number
    i   a 32-bit number
    n   a ticket, eight bytes or none, as a number: its lower 63 bits
    s   a text, as bytes: 32 bits, its place in `codes` counted from 1, where it is added if it is new; 0 if it is empty
    m   a message_id, as the JSON text that is in headers: 64 bits. For one that begins with `head`, which we made, it
        is the number in its last twelve digits. Any other is added to `ids`, and its value is minus its place, from 1

Tickets and ids differ from row to row, so they are always bytes. `codes` and `ids` belong to the caller, who may share
them between packers, and empties them after taking the columns.
"""

from __future__ import annotations

import struct
from typing import Any, Final

_FORMATS: Final = {"q": "q", "i": "i", "n": "q", "s": "i", "m": "q"}
_DIGITS: Final = frozenset(b"0123456789abcdef")


class Packer:
    def __init__(self, letters: str, codes: dict[bytes, int], head: bytes, ids: list[bytes]) -> None:
        self._values = [struct.Struct("<" + _FORMATS[letter]) for letter in letters]
        self._texts = [column for column, letter in enumerate(letters) if letter == "s"]
        self._others = [(column, letter) for column, letter in enumerate(letters) if letter in "mn"]
        self._codes = codes
        self._head = head
        self._ids = ids
        self._rows: list[list[bytes]] = []

    def add(self, *row: Any) -> None:
        if len(row) != len(self._values):
            raise TypeError(f"a row has {len(self._values)} values")
        values = list(row)
        codes = self._codes
        for column in self._texts:
            text = values[column]
            values[column] = codes.setdefault(text, len(codes) + 1) if text else 0
        for column, letter in self._others:
            value = values[column]
            values[column] = _ticket(value) if letter == "n" else _id(value, self._head, self._ids)
        try:
            self._rows.append([kind.pack(value) for kind, value in zip(self._values, values, strict=True)])
        except struct.error as error:
            raise OverflowError(str(error)) from None

    def take(self) -> list[Any]:
        rows, self._rows = self._rows, []
        columns: list[Any] = [b"".join(column) for column in zip(*rows, strict=True)]
        own = {column for column, _ in self._others}
        for place, (kind, values) in enumerate(zip(self._values, columns, strict=False)):
            if place not in own and values == values[: kind.size] * len(rows):
                (columns[place],) = kind.unpack_from(values)
        return columns

    @property
    def rows(self) -> int:
        return len(self._rows)


def _ticket(ticket: bytes) -> int:
    return int.from_bytes(ticket, "big") & 0x7FFF_FFFF_FFFF_FFFF


def _id(message_id: bytes, head: bytes, ids: list[bytes]) -> int:
    digits = message_id[len(head) : -1]
    if (
        head
        and len(digits) == 12
        and message_id.startswith(head)
        and message_id.endswith(b'"')
        and _DIGITS.issuperset(digits)
    ):
        return int(digits, 16)
    ids.append(message_id)
    return -len(ids)
