"""The names of connections, and what people are shown of them. Pure.

    name    a zero byte, the connection's number (6 bytes), 8 random bytes, and where it comes from

The zero byte distinguishes it from the identity of a worker, which is text. The number makes the name new, and the
random bytes make it impossible to guess: whoever has no other name is known by this one. No peer is told its name, or
can choose it.
"""

from __future__ import annotations

from typing import Final

CHANCE_BYTES: Final = 8
_NUMBER_BYTES: Final = 6
_HEAD_BYTES: Final = 1 + _NUMBER_BYTES + CHANCE_BYTES


def name_of_connection(number: int, chance: bytes, place: str) -> bytes:
    return b"\0" + number.to_bytes(_NUMBER_BYTES, "big") + chance + place.encode()


def unique_part(name: bytes) -> bytes:
    """What no other connection ever had, without where it comes from: always of the same length."""
    return name[:_HEAD_BYTES] if name[:1] == b"\0" else name


def host_of(name: bytes) -> bytes:
    """Where a connection comes from, without the port."""
    place = name[_HEAD_BYTES:] if name[:1] == b"\0" else b""
    host = place.rpartition(b":")[0] or place
    return host[1:-1] if host[:1] == b"[" else host


def readable(name: bytes) -> str:
    """What an admin can read and type: who a worker says it is, or where a stranger comes from."""
    if name[:1] == b"\0":
        name = name[_HEAD_BYTES:]
    return name.decode("utf-8", "replace")
