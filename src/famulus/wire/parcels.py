"""Parcels: several messages in one frame. We read them, and send them where frames are sealed: each seal costs.

    version: 1 | for each message: length of envelope (1 byte), of header (2), of body (4), then the three

Numbers are in network order. `net/_messages.c` has the same in C.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

VERSION: Final = 1
#: Bounds what a small frame can make its reader allocate.
MESSAGES_MAX: Final = 1024
#: How large our parcels are at most. Those of others are read, however small the bodies are that a broker allows.
BYTES_MAX: Final = 32 * 1024

_HEAD: Final = struct.Struct("!BHI")
_FRAMES: Final = 3


def packed(messages: Sequence[Sequence[bytes]]) -> Iterator[Sequence[bytes]]:
    """The same messages, in their order: those that fit into a parcel in as few as possible, each as its only frame."""
    parts, size, count = [bytes([VERSION])], 1, 0
    for message in messages:
        needed = _HEAD.size + sum(map(len, message))
        fits = _fits(message) and needed < BYTES_MAX
        if count and (not fits or size + needed > BYTES_MAX or count == MESSAGES_MAX):
            yield [b"".join(parts)]
            parts, size, count = [bytes([VERSION])], 1, 0
        if fits:
            parts += (_HEAD.pack(*map(len, message)), *message)
            size += needed
            count += 1
        else:
            yield message
    if count:
        yield [b"".join(parts)]


def _fits(message: Sequence[bytes]) -> bool:
    """Whether a parcel can hold such a message, of whatever size."""
    return len(message) == _FRAMES and len(message[0]) < 1 << 8 and len(message[1]) < 1 << 16


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
