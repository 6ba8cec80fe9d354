"""Abbreviated ids stand for exactly one edit, or for none."""

from __future__ import annotations

import pytest

from famulus.admin import ids
from famulus.errors import SettingsError

ONE = "abcdef" + "0" * 58
OTHER = "abcdef1" + "0" * 57
THIRD = "123456" + "0" * 58
ALL = [ONE, OTHER, THIRD]


@pytest.mark.parametrize(
    ("prefix", "found"), [("123456", THIRD), ("abcdef1", OTHER), ("ABCDEF0", ONE), (ONE, ONE), (THIRD[:63], THIRD)]
)
def test_a_unique_beginning_is_enough(prefix: str, found: str) -> None:
    assert ids.find(prefix, [*ALL, *ALL], "service/echo") == found


@pytest.mark.parametrize(
    ("prefix", "sentence"),
    [
        ("12345", "too short"),
        ("abcdef", f"begins 2 edits of service/echo: {ONE[:16]}, {OTHER[:16]}"),
        ("fedcba", "no edit of service/echo begins"),
        ("", "is not the id"),
        ("12345g", "is not the id"),
        (THIRD + "0", "is not the id"),
        ("123456\n", "is not the id"),
    ],
)
def test_anything_else_is_one_sentence(prefix: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        ids.find(prefix, ALL, "service/echo")
