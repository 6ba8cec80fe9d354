"""Rows of a DataFrame as bodies of tasks, and bodies as rows: bytes as they are, JSON, or Arrow IPC.

A body holds one row, or, with JSON (an array) and Arrow (a stream), several. Rows are Arrow's record batches. With JSON
a row of one column is that value itself, and a row of several is an object. Knows no job of Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict, get_args

import msgspec
import pyarrow as pa
import pyarrow.types as kinds

from famulus.errors import SettingsError

CodecName = Literal["bytes", "json", "arrow"]

#: What is wrong with some rows, by their places.
Bad = dict[int, str]


class BadBody(ValueError):
    """A body is not what it should be; the sentence says why."""


class Codec(ABC):
    #: Whether a body may hold more than one row.
    holds_many = True

    def __init__(self, schema: pa.Schema) -> None:
        """The columns that its bodies have. Raises a SettingsError if there are none, or it cannot write them."""
        if not schema.names:
            raise SettingsError("a body needs at least one column")
        self.schema = schema

    @abstractmethod
    def encode(self, rows: pa.RecordBatch) -> bytes:
        """One body that holds all of these rows."""

    @abstractmethod
    def decode(self, body: bytes) -> pa.RecordBatch:
        """The rows in a body that may hold several. Raises BadBody."""

    def encode_each(self, rows: pa.RecordBatch) -> list[bytes]:
        """A body for each row."""
        return [self.encode(rows.slice(place, 1)) for place in range(rows.num_rows)]

    @abstractmethod
    def decode_one(self, body: bytes) -> pa.RecordBatch:
        """The row in a body that holds one. Raises BadBody."""

    def decode_each(self, bodies: Sequence[bytes | None]) -> tuple[pa.RecordBatch, Bad]:
        """A row for each body: of nulls where there is no body, or a bad one."""
        rows, bad = [], {}
        for place, body in enumerate(bodies):
            row = None
            try:
                row = None if body is None else self.decode_one(body)
            except BadBody as error:
                bad[place] = str(error)
            rows.append(self.nulls(1) if row is None else row)
        return self.joined(rows), bad

    def nulls(self, count: int) -> pa.RecordBatch:
        return pa.record_batch([pa.nulls(count, field.type) for field in self.schema], schema=self.schema)

    def joined(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        if len(batches) == 1:
            return batches[0]
        columns = [
            pa.concat_arrays([pa.array([], field.type), *(each.column(place) for each in batches)])
            for place, field in enumerate(self.schema)
        ]
        return pa.record_batch(columns, schema=self.schema)


class PlainBytes(Codec):
    """One column of binary or text, as it is."""

    holds_many = False

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__(schema)
        if len(schema) != 1 or not (_is_binary(schema.types[0]) or _is_text(schema.types[0])):
            told = ", ".join(f"{field.name} {field.type}" for field in schema)
            raise SettingsError(f'the codec "bytes" takes one column of binary or string, not: {told}')

    def encode(self, rows: pa.RecordBatch) -> bytes:
        return self.encode_each(rows)[0]

    def encode_each(self, rows: pa.RecordBatch) -> list[bytes]:
        column = rows.column(0)
        found: list[bytes] = (column if _is_binary(column.type) else column.cast(pa.binary())).to_pylist()
        return found

    def decode(self, body: bytes) -> pa.RecordBatch:
        return self.decode_one(body)

    def decode_one(self, body: bytes) -> pa.RecordBatch:
        try:
            return self._rows([body])
        except pa.ArrowInvalid:
            raise BadBody("is not text in UTF-8") from None

    def decode_each(self, bodies: Sequence[bytes | None]) -> tuple[pa.RecordBatch, Bad]:
        try:
            return self._rows(bodies), {}
        except pa.ArrowInvalid:
            return super().decode_each(bodies)

    def _rows(self, bodies: Sequence[bytes | None]) -> pa.RecordBatch:
        column = pa.array(bodies, type=pa.binary())
        return pa.record_batch([column.cast(self.schema.types[0])], schema=self.schema)


class JsonValues(Codec):
    """Any language can read it. A value has to be of the column's type: no text for a number, no half for an int."""

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__(schema)
        row = _object(schema)
        #: A single column comes as its value, or as an object with its name.
        self._name = schema.names[0] if len(schema) == 1 else None
        one = row if self._name is None else _json_type(schema.field(0).type, self._name)
        self._decode = msgspec.json.Decoder(one).decode
        self._decode_many = msgspec.json.Decoder(list[one]).decode  # type: ignore[valid-type]
        self._decode_row = msgspec.json.Decoder(_object(schema, needed=True)).decode

    def encode(self, rows: pa.RecordBatch) -> bytes:
        return msgspec.json.encode(self._values(rows))

    def encode_each(self, rows: pa.RecordBatch) -> list[bytes]:
        encode = msgspec.json.Encoder().encode
        return [encode(value) for value in self._values(rows)]

    def decode(self, body: bytes) -> pa.RecordBatch:
        try:
            return self._rows(self._decode_many(body))
        except _JSON_ERRORS as error:
            raise BadBody(_plain(error)) from None

    def decode_one(self, body: bytes) -> pa.RecordBatch:
        try:
            return self._rows([self._value(body)])
        except _JSON_ERRORS as error:
            raise BadBody(_plain(error)) from None

    def decode_each(self, bodies: Sequence[bytes | None]) -> tuple[pa.RecordBatch, Bad]:
        try:
            return self._rows([None if body is None else self._value(body) for body in bodies]), {}
        except _JSON_ERRORS:
            return super().decode_each(bodies)  # which of them it was

    def _value(self, body: bytes) -> Any:
        try:
            return self._decode(body)
        except _JSON_ERRORS:
            if self._name is None:
                raise
            with suppress(*_JSON_ERRORS):
                return self._decode_row(body)[self._name]
            raise  # what is wrong with the value says more

    def _values(self, rows: pa.RecordBatch) -> list[Any]:
        if self._name is not None:
            found: list[Any] = rows.column(0).to_pylist(maps_as_pydicts="strict")
            return found
        return rows.to_struct_array().to_pylist(maps_as_pydicts="strict")  # type: ignore[no-any-return]

    def _rows(self, values: list[Any]) -> pa.RecordBatch:
        if self._name is not None:
            return pa.record_batch([pa.array(values, self.schema.types[0])], schema=self.schema)
        columns = [
            pa.array([None if value is None else value.get(field.name) for value in values], field.type)
            for field in self.schema
        ]
        return pa.record_batch(columns, schema=self.schema)


#: A stream ends with a length of 0, after four bytes that all its messages begin with.
_END_BYTES: Final = 8


class ArrowStream(Codec):
    """A stream of Arrow's IPC format. Columns are found by name; their types may be others that fit into ours."""

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__(schema)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema):
            pass
        empty = sink.getvalue().to_pybytes()
        #: What is before and after the rows in each stream.
        self._begin, self._end = empty[:-_END_BYTES], empty[-_END_BYTES:]

    def encode(self, rows: pa.RecordBatch) -> bytes:
        # Quicker than a writer of Arrow's, which writes the schema each time, into memory that has to grow.
        return b"".join((self._begin, rows.serialize(), self._end))

    def decode(self, body: bytes) -> pa.RecordBatch:
        try:
            with pa.ipc.open_stream(body) as stream:
                table = stream.read_all()
            # Whoever has sent it could have said that a text begins where no memory is.
            table.validate(full=True)
            if missing := [name for name in self.schema.names if name not in table.column_names]:
                raise BadBody(f"has no column {', '.join(missing)}, only {', '.join(table.column_names) or 'none'}")
            if table.schema != self.schema:
                table = table.select(self.schema.names).cast(self.schema)
            return self.joined(table.to_batches())
        except (pa.ArrowException, OSError) as error:
            raise BadBody(_plain(error)) from None

    def decode_one(self, body: bytes) -> pa.RecordBatch:
        rows = self.decode(body)
        if rows.num_rows != 1:
            raise BadBody(f"has {rows.num_rows} rows instead of 1")
        return rows


_CODECS: Final[dict[str, type[Codec]]] = {"bytes": PlainBytes, "json": JsonValues, "arrow": ArrowStream}


def codec(name: str, schema: pa.Schema) -> Codec:
    """The codec of this name for bodies that have these columns."""
    if name not in _CODECS:
        raise SettingsError(f"codec: must be one of {', '.join(get_args(CodecName))}, not {name!r}")
    return _CODECS[name](schema)


# -- types that JSON has, or has a way to write ---------------------------------------------------------------------

_JSON_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, pa.ArrowException, OverflowError)

_PLAIN: Final[tuple[tuple[Any, Any], ...]] = (
    (kinds.is_boolean, bool),
    (kinds.is_floating, float),
    (kinds.is_date, date),
    (kinds.is_decimal, Decimal),
    (lambda kind: _is_text(kind), str),
    # As base64.
    (lambda kind: _is_binary(kind), bytes),
)


def _json_type(kind: pa.DataType, where: str) -> Any:
    """What msgspec reads for a column of this type, or a part of it; all of it may be null."""
    for is_it, plain in _PLAIN:
        if is_it(kind):
            return plain | None
    if kinds.is_signed_integer(kind):
        bound = 2 ** (kind.bit_width - 1)
        return Annotated[int, msgspec.Meta(ge=-bound, le=bound - 1)] | None
    if kinds.is_timestamp(kind):
        return Annotated[datetime, msgspec.Meta(tz=kind.tz is not None)] | None
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return list[_json_type(kind.value_type, f"{where}[]")] | None  # type: ignore[misc]
    if kinds.is_struct(kind):
        return _object(kind, where=f"{where}.") | None
    if kinds.is_map(kind) and _is_text(kind.key_type):
        return dict[str, _json_type(kind.item_type, f"{where}{{}}")] | None  # type: ignore[misc]
    raise SettingsError(f'{where} is a {kind}, which JSON has no way to write; the codec "arrow" has')


def _object(fields: pa.Schema | pa.StructType, *, where: str = "", needed: bool = False) -> Any:
    """An object with these fields; without `needed` they may be missing, and others may be there."""
    found = {field.name: _json_type(field.type, where + field.name) for field in fields}
    return TypedDict("Row", found if needed else {name: NotRequired[kind] for name, kind in found.items()})  # type: ignore[operator]


def _is_text(kind: pa.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(kinds.is_binary(kind) or kinds.is_large_binary(kind))


def _plain(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
