"""What people type becomes a value, or one sentence that says why not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from famulus.admin import typed
from famulus.errors import SettingsError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5.5", -5.5),
        ("true", True),
        ("null", None),
        ("hello", "hello"),
        ("hello world", "hello world"),
        ('"5"', "5"),
        ('"a=b"', "a=b"),
        ("[1, 2]", [1, 2]),
        ('{"a": {"b": []}}', {"a": {"b": []}}),
        ("NaN", "NaN"),
        ("1.2.3.4", "1.2.3.4"),
        ("", ""),
    ],
)
def test_a_value_is_json_or_else_a_text(text: str, value: Any) -> None:
    read = typed.read([text], UNSET)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize("text", ["{", "[1,", '"a', "{'a': 1}", '{"a": 1, "a": 2}', "[NaN]", "[" * 100_000])
def test_what_looks_like_json_must_be_json(text: str) -> None:
    with pytest.raises(SettingsError):
        typed.read_value(text)


@pytest.mark.parametrize(
    ("present", "words", "value"),
    [
        (UNSET, ["a=1", "b=x"], {"a": 1, "b": "x"}),
        ({"a": 1, "b": 2}, ["a=3"], {"a": 3, "b": 2}),
        ({"a": 1, "b": 2}, ["a="], {"b": 2}),
        ({"a": 1}, ['a=""'], {"a": ""}),
        ({"a": {"b": 1, "c": 2}}, ["a.b=5"], {"a": {"b": 5, "c": 2}}),
        ({}, ["a.b.c=5"], {"a": {"b": {"c": 5}}}),
        ({"a": {"b": 1}}, ["a.b="], {"a": {}}),
        ({"a": 1}, ["a=x=y"], {"a": "x=y"}),
        ({"a": 1}, ["a=1", "a=2"], {"a": 2}),
        ({}, ["services=[1,2]", "t=line\nline"], {"services": [1, 2], "t": "line\nline"}),
    ],
)
def test_fields_are_changed_in_what_there_is(present: Any, words: list[str], value: Any) -> None:
    assert typed.read(words, present) == value


def test_what_was_there_is_left_as_it_was() -> None:
    present = {"a": {"b": 1}}
    typed.read(["a.b=2", "c=3"], present)
    assert present == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("present", "words", "sentence"),
    [
        ("text", ["a=1"], "has no fields"),
        (None, ["a=1"], "has no fields"),
        ({"a": 1}, ["a.b=1"], "'a' is not an object"),
        ({}, ["a="], "no such field"),
        ({}, ["a=1", "b"], "one value"),
        ({}, [], "one value"),
        ({}, ["a={"], "looks like JSON"),
    ],
)
def test_a_field_that_cannot_be_changed(present: Any, words: list[str], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        typed.read(words, present)
