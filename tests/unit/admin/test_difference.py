"""Differences name fields, tell apart what JSON tells apart, and leave nothing out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from famulus.core.config.draft import FieldChange, difference


@pytest.mark.parametrize(
    ("seen", "now", "changes"),
    [
        ({"a": 1}, {"a": 1}, ()),
        ({"a": 1, "b": 2}, {"b": 3, "c": 4}, (FieldChange("a", 1), FieldChange("b", 2, 3), FieldChange("c", UNSET, 4))),
        (UNSET, {"a": 1}, (FieldChange("", UNSET, {"a": 1}),)),
        ({"a": 1}, UNSET, (FieldChange("", {"a": 1}, UNSET),)),
        (UNSET, UNSET, ()),
        ("x", "y", (FieldChange("", "x", "y"),)),
        ({"a": 1}, {"a": True}, (FieldChange("a", 1, True),)),
        ({"a": [0]}, {"a": [False]}, (FieldChange("a", [0], [False]),)),
        ({"a": {"b": 1}}, {"a": {"b": True}}, (FieldChange("a", {"b": 1}, {"b": True}),)),
        ({"a": None}, {}, (FieldChange("a", None, UNSET),)),
    ],
)
def test_what_changed(seen: Any, now: Any, changes: tuple[FieldChange, ...]) -> None:
    found = difference(seen, now)
    assert found == changes
    assert [type(each.now) for each in found] == [type(each.now) for each in changes]


values = st.recursive(
    st.integers(0, 2) | st.text(max_size=2), lambda inner: st.dictionaries(st.text(max_size=1), inner)
)


@given(values, values)
def test_who_makes_the_changes_gets_what_is_there_now(seen: Any, now: Any) -> None:
    value = dict(seen) if isinstance(seen, dict) else seen
    for change in difference(seen, now):
        if not change.field and not (isinstance(seen, dict) and isinstance(now, dict)):
            value = change.now
        elif change.now is UNSET:
            del value[change.field]
        else:
            value[change.field] = change.now
    assert value == now
