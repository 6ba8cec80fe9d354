"""The parts of a stream, and the credit for them: what their envelopes and bodies are.

A part comes under the envelope of its task (from a worker: the ticket) and four bytes more, its number. Parts are
counted from 1. The number 0 is no part: it says how far the task has got, and costs no credit.

The body of a CREDIT names the last part that is wanted by now, and the task. So it counts from the beginning, and not
from the last CREDIT: one that is lost or comes twice changes nothing.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import msgspec

from famulus.errors import ProtocolError
from famulus.wire import reasons

PROGRESS: Final = 0
NUMBER_MAX: Final = 2**32 - 1
#: Of an answer that says nothing of parts: it is not the end of a stream.
NOT_SAID: Final = -1
#: Of what a function says about its progress.
NOTE_CHARS_MAX: Final = 200

_NUMBER: Final = struct.Struct("!I")
NUMBER_BYTES: Final = _NUMBER.size

_write_number = _NUMBER.pack


class Progress(NamedTuple):
    #: From 0 to 1.
    done: float
    note: str


class _Progress(msgspec.Struct):
    done: float
    note: str = ""


class _End(msgspec.Struct):
    parts: int = NOT_SAID


_encode: Final = msgspec.json.Encoder().encode
_decode_end: Final = msgspec.json.Decoder(_End).decode
_decode: Final = msgspec.json.Decoder(_Progress).decode


def write_place(envelope: bytes, number: int) -> bytes:
    """The envelope of a part."""
    return envelope + _write_number(number)


def read_place(place: bytes) -> tuple[bytes, int]:
    """The envelope of its task, and its number."""
    if len(place) < NUMBER_BYTES:
        raise ProtocolError(reasons.BAD_FRAMES, "the envelope of a part ends with its number, of four bytes")
    return place[:-NUMBER_BYTES], _NUMBER.unpack(place[-NUMBER_BYTES:])[0]


def write_credit(envelope: bytes, last: int) -> bytes:
    """The body of a CREDIT."""
    return _write_number(last) + envelope


def read_credit(body: bytes) -> tuple[bytes, int]:
    """The envelope of the task, and the number of the last part that is wanted by now."""
    if len(body) < NUMBER_BYTES:
        raise ProtocolError(reasons.BAD_FRAMES, "a credit is a number of four bytes, and the envelope of a task")
    return body[NUMBER_BYTES:], _NUMBER.unpack(body[:NUMBER_BYTES])[0]


def write_progress(done: float, note: str = "") -> bytes:
    return _encode(_Progress(done, note[:NOTE_CHARS_MAX]))


def read_progress(body: bytes) -> Progress:
    try:
        told = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(reasons.BAD_FRAMES, f"this is no progress: {error}") from None
    return Progress(min(max(told.done, 0.0), 1.0), told.note[:NOTE_CHARS_MAX])


def read_count(header: bytes) -> int:
    """How many parts there were, according to an answer that was read before; or NOT_SAID."""
    return _decode_end(header).parts
