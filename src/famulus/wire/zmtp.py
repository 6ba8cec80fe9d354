"""ZMTP 3.1 without encryption, as far as brokers and those who talk to them need it: how it begins, and its heartbeat.

    greeting    10 bytes of signature, version 3.1, mechanism NULL: 64 bytes from each side
    READY       a command from each side, with what kind of socket it is
    then        frames: flags (1: more follow, 2: the length has 8 bytes instead of 1, 4: a command), length, content

https://rfc.zeromq.org/spec/37 has all of it. libzmq speaks the same, over threads of its own; we are quicker without
them, and decide ourselves how much a stranger may send (see docs/decisions).
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Final

MORE: Final = 1
LONG: Final = 2
COMMAND: Final = 4

#: The most that a command may have; those that we know have less.
COMMAND_BYTES_MAX: Final = 4 * 1024

_GREETING_BYTES: Final = 64
_SIGNATURE: Final = b"\xff" + bytes(8) + b"\x7f"
_NULL: Final = b"NULL".ljust(20, b"\0")
_GREETING: Final = (_SIGNATURE + bytes([3, 1]) + _NULL).ljust(_GREETING_BYTES, b"\0")

#: The TTL of a PING, after which the other side may give us up if we are silent: none.
_NO_TTL: Final = bytes(2)
#: Of the context of a PING, which is returned with the PONG.
_CONTEXT_BYTES_MAX: Final = 16


class Foreign(Exception):
    """The other side speaks something else; the message says what, for people."""


def command(name: bytes, content: bytes) -> bytes:
    """A command as the frame that is sent."""
    body = bytes([len(name)]) + name + content
    head = bytes([COMMAND, len(body)]) if len(body) < 256 else bytes([COMMAND | LONG]) + struct.pack("!Q", len(body))
    return head + body


def read_command(body: bytes) -> tuple[bytes, bytes]:
    """Name and content."""
    length = body[0] if body else 0
    if not 0 < length < len(body):
        raise Foreign("it sends a command without a name")
    return body[1 : 1 + length], body[1 + length :]


def _property(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + struct.pack("!I", len(value)) + value


def _read_properties(content: bytes) -> dict[bytes, bytes]:
    """By their names in lower case. One that is incomplete is cut short."""
    properties: dict[bytes, bytes] = {}
    while content:
        name, rest = content[1 : 1 + content[0]], content[1 + content[0] :]
        size = int.from_bytes(rest[:4], "big")
        properties[name.lower()] = rest[4 : 4 + size]
        content = rest[4 + size :]
    return properties


def opening(kind: bytes) -> bytes:
    """What a socket of this kind says first, all at once: with NULL nothing in it depends on the other side."""
    # Only sockets that may talk to a ROUTER give themselves a name, and ours is empty.
    identity = _property(b"Identity", b"") if kind in (b"DEALER", b"ROUTER") else b""
    return _GREETING + command(b"READY", _property(b"Socket-Type", kind) + identity)


#: For each kind that we may be, the kinds that it may talk to.
PARTNERS: Final = {b"DEALER": (b"ROUTER",), b"ROUTER": (b"DEALER", b"REQ"), b"PUB": (b"SUB", b"XSUB")}
PING: Final = command(b"PING", _NO_TTL)


def opening_of_other(kind: bytes) -> Generator[int, bytes, None]:
    """Yields how many bytes of the other side it wants next, and is sent them; returns when that side is ready.

    `kind`: what we are ourselves. Never asks for more than belongs to the opening: what follows is not its business.
    The name that the other side gives itself is ignored.
    """
    signature = yield len(_SIGNATURE)
    if signature[0] != _SIGNATURE[0] or signature[-1] != _SIGNATURE[-1]:
        raise Foreign("it does not speak ZeroMQ")
    version, _, *rest = yield _GREETING_BYTES - len(_SIGNATURE)
    if version < 3:
        raise Foreign("its ZeroMQ is older than version 4")
    if bytes(rest[: len(_NULL)]) != _NULL:
        raise Foreign("it wants another mechanism than NULL")
    flags, length = yield 2
    if flags == COMMAND | LONG:
        (length,) = struct.unpack("!Q", bytes([length]) + (yield 7))
    elif flags != COMMAND:
        raise Foreign("it does not say that it is ready")
    if length > COMMAND_BYTES_MAX:
        raise Foreign("it sends a command that is too long")
    name, content = read_command((yield length) if length else b"")
    if name != b"READY":
        raise Foreign(f"it says {name[:20]!r} instead of that it is ready")
    # Anything else would not answer; and a connection to a port of this machine where nobody listens may reach itself.
    other = _read_properties(content).get(b"socket-type", b"")
    if other not in PARTNERS[kind]:
        raise Foreign(f"it is a {other[:20]!r}, and no {' or '.join(each.decode() for each in PARTNERS[kind])}")


def answer_to(body: bytes) -> bytes:
    """What to send in answer to a command; empty if nothing."""
    name, content = read_command(body)
    context = content[len(_NO_TTL) :][:_CONTEXT_BYTES_MAX]
    return command(b"PONG", context) if name == b"PING" else b""
