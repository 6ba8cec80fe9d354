"""Drafts name all heads that were seen, in the order in which brokers compare them."""

from __future__ import annotations

from typing import Any

import pytest

from famulus.admin import drafts
from famulus.core.config.draft import Draft
from famulus.core.config.edit import PARENTS_MAX
from famulus.core.steward.answers import Head, Key, KeyHistory, PastEdit, Shown
from famulus.errors import FamulusError, SettingsError

ECHO = "service/echo"
A, B, C = (letter * 64 for letter in "abc")


def shown(*heads: Head, key: str = ECHO) -> Shown:
    if not heads:
        return Shown("n", "b1", 1, "d", {})
    return Shown("n", "b1", 1, "d", {key: Key(heads[0].op, heads[0].value, heads)})


def history(*edits: PastEdit, key: str = ECHO) -> KeyHistory:
    return KeyHistory(key, edits)


def test_a_new_key_has_no_parents() -> None:
    assert drafts.put(shown(), ECHO, {}) == Draft(ECHO, "PUT", {}, ())


def test_all_heads_are_parents_in_order() -> None:
    both = shown(Head(B, "PUT", 1), Head(A, "DEL", None))
    assert drafts.put(both, ECHO, {}).parents == (A, B)
    assert drafts.delete(both, ECHO) == Draft(ECHO, "DEL", None, (A, B))


def test_more_heads_than_an_edit_can_name_are_taken_in_steps() -> None:
    heads = [Head(f"{number:064x}", "PUT", 1) for number in range(PARENTS_MAX + 5)]
    assert drafts.put(shown(*reversed(heads)), ECHO, {}).parents == tuple(head.id for head in heads[:PARENTS_MAX])


@pytest.mark.parametrize("there", [shown(), shown(Head(A, "DEL", None))])
def test_what_is_not_set_cannot_be_deleted(there: Shown) -> None:
    with pytest.raises(FamulusError, match="is not set"):
        drafts.delete(there, ECHO)


def test_a_conflict_that_a_deletion_wins_can_still_be_deleted() -> None:
    assert drafts.delete(shown(Head(A, "DEL", None), Head(B, "PUT", 1)), ECHO).parents == (A, B)


@pytest.mark.parametrize("value", [2**60, {"a": float("inf")}, "\ud800", {"x": "y" * 70_000}, [[[[[[[[[]]]]]]]]]])
def test_a_value_that_no_edit_can_hold_is_found_before_it_is_sent(value: Any) -> None:
    with pytest.raises(SettingsError, match=r"^service/echo: "):
        drafts.put(shown(), ECHO, value)


PAST = history(
    PastEdit(A, "PUT", {"timeout_ms": 1}, ()),
    PastEdit(B, "PUT", {"timeout_ms": 2}, (A,)),
    PastEdit(C, "DEL", None, (A,)),
)


def test_rollback_stands_on_the_heads_of_now() -> None:
    assert drafts.rollback(PAST, A[:6]) == Draft(ECHO, "PUT", {"timeout_ms": 1}, (B, C))


def test_only_a_head_resolves() -> None:
    assert drafts.resolve(PAST, C) == Draft(ECHO, "DEL", None, (B, C))
    with pytest.raises(SettingsError, match="no edit"):
        drafts.resolve(PAST, A)


def test_the_hash_of_a_password_is_never_written_from_what_was_shown() -> None:
    key = "admin/main/ann"
    past = history(PastEdit(A, "PUT", {"hash": "hidden"}, ()), PastEdit(B, "DEL", None, (A,)), key=key)
    for make in (drafts.rollback, drafts.resolve):
        with pytest.raises(SettingsError):
            make(past, A)
    assert drafts.rollback(past, B).op == "DEL"


def test_parents_by_hand() -> None:
    draft = Draft(ECHO, "PUT", {}, ())
    assert drafts.with_parents(draft, PAST, [f"{C[:6]},{A[:6]}", B.upper()]).parents == (A, B, C)
    assert drafts.with_parents(draft, PAST, ["d" * 64]).parents == ("d" * 64,)
    for wrong in ("dddddd", "g" * 64, "", f"{A},"):
        with pytest.raises(SettingsError):
            drafts.with_parents(draft, PAST, [wrong])


@pytest.mark.parametrize(
    ("draft", "warnings", "ignored"),
    [
        (Draft(ECHO, "PUT", {"timeout_ms": 5}, ()), 0, False),
        (Draft(ECHO, "PUT", {"colour": "red"}, ()), 1, False),
        (Draft(ECHO, "PUT", {"timeout_ms": "5"}, ()), 1, True),
        (Draft("shoe/size", "PUT", {}, ()), 1, True),
        (Draft("shoe/size", "DEL", None, ()), 0, False),
    ],
)
def test_doubts(draft: Draft, warnings: int, ignored: bool) -> None:
    found = drafts.doubts(draft)
    assert (len(found.warnings), found.ignored) == (warnings, ignored)
