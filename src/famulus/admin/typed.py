"""Values as people type them: JSON, plain text, or single fields to change."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from msgspec import UNSET

from famulus.errors import SettingsError

_FIELD: Final = re.compile(r"([A-Za-z_][\w.-]*)=(.*)", re.DOTALL)
#: A value that begins like this was meant as JSON, and is not silently taken as text.
_JSON_BEGINS: Final = ("{", "[", '"')


def read(words: Sequence[str], present: Any) -> Any:
    """The new value. `present` is the current one, or UNSET; single fields are changed in it."""
    fields = [match for word in words if (match := _FIELD.fullmatch(word)) is not None]
    if words and len(fields) == len(words):
        return change_fields(present, [(match[1], match[2]) for match in fields])
    if len(words) == 1:
        return read_value(words[0])
    raise SettingsError("give one value (in quotes, if it has spaces), or fields as NAME=VALUE")


def read_value(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except RecursionError:
        raise SettingsError("nested too deep") from None
    except ValueError as error:
        if text.lstrip().startswith(_JSON_BEGINS):
            raise SettingsError(f"this looks like JSON, but is not: {error}") from None
        return text


def change_fields(present: Any, fields: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The current value with these fields changed. An empty text removes a field; a dot leads into a nested object."""
    if present is UNSET:
        present = {}
    if not isinstance(present, dict):
        raise SettingsError("the present value has no fields: give the whole value")
    value: dict[str, Any] = present
    for name, text in fields:
        value = _changed(value, name.split("."), text, name)
    return value


def _changed(value: dict[str, Any], path: list[str], text: str, name: str) -> dict[str, Any]:
    """A copy, so that the broker's answer is not modified."""
    first, *rest = path
    if rest:
        inner = value.get(first, {})
        if not isinstance(inner, dict):
            raise SettingsError(f"{name}: {first!r} is not an object")
        return {**value, first: _changed(inner, rest, text, name)}
    if text:
        return {**value, first: read_value(text)}
    if first not in value:
        raise SettingsError(f"{name}: there is no such field to take away")
    return {field: each for field, each in value.items() if field != first}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key appears twice")
    return fields


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")
