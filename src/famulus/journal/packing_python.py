"""Rows to records, one at a time: the plain twin of `_packing.c`, for where no compiler is.

    pack(letters, rows, codes, head, ids) -> the records, one after the other

A row is a tuple with a value for each letter, and a record has little-endian fields in that order:

    q   a number of 64 bits
    i   a number of 32 bits
    n   a ticket, eight bytes or none: the number that they are, of which 63 bits count
    s   a text, as bytes: 32 bits, its place in `codes` counted from 1, where it is put if it is new; 0 for an empty one
    m   a message_id, as the JSON text that stands in headers: 64 bits. One that begins with `head` is of our own making,
        and is the number in its last twelve digits. Any other is put into `ids`, and is minus its place, from 1
"""

from __future__ import annotations

import struct
from typing import Any, Final

_FORMATS: Final = {"q": "q", "i": "i", "n": "q", "s": "i", "m": "q"}
_DIGITS: Final = frozenset(b"0123456789abcdef")


def pack(letters: str, rows: list[tuple[Any, ...]], codes: dict[bytes, int], head: bytes, ids: list[bytes]) -> bytes:
    record = struct.Struct("<" + "".join(_FORMATS[letter] for letter in letters))
    texts = [column for column, letter in enumerate(letters) if letter == "s"]
    others = [(column, letter) for column, letter in enumerate(letters) if letter in "mn"]
    records = []
    for row in rows:
        values = list(row)
        for column in texts:
            text = values[column]
            values[column] = codes.setdefault(text, len(codes) + 1) if text else 0
        for column, letter in others:
            values[column] = _ticket(values[column]) if letter == "n" else _id(values[column], head, ids)
        try:
            records.append(record.pack(*values))
        except struct.error as error:
            raise OverflowError(str(error)) from None
    return b"".join(records)


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
