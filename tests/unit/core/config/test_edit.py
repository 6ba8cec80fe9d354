"""Edits: one way to write each of them, and nothing else is read."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from famulus.core.config import edit
from famulus.core.config.edit import Edit, SignedEdit
from famulus.errors import ProtocolError
from famulus.wire import limits

A, B = "a" * 64, "b" * 64
FIELDS: dict[str, Any] = {
    "network": A,
    "key": "family/x",
    "op": "PUT",
    "value": {"a": "é", "b": [1, 2.5, None, True]},
    "parents": (A, B),
    "author": "ann",
    "broker": "b1",
    "grant": B,
    "hlc": 7,
    "nonce": "0123456789abcdef",
}
EDIT = Edit(**FIELDS)
DATA = (
    f'{{"network":"{A}","key":"family/x","op":"PUT","value":{{"a":"é","b":[1,2.5,null,true]}},"parents":["{A}","{B}"],'
    f'"author":"ann","broker":"b1","grant":"{B}","hlc":7,"nonce":"0123456789abcdef"}}'
).encode()


def changed(**fields: Any) -> bytes:
    """The bytes of an edit that differs in these fields, as if somebody careless had written them."""
    return json.dumps({**FIELDS, **fields}, separators=(",", ":"), ensure_ascii=False).encode()


def test_an_edit_is_written_in_one_way_and_read_back() -> None:
    assert edit.write(EDIT) == DATA == changed()
    assert edit.write(msgspec.structs.replace(EDIT, value={"b": [1, 2.5, None, True], "a": "é"})) == DATA
    assert edit.read(DATA) == EDIT


def test_its_id_is_the_hash_of_its_bytes_and_the_signature_is_over_them_and_what_they_are() -> None:
    signed = edit.sign(EDIT, lambda message: message[:20])
    assert signed == SignedEdit(DATA, b'famulus edit 1\n{"net')
    assert signed.id == sha256(DATA).hexdigest()
    assert signed.edit == EDIT


@pytest.mark.parametrize(
    "data",
    [
        DATA + b" ",
        b" " + DATA,
        DATA.replace(b":7", b": 7"),
        DATA.replace(b":7", b":7.0"),
        DATA.replace(b":7", b":07"),
        DATA.replace(b"2.5", b"2.50"),
        DATA.replace(b"2.5", b"25e-1"),
        DATA.replace(b'"a":"\xc3\xa9"', b'"a":"\\u00e9"'),
        DATA.replace(b'"ann"', b'"\\u0061nn"'),
        DATA.replace(b'"hlc":7', b'"hlc":7,"hlc":7'),
        DATA.replace(b'"a":"\xc3\xa9"', b'"a":1,"a":"\xc3\xa9"'),
        DATA.replace(b'{"a":"\xc3\xa9","b":[1,2.5,null,true]}', b'{"b":[1,2.5,null,true],"a":"\xc3\xa9"}'),
        DATA.replace(b'"hlc":7,"nonce":"0123456789abcdef"', b'"nonce":"0123456789abcdef","hlc":7'),
        DATA.replace(b'"hlc":7', b'"hlc":7,"more":1'),
    ],
)
def test_the_same_in_other_words_is_refused(data: bytes) -> None:
    assert data != DATA
    with pytest.raises(ProtocolError, match="bad_edit"):
        edit.read(data)


@pytest.mark.parametrize(
    "fields",
    [
        {"network": "A" * 64},
        {"network": A + "\n"},
        {"network": A[1:]},
        {"key": ""},
        {"key": "a\nb"},
        {"key": "k" * (edit.KEY_CHARS_MAX + 1)},
        {"op": "SET"},
        {"op": "DEL"},
        {"op": "DEL", "value": False},
        {"parents": [B, A]},
        {"parents": [A, A]},
        {"parents": ["a"]},
        {"parents": [f"{number:064x}" for number in range(edit.PARENTS_MAX + 1)]},
        {"author": ""},
        {"author": "a" * 256},
        {"author": "a\x7f"},
        {"broker": "b\x00"},
        {"grant": "b"},
        {"hlc": -1},
        {"hlc": 2**53},
        {"hlc": True},
        {"nonce": "0123"},
        {"nonce": "0123456789ABCDEF"},
        {"nonce": "0" * 65},
        {"value": 2**53},
        {"value": -(2**53)},
        {"value": {"deep": [{"a": 2**53}]}},
        {"value": float("nan")},
        {"value": float("inf")},
    ],
)
def test_what_breaks_a_limit_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="bad_edit"):
        edit.read(changed(**fields))


def test_what_is_just_within_the_limits_is_read() -> None:
    nested: Any = 1
    for _ in range(edit.VALUE_NESTING_MAX):
        nested = [nested]
    longest = "x" * (edit.VALUE_BYTES_MAX - 2)
    values: list[Any] = [nested, {}, None, 0.1, limits.INTEGER_MAX, -limits.INTEGER_MAX, longest]
    for value in values:
        assert edit.read(changed(value=value)).value == value
    with pytest.raises(ProtocolError, match="nested"):
        edit.read(changed(value=[nested]))
    with pytest.raises(ProtocolError, match="too_large"):
        edit.read(changed(value="x" * (edit.VALUE_BYTES_MAX - 1)))


def test_the_largest_edit_has_room() -> None:
    largest = changed(
        key='"' * edit.KEY_CHARS_MAX,
        author="🙂" * limits.NAME_CHARS_MAX,
        broker="🙂" * limits.NAME_CHARS_MAX,
        value="x" * (edit.VALUE_BYTES_MAX - 2),
        parents=[f"{number:064x}" for number in range(edit.PARENTS_MAX)],
        hlc=limits.INTEGER_MAX,
        nonce="0" * 64,
    )
    assert len(edit.read(largest).parents) == edit.PARENTS_MAX
    with pytest.raises(ProtocolError, match="too_large"):
        edit.read(b" " * (edit.EDIT_BYTES_MAX + 1))


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"null", b"{}", b"\xff", b"[" * 100_000, b'{"value":' * 20_000, DATA[:-1], DATA + DATA]
)
def test_rubbish_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        edit.read(data)


@pytest.mark.parametrize(
    "value",
    [
        b"bytes",
        (1, 2),
        {1, 2},
        {1: "a"},
        float("nan"),
        float("-inf"),
        2**53,
        2**70,
        "\ud800",
        object(),
        [object()],
        {"a": (1,)},
    ],
)
def test_what_is_no_json_value_is_not_written(value: object) -> None:
    with pytest.raises(ProtocolError, match="bad_edit"):
        edit.write(msgspec.structs.replace(EDIT, value=value))


def test_a_value_that_holds_itself_is_not_written() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ProtocolError, match="cannot be written"):
        edit.write(msgspec.structs.replace(EDIT, value=endless))


def test_an_edit_against_the_limits_is_not_written() -> None:
    with pytest.raises(ProtocolError):
        edit.write(msgspec.structs.replace(EDIT, parents=(B, A)))
    with pytest.raises(ProtocolError):
        edit.write(msgspec.structs.replace(EDIT, nonce="short"))
