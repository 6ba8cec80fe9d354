"""Ids as people write them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from famulus.journal.finding import _fits
from famulus.journal.ids import short, wanted

OURS = "7f3a09c1-89ab-4cde-a123-00000000002c"


def test_the_id_of_a_broker_is_short_by_its_beginning_and_its_count() -> None:
    assert short(OURS) == "7f3a09c1..2c"
    assert short("7f3a09c1-89ab-4cde-a123-000000000000") == "7f3a09c1..0"


def test_what_a_client_made_up_is_left_as_it_is() -> None:
    assert short("order-4711") == "order-4711"


def matches(text: str, message_id: str) -> bool:
    (found,) = _fits(pa.chunked_array([[message_id]]), wanted(text)).to_pylist()
    return bool(found)


@pytest.mark.parametrize("text", [OURS, OURS[:5], short(OURS), "7f..2c", "7f3a09c1..00000000002c"])
def test_an_id_is_found_by_whatever_is_shown_of_it(text: str) -> None:
    assert matches(text, OURS)


@pytest.mark.parametrize("text", ["7f3a09c1..c", "7f3a09c1..12c", "8f..2c", "4711", "7f3a09c1..2d"])
def test_another_one_is_not(text: str) -> None:
    assert not matches(text, OURS)


def test_an_id_may_have_dots_itself() -> None:
    assert matches("a..b", "a..b")
    assert matches("order..4711x", "order-2026-4711x")
    assert matches("order..", "order..1")
