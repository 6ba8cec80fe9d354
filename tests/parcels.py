"""Parcels as others write them: Famulus itself only reads them."""

from __future__ import annotations

import struct
from collections.abc import Sequence


def write(messages: Sequence[Sequence[bytes]]) -> bytes:
    """These messages of three frames in one frame, as docs/protocol.md says."""
    parts = [b"\x01"]
    for message in messages:
        parts.append(struct.pack("!BHI", *map(len, message)))
        parts += message
    return b"".join(parts)
