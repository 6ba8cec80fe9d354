"""Parcels: several messages in one frame. We read them, since other clients and workers may send them, but send none.

    version: 1 | for each message: length of envelope (1 byte), of header (2), of body (4), then the three

Numbers are in network order. `net/_messages.c` has the same in C.
"""

from __future__ import annotations

import struct
from typing import Final

VERSION: Final = 1
#: Bounds what a small frame can make its reader allocate.
MESSAGES_MAX: Final = 1024
#: How large the parcels of others may be: they are read, however small the bodies are that a broker allows.
BYTES_MAX: Final = 32 * 1024

_HEAD: Final = struct.Struct("!BHI")


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
