"""Rows as bodies, and answers as rows."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from famulus.errors import SettingsError
from famulus.spark.codecs import BadBody, codec

TEXT = pa.schema({"text": pa.string()})
PAIR = pa.schema({"a": pa.int64(), "b": pa.string()})
MANY_TYPES = pa.schema(
    {
        "flag": pa.bool_(),
        "small": pa.int16(),
        "number": pa.float32(),
        "price": pa.decimal128(10, 2),
        "day": pa.date32(),
        "at": pa.timestamp("us", tz="UTC"),
        "data": pa.binary(),
        "words": pa.list_(pa.string()),
        "by_name": pa.map_(pa.string(), pa.int64()),
        "inner": pa.struct({"x": pa.float64()}),
    }
)
ONE_OF_EACH: list[dict[str, Any]] = [
    {
        "flag": True,
        "small": -7,
        "number": 0.5,
        "price": Decimal("12.30"),
        "day": date(2026, 11, 19),
        "at": datetime(2026, 11, 19, 4, 5, 6, tzinfo=UTC),
        "data": b"\x00\xff",
        "words": ["one", None],
        "by_name": [("k", 1)],
        "inner": {"x": None},
    },
    dict.fromkeys(MANY_TYPES.names),
]


def batch(schema: pa.Schema, *rows: tuple[object, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def test_bytes_are_text_or_binary_as_they_are() -> None:
    text = codec("bytes", TEXT)
    assert text.encode_each(batch(TEXT, ("ä",), (None,))) == ["ä".encode(), None]
    rows, bad = text.decode_each([b"one", None, b"\xff"])
    assert rows.column(0).to_pylist() == ["one", None, None]
    assert bad == {2: "is not text in UTF-8"}
    data = codec("bytes", pa.schema({"answer": pa.binary()}))
    assert data.decode_each([b"\xff", None])[0].column(0).to_pylist() == [b"\xff", None]


@pytest.mark.parametrize("name", ["json", "arrow"])
def test_rows_of_all_types_come_back_as_they_were(name: str) -> None:
    rows = pa.RecordBatch.from_pylist(ONE_OF_EACH, MANY_TYPES)
    found = codec(name, MANY_TYPES)
    assert found.decode(found.encode(rows)).to_pylist() == ONE_OF_EACH
    one_by_one, bad = found.decode_each(found.encode_each(rows))
    assert (one_by_one.to_pylist(), bad) == (ONE_OF_EACH, {})


def test_json_of_one_column_is_its_value() -> None:
    number = codec("json", pa.schema({"score": pa.float64()}))
    assert number.encode_each(batch(number.schema, (1.5,), (None,))) == [b"1.5", b"null"]
    assert number.encode(batch(number.schema, (1.5,), (2.0,))) == b"[1.5,2.0]"
    rows, bad = number.decode_each([b"1", b'{"score":2.5}', b'"3"', b'{"other":1}', b"{", None])
    assert rows.column(0).to_pylist() == [1.0, 2.5, None, None, None, None]
    assert [*bad] == [2, 3, 4]
    assert bad[2] == "Expected `float | null`, got `str`"


def test_json_of_several_columns_is_an_object() -> None:
    pair = codec("json", PAIR)
    assert pair.encode_each(batch(PAIR, (1, "x"))) == [b'{"a":1,"b":"x"}']
    rows, bad = pair.decode_each([b'{"b":"x","c":0,"a":1}', b"{}", b'{"a":"1"}', b'{"a":9223372036854775808}'])
    assert rows.to_pylist() == [{"a": 1, "b": "x"}, *[{"a": None, "b": None}] * 3]
    assert bad[2] == "Expected `int | null`, got `str` - at `$.a`"
    assert "9223372036854775807" in bad[3]


def test_what_does_not_fit_into_its_column_is_bad_alone() -> None:
    price = codec("json", pa.schema({"price": pa.decimal128(5, 2)}))
    rows, bad = price.decode_each([b"1.25", b"1.125", b"99999.5"])
    assert rows.column(0).to_pylist() == [Decimal("1.25"), None, None]
    assert [*bad] == [1, 2]


def test_columns_of_arrow_are_found_by_name_and_cast() -> None:
    pair = codec("arrow", PAIR)
    other = pa.record_batch({"b": ["x"], "c": [0.5], "a": pa.array([1], pa.int8())})
    assert pair.decode(_stream_of(other)).to_pylist() == [{"a": 1, "b": "x"}]
    with pytest.raises(BadBody, match="has no column b, only a"):
        pair.decode(_stream_of(other.select(["a"])))
    with pytest.raises(BadBody):
        pair.decode(b"nonsense")
    with pytest.raises(BadBody):
        pair.decode(_stream_of(pa.record_batch({"a": ["no number"], "b": ["x"]})))
    assert pair.decode_each([_stream_of(other), b"", None])[1].keys() == {1}


def test_a_body_of_arrow_is_what_a_writer_of_arrow_makes() -> None:
    rows = batch(PAIR, (1, "x"), (None, "y"), (3, None))
    for part in (rows, rows.slice(1, 1), rows.slice(3)):
        assert codec("arrow", PAIR).encode(part) == _stream_of(part)


def _stream_of(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(sink.getvalue())


def test_a_stream_that_lies_about_its_texts_is_bad() -> None:
    text = codec("arrow", TEXT)
    body = text.encode(batch(TEXT, ("x" * 77,)))
    before, ends, after = body.rpartition(bytes([0, 0, 0, 0, 77, 0, 0, 0]))
    with pytest.raises(BadBody):
        text.decode(before + ends[:-1] + b"\1" + after)
    for length in range(len(body) - 8):  # of these eight bytes none is needed
        with pytest.raises(BadBody):
            text.decode_one(body[:length])


def test_a_stream_of_one_row_has_one_row() -> None:
    text = codec("arrow", TEXT)
    with pytest.raises(BadBody, match="has 2 rows instead of 1"):
        text.decode_one(text.encode(batch(TEXT, ("one",), ("two",))))


@pytest.mark.parametrize(
    ("name", "schema", "said"),
    [
        ("bytes", PAIR, "one column of binary or string, not: a int64, b string"),
        ("bytes", pa.schema({"a": pa.int64()}), "one column of binary or string"),
        ("json", pa.schema({"a": pa.list_(pa.map_(pa.int64(), pa.string()))}), r"a\[\] is a map"),
        ("json", pa.schema({"a": pa.struct({"b": pa.duration("us")})}), "a.b is a duration"),
        ("json", pa.schema([]), "at least one column"),
        ("xml", TEXT, "codec: must be one of bytes, json, arrow, not 'xml'"),
    ],
)
def test_what_a_codec_cannot_do_is_said_at_once(name: str, schema: pa.Schema, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        codec(name, schema)
