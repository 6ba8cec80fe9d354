"""Turns columns of records into those of a table: whole batches at a time, with numpy and Arrow, never row by row.

What waits for a row group is a list of pieces, one for each batch: its columns as they came, many of which are one
number for all rows. They are converted all at once, since an array of many rows costs hardly more than one of few;
and a column that is the same in all of them needs no array at all.
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
from famulus.journal.records import Batch
from famulus.journal.schema import Column, Kind
from famulus.wire import reasons
from famulus.wire.rows import LAYOUTS

#: A batch has a few thousand rows; if it claims to have many more, it is corrupt.
ROWS_MAX: Final = 1 << 20
_FORMATS: Final = {"q": "<i8", "i": "<i4", "n": "<i8", "s": "<i4", "m": "<i8"}
_DTYPES: Final = {
    table: {name: np.dtype(_FORMATS[letter]) for name, letter in fields} for table, fields in LAYOUTS.items()
}
_LONG: Final = np.dtype("<i8")
#: Fields that are instants on the monotonic clock.
_MONOTONIC: Final = frozenset({"at", "arrived", "assigned", "ended"})
#: A reason is a code of ours or of a worker; longer ones are cut.
REASON_CHARS_MAX: Final = 100
#: The four hexadecimal digits of each two-byte number.
_HEX: Final = np.frombuffer(b"".join(b"%04x" % number for number in range(1 << 16)), np.uint32)

Array = np.ndarray[Any, Any]
#: The values of all rows, or the one value that all rows have.
Values = Array | int
Columns = dict[str, Values]


def unpacked(batch: Batch, table: str) -> Columns | None:
    """The columns of a table's records as a packer made them; None if they are incomplete or invalid."""
    rows, packed = batch.tables[table]
    layout = LAYOUTS[table]
    if not 1 <= rows <= ROWS_MAX or len(packed) != len(layout):
        return None
    columns: Columns = {}
    for (name, letter), values in zip(layout, packed, strict=True):
        column = _column(values, rows, _DTYPES[table][name])
        if column is None or (letter == "s" and not _are_codes(column, len(batch.texts))):
            return None
        columns[name] = column
    if table == "tasks":
        columns["row"] = -1  # no number, unless somebody counts them
    return columns


def _column(values: int | memoryview, rows: int, kind: np.dtype[Any]) -> Values | None:
    if isinstance(values, int):
        bits = 8 * kind.itemsize - 1
        return values if -(1 << bits) <= values < 1 << bits else None
    # A copy: what waits for its row group must not hold on to the whole frame.
    return np.frombuffer(values, kind).copy() if len(values) == rows * kind.itemsize else None


def _are_codes(column: Values, texts: int) -> bool:
    least, most = _ends(column)
    return least >= 0 and most <= texts


def _ends(values: Values) -> tuple[int, int]:
    return (values, values) if isinstance(values, int) else (int(values.min()), int(values.max()))


def picked(columns: Columns, rows: Array) -> Columns:
    """Only the rows where `rows` is True."""
    return {name: values if isinstance(values, int) else values[rows] for name, values in columns.items()}


class Stack:
    """Rows of one table and one life of a broker, on their way to a row group."""

    def __init__(self, table: str, broker: str, boot: str, family: str) -> None:
        self.table = table
        self._constants = {"broker": broker, "boot": boot, "family": family}
        self._salt = f"{broker} {boot}".encode()
        self._head = b""
        self._clear()

    def _clear(self) -> None:
        self.rows = 0
        self._pieces: list[Columns] = []
        self._counts: list[int] = []
        #: For each piece: what to add to its instants to convert them to wall-clock time, and its config version.
        self._shifts_ns: list[int] = []
        self._config_versions: list[int] = []
        #: The texts of all batches in a row, with an empty one before each batch's; and where each batch's begin.
        self._texts: list[bytes] = []
        self._texts_from: list[int] = []
        self._ids: list[bytes] = []
        self._ids_from: list[int] = []

    def add(self, batch: Batch, piece: Columns, rows: int, config_version: int) -> None:
        """Add this many rows of a batch."""
        self._pieces.append(piece)
        self._counts.append(rows)
        self._shifts_ns.append(_shift_ns(batch))
        self._config_versions.append(config_version)
        self._texts_from.append(len(self._texts))
        self._texts += (b"", *batch.texts)
        self._ids_from.append(len(self._ids))
        self._ids += batch.ids
        self._head = batch.head or self._head
        self.rows += rows

    def take(self) -> pa.Table:
        """All rows, as columns in the order of the schema; texts are still dictionaries. Empties the stack."""
        columns = {name: self._values(name) for name, letter in LAYOUTS[self.table] if letter != "s"}
        if self.table == "tasks":
            columns |= _durations(*(self._rows(columns[name]) for name in ("arrived", "assigned", "ended")))
            columns["config_version"] = self._of_each_piece(self._config_versions)
            columns["row"] = self._values("row")
        shifts_ns = self._of_each_piece(self._shifts_ns)
        for name in _MONOTONIC & columns.keys():
            columns[name] = _on_the_wall(self._rows(columns[name]), shifts_ns)
        arrays = [self._array(column, columns) for column in schema.TABLES[self.table]]
        fields = [
            pa.field(column.name, array.type, column.nullable)
            for column, array in zip(schema.TABLES[self.table], arrays, strict=True)
        ]
        self._clear()
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def _values(self, name: str) -> Values:
        """The column of this name, over all pieces."""
        pieces = [piece[name] for piece in self._pieces]
        if all(isinstance(each, int) and each == pieces[0] for each in pieces):
            return pieces[0]
        kind = _DTYPES[self.table].get(name, _LONG)
        return np.concatenate(
            [
                np.full(count, each, kind) if isinstance(each, int) else each
                for each, count in zip(pieces, self._counts, strict=True)
            ]
        )

    def _of_each_piece(self, values: list[int]) -> Values:
        """A column of values that are the same for all rows of a piece."""
        if len(set(values)) == 1:
            return values[0]
        return np.repeat(np.array(values, np.int64), self._counts)

    def _rows(self, values: Values) -> Array:
        return np.full(self.rows, values, np.int64) if isinstance(values, int) else values

    def _array(self, column: Column, columns: Columns) -> pa.Array:
        name = column.name
        if name in self._constants:
            return self._constant(self._constants[name].encode(), column)
        if name == "message_id":
            return self._message_ids(self._rows(columns[name]))
        if column.kind is Kind.TEXT:
            return self._text_array(column)
        if name == "at_most_once":
            return pa.array(self._rows(columns["at_least_once"]) == 0)
        values = columns[name]
        if isinstance(values, int) and column.kind is not Kind.INSTANT:
            return self._same_number(values, column)
        values = self._rows(values)
        missing = _missing(values == 0 if column.kind is Kind.INSTANT else values < 0) if column.nullable else None
        if column.kind is Kind.INSTANT:
            return pa.array(values.view("datetime64[us]"), pa.timestamp("us", tz="UTC"), mask=missing)
        return pa.array(values, TYPES[column.kind], mask=missing)

    def _same_number(self, value: int, column: Column) -> pa.Array:
        kind = TYPES[column.kind]
        if column.nullable and value < 0:
            return pa.nulls(self.rows, kind)
        return pa.array(np.full(self.rows, value, np.int32 if column.kind is Kind.INT else np.int64), kind)

    def _text_array(self, column: Column) -> pa.Array:
        """Codes of all batches become codes of one dictionary: each text that is used at all is looked at once."""
        is_field = column.name in _DTYPES[self.table]
        field, text_of = (column.name, _as_it_is) if is_field else _TEXTS[column.name]
        if field == "client":
            text_of = self._hashed
        if (only := self._only_text(field)) is not None:
            # The usual case: one service, no other brokers, no errors.
            return self._constant(text_of(only) if only else b"", column)
        codes: Array = self._rows(self._values(field)) + self._of_each_piece(self._texts_from)
        known: dict[bytes, int] = {}
        code_of: dict[bytes, int] = {b"": -1}
        ours = np.empty(len(self._texts), np.int32)
        for code in np.flatnonzero(np.bincount(codes)).tolist():
            text = self._texts[code]
            if text not in code_of:
                meant = text_of(text)
                code_of[text] = known.setdefault(meant, len(known)) if meant else -1
            ours[code] = code_of[text]
        values = ours.take(codes)
        missing = _missing(values < 0)
        if missing is None or column.nullable:
            return _dictionary(values, list(known), missing)
        # A missing text in a column that is not nullable becomes an empty one.
        return _dictionary(np.where(missing, np.int32(len(known)), values), [*known, b""])

    def _only_text(self, field: str) -> bytes | None:
        """The one text that all rows have, if there is one."""
        found: set[bytes] = set()
        for piece, begin in zip(self._pieces, self._texts_from, strict=True):
            code = piece[field]
            if not isinstance(code, int):
                return None
            found.add(self._texts[begin + code])
        return found.pop() if len(found) == 1 else None

    def _constant(self, text: bytes, column: Column) -> pa.Array:
        """The same text in all rows, or none."""
        if column.nullable and not text:
            return pa.nulls(self.rows, pa.dictionary(pa.int32(), pa.string()))
        return _dictionary(np.zeros(self.rows, np.int32), [text])

    def _hashed(self, client: bytes) -> bytes:
        """An anonymous name for a client's connection: without knowing this boot, nobody can find it by trying."""
        return hashlib.blake2b(client, digest_size=8, key=self._salt[:64]).hexdigest().encode()

    def _message_ids(self, numbers: Array) -> pa.Array:
        own = numbers >= 0
        if own.all():
            return _own_ids(numbers, self._head)
        numbers = np.where(own, numbers, numbers - self._of_each_piece(self._ids_from))
        foreign = _plain_texts(self._ids)
        if not own.any():
            return foreign.take(pa.array(-1 - numbers))
        both = pa.concat_arrays([_own_ids(numbers[own], self._head), foreign])
        place = np.where(own, np.cumsum(own) - 1, int(own.sum()) - 1 - numbers)
        return both.take(pa.array(place))


def warm_up() -> None:
    """With its first array, Arrow loads pandas if it is installed, which takes a while."""
    pa.array(np.zeros(1), mask=np.zeros(1, bool))


def wall_us(monotonic_ns: Values, batch: Batch) -> Values:
    return (monotonic_ns + _shift_ns(batch)) // 1000


def span_us(monotonic_ns: Values, batch: Batch) -> tuple[int, int]:
    """The first and the last of these instants in wall-clock time."""
    first_ns, last_ns = _ends(monotonic_ns)
    return (first_ns + _shift_ns(batch)) // 1000, (last_ns + _shift_ns(batch)) // 1000


def _shift_ns(batch: Batch) -> int:
    """What to add to get from the monotonic clock to the wall clock."""
    return batch.wall_us * 1000 - batch.monotonic_ns


def _durations(arrived: Array, assigned: Array, ended: Array) -> Columns:
    """To be called while instants are still on the monotonic clock."""
    given = assigned > 0
    return {
        "queue_ns": np.maximum(np.where(given, assigned, ended) - arrived, 0),
        "service_ns": np.where(given, np.maximum(ended - assigned, 0), -1),
        "total_ns": np.maximum(ended - arrived, 0),
    }


def _on_the_wall(monotonic_ns: Array, shifts_ns: Values) -> Array:
    """Wall-clock time in microseconds; missing instants stay 0."""
    there = monotonic_ns > 0
    wall = (monotonic_ns + shifts_ns) // 1000
    return wall if there.all() else np.where(there, wall, 0)


def _missing(rows: Array) -> Array | None:
    return rows if rows.any() else None


def _own_ids(numbers: Array, head: bytes) -> pa.Array:
    """Each is `head` without its quote, and the number as twelve hexadecimal digits."""
    beginning = head[1:]
    whole = np.dtype([("beginning", f"V{len(beginning)}"), ("high", "<u4"), ("middle", "<u4"), ("low", "<u4")])
    letters = np.empty(len(numbers), whole)
    letters["beginning"] = np.void(beginning)
    for name, bits in (("high", 32), ("middle", 16), ("low", 0)):
        letters[name] = _HEX.take(numbers >> bits & 0xFFFF)
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * whole.itemsize
    return pa.Array.from_buffers(pa.string(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(letters)])


def _plain_texts(texts: list[bytes]) -> pa.Array:
    """JSON strings, decoded."""
    if any(b"\\" in text for text in texts):
        return pa.array([msgspec.json.decode(text, type=str) for text in texts], pa.string())
    return pc.utf8_trim(pa.array(texts, pa.binary()).cast(pa.string()), '"')


def _dictionary(codes: Array, texts: list[bytes], missing: Array | None = None) -> pa.Array:
    meanings = pa.array([text.decode("utf-8", "replace") for text in texts], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32(), mask=missing), meanings, safe=False)


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


#: Columns that are not fields of a record: the field that each is made from, and how.
_TEXTS: Final[dict[str, tuple[str, Callable[[bytes], bytes]]]] = {
    "outcome": ("tail", _outcome),
    "reason": ("tail", _reason),
}

assert set(LAYOUTS) == set(schema.TABLES)
assert all(schema_of(table) for table in schema.TABLES)
