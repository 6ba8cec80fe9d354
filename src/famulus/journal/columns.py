"""Records to columns: whole batches at a time, by numpy and Arrow, and never row by row.

What waits for a row group is a list of pieces, each a dict of arrays: numbers as they are, texts as codes into a
dictionary that the pieces of a `Stack` share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from famulus.journal import schema
from famulus.journal.arrow import TYPES, schema_of
from famulus.journal.records import LAYOUTS, Batch
from famulus.journal.schema import Column, Kind
from famulus.wire import reasons

_FORMATS: Final = {"q": "<i8", "i": "<i4", "n": "<i8", "s": "<i4", "m": "<i8"}
DTYPES: Final = {
    table: np.dtype([(name, _FORMATS[letter]) for name, letter in fields]) for table, fields in LAYOUTS.items()
}
#: Fields that are instants on the monotonic clock.
_MONOTONIC: Final = frozenset({"at", "arrived", "assigned", "ended"})
#: A reason is a word of ours or of a worker; longer ones are cut.
REASON_CHARS_MAX: Final = 100
_HEX: Final = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint8).reshape(256, 2)

Piece = dict[str, np.ndarray[Any, Any]]


class Stack:
    """Rows of one table and one life of a broker, on their way to a row group."""

    def __init__(self, table: str, broker: str, boot: str, family: str) -> None:
        self.table = table
        self.rows = 0
        self._constants = {"broker": broker, "boot": boot, "family": family}
        self._salt = f"{broker} {boot}".encode()
        self._pieces: list[Piece] = []
        #: By column, its texts with their codes from 1 on.
        self._texts: dict[str, dict[bytes, int]] = {}
        self._head = b""
        self._ids: list[bytes] = []

    def add(self, batch: Batch, records: np.ndarray[Any, Any], config_version: int) -> None:
        """Take records of a batch."""
        piece: Piece = {}
        for name, letter in LAYOUTS[self.table]:
            values = records[name]
            if letter == "s":
                self._add_texts(piece, name, values, batch.texts)
            elif letter == "m":
                piece[name] = self._add_ids(values, batch)
            elif name in _MONOTONIC:
                piece[name] = np.where(values > 0, wall_us(values, batch), 0)
            else:
                piece[name] = values
        if self.table == "tasks":
            self._derive(piece, records)
            piece["config_version"] = np.full(len(records), config_version, np.int64)
        if "at_least_once" in piece:
            piece["at_most_once"] = piece.pop("at_least_once") == 0
        self._pieces.append(piece)
        self.rows += len(records)

    def _add_texts(self, piece: Piece, name: str, codes: np.ndarray[Any, Any], texts: list[bytes]) -> None:
        """Codes of the batch become codes of ours: of each text that comes up at all, once."""
        present = [int(code) for code in np.flatnonzero(np.bincount(codes, minlength=1)) if code]
        for column, text_of in _TEXTS.get(name, {name: _as_it_is}).items():
            known = self._texts.setdefault(column, {})
            ours = np.zeros(len(texts) + 1, np.int32)
            for code in present:
                text = self._hashed(texts[code - 1]) if column == "client" else text_of(texts[code - 1])
                if text:
                    ours[code] = known.setdefault(text, len(known) + 1)
            piece[column] = ours[codes]

    def _hashed(self, client: bytes) -> bytes:
        """A client's connection without telling which: nobody can find it by trying, unless he knows this boot."""
        return hashlib.blake2b(client, digest_size=8, key=self._salt[:64]).hexdigest().encode()

    def _add_ids(self, numbers: np.ndarray[Any, Any], batch: Batch) -> np.ndarray[Any, Any]:
        self._head = batch.head or self._head
        if not batch.ids:
            return numbers
        ours = np.where(numbers < 0, numbers - len(self._ids), numbers)
        self._ids += batch.ids
        return ours

    def _derive(self, piece: Piece, records: np.ndarray[Any, Any]) -> None:
        arrived, assigned, ended = records["arrived"], records["assigned"], records["ended"]
        given = assigned > 0
        piece["queue_ns"] = np.maximum(np.where(given, assigned, ended) - arrived, 0)
        piece["service_ns"] = np.where(given, np.maximum(ended - assigned, 0), -1)
        piece["total_ns"] = np.maximum(ended - arrived, 0)

    def take(self) -> pa.Table:
        """All rows, as columns in the order of the schema; texts are dictionaries still. It is empty then."""
        arrays = [self._array(column) for column in schema.TABLES[self.table]]
        fields = [
            pa.field(column.name, array.type, column.nullable)
            for column, array in zip(schema.TABLES[self.table], arrays, strict=True)
        ]
        self._pieces.clear()
        self._texts.clear()
        self._ids = []
        self.rows = 0
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def _array(self, column: Column) -> pa.Array:
        name = column.name
        if name in self._constants:
            return _dictionary(np.zeros(self.rows, np.int32), [self._constants[name]])
        values = np.concatenate([piece[name] for piece in self._pieces])
        if name == "message_id":
            return self._message_ids(values)
        if column.kind is Kind.TEXT:
            texts = [text.decode("utf-8", "replace") for text in self._texts[name]]
            missing = values == 0
            if missing.any() and column.nullable:
                return _dictionary(values - 1, texts, missing)
            if missing.any():
                # A text that must be there and is not is an empty one.
                return _dictionary(np.where(missing, len(texts), values - 1), [*texts, ""])
            return _dictionary(values - 1, texts)
        if column.kind is Kind.BOOL:
            return pa.array(values)
        missing = (values == 0 if column.kind is Kind.INSTANT else values < 0) if column.nullable else None
        if column.kind is Kind.INSTANT:
            return pa.array(values.view("datetime64[us]"), pa.timestamp("us", tz="UTC"), mask=missing)
        return pa.array(values, TYPES[column.kind], mask=missing)

    def _message_ids(self, numbers: np.ndarray[Any, Any]) -> pa.Array:
        own = numbers >= 0
        if own.all():
            return _own_ids(numbers, self._head)
        foreign = _plain_texts(self._ids)
        if not own.any():
            return foreign.take(pa.array(-1 - numbers))
        both = pa.concat_arrays([_own_ids(numbers[own], self._head), foreign])
        place = np.where(own, np.cumsum(own) - 1, int(own.sum()) - 1 - numbers)
        return both.take(pa.array(place))


def warm_up() -> None:
    """Arrow loads pandas with the first array, where it is installed, which takes a while."""
    pa.array(np.zeros(1), mask=np.zeros(1, bool))


def wall_us(monotonic_ns: np.ndarray[Any, Any], batch: Batch) -> np.ndarray[Any, Any]:
    return (monotonic_ns - batch.monotonic_ns) // 1000 + batch.wall_us


def _own_ids(numbers: np.ndarray[Any, Any], head: bytes) -> pa.Array:
    """`head` without its quote, and twelve hexadecimal digits of the number."""
    beginning = np.frombuffer(head[1:], np.uint8)
    letters = np.empty((len(numbers), len(beginning) + 12), np.uint8)
    letters[:, : len(beginning)] = beginning
    octets = np.ascontiguousarray(numbers).astype(">i8").view(np.uint8).reshape(-1, 8)[:, 2:]
    letters[:, len(beginning) :] = _HEX[octets].reshape(-1, 12)
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * letters.shape[1]
    return pa.Array.from_buffers(pa.string(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(letters)])


def _plain_texts(texts: list[bytes]) -> pa.Array:
    """JSON texts as what they say."""
    if any(b"\\" in text for text in texts):
        return pa.array([msgspec.json.decode(text, type=str) for text in texts], pa.string())
    return pc.utf8_trim(pa.array(texts, pa.binary()).cast(pa.string()), '"')


def _dictionary(codes: np.ndarray[Any, Any], texts: list[str], missing: np.ndarray[Any, Any] | None = None) -> pa.Array:
    indices = pa.array(codes.astype(np.int32), mask=missing)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


def _as_it_is(text: bytes) -> bytes:
    return text


def _outcome(tail: bytes) -> bytes:
    return str(_read_tail(tail).get("outcome", "")).encode()


def _reason(tail: bytes) -> bytes:
    return reasons.code_of(str(_read_tail(tail).get("reason", "")))[:REASON_CHARS_MAX].encode()


def _read_tail(tail: bytes) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = msgspec.json.decode(b"{" + tail[1:], type=dict[str, Any])
    except msgspec.DecodeError:
        return {}
    return fields


#: Fields whose texts become others.
_TEXTS: Final[dict[str, dict[str, Callable[[bytes], bytes]]]] = {
    "tail": {"outcome": _outcome, "reason": _reason},
}

assert set(DTYPES) == set(schema.TABLES)
assert all(schema_of(table) for table in schema.TABLES)
