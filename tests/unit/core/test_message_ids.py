"""The ids that a dispatcher makes: JSON texts of UUIDs, each once."""

from __future__ import annotations

import json
import uuid

from hypothesis import given
from hypothesis import strategies as st

from famulus.core.dispatch.message_ids import MessageIds


@given(st.integers(0, 2**64 - 1))
def test_they_are_uuids_and_come_once(chance: int) -> None:
    ids = MessageIds(chance)
    made = [json.loads(ids.next()) for _ in range(10)]
    assert len(set(made)) == 10
    assert all(str(uuid.UUID(each)) == each for each in made)


def test_the_count_goes_on_over_the_end_of_a_block() -> None:
    ids = MessageIds(1)
    made = [json.loads(ids.next()) for _ in range(10_000)]
    assert [int(each[-12:], 16) for each in made] == list(range(1, 10_001))


def test_another_life_makes_others() -> None:
    assert MessageIds(1).next() != MessageIds(2).next()
