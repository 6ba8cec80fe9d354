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
#: Of the greeting, before the mechanism.
_BEGINNING: Final = _SIGNATURE + bytes([3, 1])
_MECHANISM_BYTES: Final = 20
NULL: Final = b"NULL"

#: What is to be sent now, and how many bytes of the other side are wanted then.
Step = tuple[bytes, int]
#: Instead of how many: the other side has to wait for its turn. Whoever drives the opening goes on when that has come.
LATER: Final = -1

#: The TTL of a PING, after which the other side may give us up if we are silent: none.
_NO_TTL: Final = bytes(2)
#: Of the context of a PING, which is returned with the PONG.
_CONTEXT_BYTES_MAX: Final = 16


class Foreign(Exception):
    """The other side speaks something else; the message says what, for people."""


class NotYet(Exception):
    """The other side has to wait for its turn."""


class Unwelcome(Foreign):
    """It may not come in."""

    def __init__(self, why: bytes, message: str, key: bytes = b"") -> None:
        """`why`: a code. `key`: the one that it has shown."""
        super().__init__(message)
        self.why = why
        self.key = key


def command(name: bytes, content: bytes) -> bytes:
    """A command as the frame that is sent."""
    return framed_command(bytes([len(name)]) + name + content)


def framed_command(body: bytes) -> bytes:
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


#: For each kind that we may be, the kinds that it may talk to.
PARTNERS: Final = {b"DEALER": (b"ROUTER",), b"ROUTER": (b"DEALER", b"REQ"), b"PUB": (b"SUB", b"XSUB")}
PING: Final = b"\x04PING" + _NO_TTL


# -- how it begins --------------------------------------------------------------------------------------------------


def opening(kind: bytes) -> bytes:
    """What a socket of this kind says first without encryption: nothing in it depends on the other side."""
    return _greeting(NULL) + command(b"READY", properties(kind))


def null_opening(kind: bytes) -> Generator[Step, bytes, None]:
    """Yields what to send, and how many bytes of the other side it wants then; is sent those; returns when all is said.

    `kind`: what we are ourselves. Never asks for more than belongs to the opening: what follows is not its business.
    """
    yield from greetings(NULL, command(b"READY", properties(kind)))
    check_partner(kind, (yield from heard_command(b"READY")))


def null_answer(kind: bytes) -> Generator[Step, bytes, None]:
    """The same for one who has heard the other side's greeting already: see `heard_greeting`."""
    check_partner(kind, (yield from heard_command(b"READY", opening(kind)[len(_BEGINNING) :])))


def greetings(mechanism: bytes, said: bytes = b"") -> Generator[Step, bytes, None]:
    """Both sides say that they speak ZMTP, and how they keep it secret. `said`: what we say along with that."""
    if (yield from heard_greeting(_greeting(mechanism) + said)) != mechanism:
        raise Foreign(f"it wants another mechanism than {mechanism.decode()}")


def heard_greeting(said: bytes = b"") -> Generator[Step, bytes, bytes]:
    """The mechanism that the other side wants. If we say nothing ourselves, it only hears which version we speak."""
    signature = yield said or _BEGINNING, len(_SIGNATURE)
    if signature[0] != _SIGNATURE[0] or signature[-1] != _SIGNATURE[-1]:
        raise Foreign("it does not speak ZeroMQ")
    rest = yield b"", _GREETING_BYTES - len(_SIGNATURE)
    if rest[0] < 3:
        raise Foreign("its ZeroMQ is older than version 4")
    # Whether it is the server is not looked at: libzmq always says that it is not.
    return rest[2 : 2 + _MECHANISM_BYTES].rstrip(b"\0")


def rest_of_greeting(mechanism: bytes) -> bytes:
    """Of one who takes connections, and has heard which mechanism is wanted."""
    return _greeting(mechanism, as_server=True)[len(_BEGINNING) :]


def heard_command(expected: bytes, said: bytes = b"") -> Generator[Step, bytes, bytes]:
    """The content of the command of this name, with which the other side goes on after what we have said."""
    flags, length = yield said, 2
    if flags == COMMAND | LONG:
        (length,) = struct.unpack("!Q", bytes([length]) + (yield b"", 7))
    elif flags != COMMAND:
        raise Foreign(f"it does not say {expected.decode()}")
    if length > COMMAND_BYTES_MAX:
        raise Foreign("it sends a command that is too long")
    name, content = read_command((yield b"", length) if length else b"")
    if name != expected:
        raise Foreign(f"it says {name[:20]!r} instead of {expected.decode()}")
    return content


def properties(kind: bytes) -> bytes:
    """What a socket of this kind tells about itself."""
    # Only sockets that may talk to a ROUTER give themselves a name, and ours is empty.
    identity = _property(b"Identity", b"") if kind in (b"DEALER", b"ROUTER") else b""
    return _property(b"Socket-Type", kind) + identity


def check_partner(kind: bytes, told: bytes) -> None:
    """Whether one who tells this about itself may talk to us. The name that it gives itself is ignored."""
    # Anything else would not answer; and a connection to a port of this machine where nobody listens may reach itself.
    other = _read_properties(told).get(b"socket-type", b"")
    if other not in PARTNERS[kind]:
        raise Foreign(f"it is a {other[:20]!r}, and no {' or '.join(each.decode() for each in PARTNERS[kind])}")


def _greeting(mechanism: bytes, *, as_server: bool = False) -> bytes:
    return (_BEGINNING + mechanism.ljust(_MECHANISM_BYTES, b"\0") + bytes([as_server])).ljust(_GREETING_BYTES, b"\0")


# -- heartbeats -----------------------------------------------------------------------------------------------------


def answer_to(body: bytes) -> bytes:
    """The command to send in answer to this one; empty if there is none."""
    name, content = read_command(body)
    context = content[len(_NO_TTL) :][:_CONTEXT_BYTES_MAX]
    return b"\x04PONG" + context if name == b"PING" else b""
