"""What connections are called, and what people read of that. Pure.

    name    a zero byte, seven bytes by chance, and where it comes from

The zero byte tells it from the identity of a worker, which is text. Chance makes it one that was not there before. No peer
is told its name, or can choose one.
"""

from __future__ import annotations

from typing import Final

CHANCE_BYTES: Final = 7
_HEAD_BYTES: Final = 1 + CHANCE_BYTES


def name_of_connection(chance: bytes, place: str) -> bytes:
    return b"\0" + chance + place.encode()


def readable(name: bytes) -> str:
    """What an admin can read and type: who a worker says it is, or where a stranger comes from."""
    if name[:1] == b"\0":
        name = name[_HEAD_BYTES:]
    return name.decode("utf-8", "replace")
