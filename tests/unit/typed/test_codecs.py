"""Values to bodies and back: which types there are codecs for, and what is said about a body that does not fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from famulus import Service
from famulus.errors import SettingsError
from famulus.typed.codecs import JSON, MSGPACK, BadValue, Reader, encode, known


class Inner(msgspec.Struct):
    width: int
    more: list[Inner] = []


@dataclasses.dataclass
class Point:
    x: float
    y: float


class Connection:
    """Something that only lives in one process."""


@pytest.mark.parametrize("content_type", [JSON, MSGPACK])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, 5),
        (type(None), None),
        (list[str], ["a", "b"]),
        (dict[str, float], {"a": 1.5}),
        (bytes, b"\x00\xff"),
        (datetime, datetime(2026, 1, 1, tzinfo=UTC)),
        (Point, Point(1.0, 2.0)),
        (Inner, Inner(1, [Inner(2)])),
        (Inner | None, None),
        (Any, {"a": [1, None]}),
    ],
)
def test_a_value_comes_back_as_it_was(kind: Any, value: Any, content_type: str) -> None:
    assert Reader(kind).read(encode(value, content_type), content_type) == value


@pytest.mark.parametrize(
    "kind",
    [Connection, list[Connection], Callable[[], None], dict[str, Connection | None], object, Point | Inner],
    ids=str,
)
def test_a_type_without_a_codec_is_refused_at_once(kind: Any) -> None:
    with pytest.raises(SettingsError, match="no codec has"):
        Reader(kind)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"width":"x"}', "width: expected int, got str"),
        (b'{"width":1,"more":[{"width":null}]}', r"more\[0\]\.width: expected int, got null"),
        (b"{}", "width: missing"),
        (b'{"width":1,"more":[{}]}', r"more\[0\]\.width: missing"),
        (b"[]", "expected object, got array"),
        (b'{"width"', "Input data was truncated"),
        (b"", "Input data was truncated"),
        (b"\xff", "JSON is malformed"),
        (b'{"more":' + b"[" * 100_000, ""),
    ],
)
def test_what_does_not_fit_is_said_for_people(body: bytes, sentence: str) -> None:
    with pytest.raises(BadValue, match=f"^{sentence}"):
        Reader(Inner).read(body, JSON)


def test_a_content_type_may_have_parameters() -> None:
    assert known("Application/JSON; charset=utf-8") == JSON
    with pytest.raises(BadValue, match="text/plain, and must be application/json or application/msgpack"):
        known("text/plain")


def test_bytes_go_as_they_are() -> None:
    service = Service("raw", takes=bytes, gives=bytes, codec="bytes")
    assert service.argument.read(b"\xff", service.content_type) == b"\xff"
    assert encode(bytearray(b"\xff"), service.content_type) == b"\xff"
    with pytest.raises(TypeError, match="the codec is bytes, and this is int"):
        encode(5, service.content_type)


def test_a_service_that_could_never_be_called_is_refused() -> None:
    with pytest.raises(SettingsError, match="'open': no codec has a Connection"):
        Service("open", takes=Connection, gives=int)
    with pytest.raises(SettingsError, match="'open': no codec has a Connection"):
        Service("open", takes=int, gives=Connection)
    with pytest.raises(SettingsError, match="with the codec bytes it takes and gives bytes"):
        Service("open", takes=int, gives=bytes, codec="bytes")
    with pytest.raises(SettingsError, match="codec: must be one of json, msgpack, bytes, not 'xml'"):
        Service("open", takes=int, gives=int, codec="xml")  # type: ignore[call-overload]


def test_a_service_says_what_it_is() -> None:
    assert repr(Service("add", takes=list[int], gives=int)) == "Service('add', takes=list[int], gives=int)"
