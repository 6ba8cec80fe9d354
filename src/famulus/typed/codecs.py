"""How values become bodies and bodies become values: JSON, MessagePack, or bytes as they are.

The header of a task says which (`content_type`), and its answer is of the same content type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import inspect as shapes

from famulus.errors import SettingsError

CodecName = Literal["json", "msgpack", "bytes"]

JSON: Final = "application/json"
MSGPACK: Final = "application/msgpack"
#: Bytes as they are have none: their task is like any other.
CONTENT_TYPES: Final[dict[str, str]] = {"json": JSON, "msgpack": MSGPACK, "bytes": ""}

#: The body of a task without arguments.
NO_ARGUMENTS: Final = {JSON: b"{}", MSGPACK: b"\x80"}

_ENCODERS: Final[dict[str, Callable[[Any], bytes]]] = {
    JSON: msgspec.json.Encoder().encode,
    MSGPACK: msgspec.msgpack.Encoder().encode,
}


class BadValue(ValueError):
    """A body is not what it should be; the sentence says where and why."""


def content_type_of(codec: CodecName) -> str:
    if codec not in CONTENT_TYPES:
        raise SettingsError(f"codec: must be one of {', '.join(get_args(CodecName))}, not {codec!r}")
    return CONTENT_TYPES[codec]


def known(content_type: str) -> str:
    """The same content type as we write it; it may come with parameters, such as a charset."""
    plain = content_type.partition(";")[0].strip().lower()
    if plain not in (JSON, MSGPACK):
        raise BadValue(f"content_type is {content_type}, and must be {JSON} or {MSGPACK}")
    return plain


def encode(value: Any, content_type: str) -> bytes:
    """The body of a value. Raises a TypeError if there is no way to write it."""
    if content_type:
        return _ENCODERS[content_type](value)
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"the codec is bytes, and this is {type(value).__name__}")
    return bytes(value)


class Reader:
    """Reads values of one type, whatever the content type of their body is."""

    def __init__(self, kind: Any) -> None:
        """Raises a SettingsError if there are values of this type that could never be read."""
        try:
            # Also here, and not only when it is first used: msgspec may crash if two threads prepare a type at once.
            self._decoders: dict[str, Callable[[bytes], Any]] = {
                JSON: msgspec.json.Decoder(kind).decode,
                MSGPACK: msgspec.msgpack.Decoder(kind).decode,
            }
            unreadable = next(_unreadable(shapes.type_info(kind), set()), None)
        except (TypeError, NameError) as error:
            raise SettingsError(f"no codec has such a type: {error}") from None
        if unreadable is not None:
            raise SettingsError(f"no codec has a {unreadable}; use a dataclass, a msgspec.Struct or a plain type")

    def read(self, body: bytes, content_type: str) -> Any:
        """`content_type` is one that we write; without one, the body is the value."""
        if not content_type:
            return body
        try:
            return self._decoders[content_type](body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise BadValue(_sentence(str(error))) from None


def _sentence(told: str) -> str:
    """What msgspec says, as `width: expected int, got str`."""
    what, _, where = told.partition(" - at ")
    path = where.strip("`").removeprefix("$").removeprefix(".")
    for beginning, verdict in (
        ("Object missing required field ", "missing"),
        ("Object contains unknown field ", "unknown"),
    ):
        if what.startswith(beginning):
            field = what.removeprefix(beginning).strip("`")
            return f"{path}.{field}: {verdict}" if path else f"{field}: {verdict}"
    what = what.replace("`", "").replace("Expected", "expected", 1)
    return f"{path}: {what}" if path else what


def _unreadable(shape: Any, seen: set[Any]) -> Iterator[str]:
    """The names of classes in a type that msgspec has no way to read."""
    if isinstance(shape, shapes.CustomType):
        yield getattr(shape.cls, "__name__", str(shape.cls))
    elif isinstance(shape, tuple):
        for each in shape:
            yield from _unreadable(each, seen)
    elif isinstance(shape, shapes.Type | shapes.Field):
        # A type may contain itself.
        if (cls := getattr(shape, "cls", None)) is not None and not isinstance(shape, shapes.Field):
            if cls in seen:
                return
            seen.add(cls)
        for name in shape.__struct_fields__:
            if name not in ("default", "default_factory"):
                yield from _unreadable(getattr(shape, name), seen)
