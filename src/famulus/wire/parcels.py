"""Parcels: several messages in one frame, since what a message costs on its way is mostly the price of its frames.

    version: 1 | for each message: length of envelope (1 byte), of header (2), of body (4), then the three

Numbers are in network order. `net/_parcel.h` is the same in C.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

VERSION: Final = 1
#: Bounds what a small frame can make its reader allocate.
MESSAGES_MAX: Final = 1024
#: Of a parcel that we send: pipes count frames, and must stay bounded in bytes.
BYTES_MAX: Final = 32 * 1024
#: A larger message gains nothing from company.
MESSAGE_BYTES_MAX: Final = 8 * 1024

_HEAD: Final = struct.Struct("!BHI")


def fits(message: Sequence[bytes]) -> bool:
    """Whether [envelope, header, body] can travel in a parcel."""
    if len(message) != 3:
        return False
    envelope, header, body = map(len, message)
    return envelope <= 0xFF and header <= 0xFFFF and envelope + header + body <= MESSAGE_BYTES_MAX


def size(message: Sequence[bytes]) -> int:
    return _HEAD.size + sum(map(len, message))


def run_of(messages: Iterable[Sequence[bytes]]) -> int:
    """How many of these messages, from the first on, can travel together. Looks no further than at the one after."""
    count, total = 0, 1
    for message in messages:
        total += size(message)
        if not fits(message) or count == MESSAGES_MAX or total > BYTES_MAX:
            break
        count += 1
    return count


def write(messages: Sequence[Sequence[bytes]]) -> bytes:
    parts = [bytes([VERSION])]
    for message in messages:
        parts.append(_HEAD.pack(*map(len, message)))
        parts += message
    return b"".join(parts)


def read(frame: bytes) -> list[list[bytes]]:
    """The messages of a parcel; none if it is anything else."""
    if not frame or frame[0] != VERSION:
        return []
    messages: list[list[bytes]] = []
    at = 1
    while at < len(frame):
        if len(messages) == MESSAGES_MAX or at + _HEAD.size > len(frame):
            return []
        lengths = _HEAD.unpack_from(frame, at)
        at += _HEAD.size
        message = []
        for length in lengths:
            message.append(frame[at : at + length])
            at += length
        if at > len(frame):
            return []
        messages.append(message)
    return messages
