"""What people read is on one line, and does nothing to their terminals."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from famulus.cli.admin import words
from famulus.core.config.draft import FieldChange, Moved
from famulus.core.config.effective import Notice
from famulus.core.steward.answers import Key, KeyHistory, PastEdit, Shown

EVIL = "\x1b[2J\x07\u202e\x9b"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"b": 1, "a": "x"}, "a=x b=1"),
        ({"a": {"c": 1, "b": [1, 2]}}, 'a={"b":[1,2],"c":1}'),
        ({"a": "two words", "b": "", "c": True, "d": None}, 'a="two words" b="" c=true d=null'),
        ({}, "{}"),
        ("text", "text"),
        ("", '""'),
        (5, "5"),
        (UNSET, "-"),
        ({"a": "é"}, "a=é"),
        ({"a": "x" * 100}, "a=" + "x" * 37 + "..."),
        ("x" * 200, "x" * 97 + "..."),
    ],
)
def test_a_value_in_words(value: Any, said: str) -> None:
    assert words.value_words(value) == said


def test_nothing_from_the_network_reaches_the_terminal_as_it_is() -> None:
    past = KeyHistory(EVIL, (PastEdit("a" * 64, "PUT", {EVIL: EVIL}, (), EVIL, EVIL),))
    shown = Shown("n", EVIL, 1, "d", {EVIL: Key("PUT", EVIL, ())}, (EVIL,), (Notice(EVIL, EVIL),))
    lines = [
        *words.history_lines(past),
        *words.shown_lines(shown, deleted=True),
        *words.moved_lines([Moved(EVIL, (EVIL,), (FieldChange(EVIL, EVIL, {EVIL: 1}),), (EVIL,))]),
        *words.difference_lines([FieldChange(EVIL, EVIL, [EVIL])], "a", "b"),
    ]
    assert len(lines) > 8
    for line in lines:
        assert line.isprintable(), line


def test_columns_are_lined_up_and_nothing_is_cut_off() -> None:
    assert words.columns([("a", "bb", "c"), ("aaa", "b", "")]) == ["  a    bb  c", "  aaa  b"]
    assert words.columns([]) == []


def test_instants_are_in_utc_and_absurd_ones_do_no_harm() -> None:
    assert words.instant(1_767_225_600_000) == "2026-01-01 00:00:00Z"
    assert words.instant(10**18) == "1000000000000000000 ms"
