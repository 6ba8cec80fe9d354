"""Which objectives hold, by what brokers have told of them."""

from __future__ import annotations

import math

import pytest

from famulus.core import objective as broker
from famulus.core.objective import ObjectiveFacts
from famulus.pipeline.histogram import BUCKETS_PER_E_FOLD
from famulus.pipeline.tables.error_budget import FAST, SLOW, TOLD_WITHIN_US, Objective, ToldObjective, in_force

SAID = '{"share":0.999,"within_ms":500,"days":30}'
END_US = 10 * TOLD_WITHIN_US


@pytest.mark.parametrize("objective", [broker.Objective(0.999, 500, 7), broker.Objective(0.9)], ids=str)
def test_what_a_broker_tells_is_read_as_it_was_meant(objective: broker.Objective) -> None:
    (row,) = ObjectiveFacts().look({"echo": objective}, 1)
    read = in_force([ToldObjective(row.service.decode(), row.detail.decode(), END_US)], END_US)
    assert read == {"echo": Objective(objective.share, objective.within_ms, objective.days)}


def test_what_nobody_has_told_for_two_days_holds_no_more() -> None:
    told = [
        ToldObjective("old", SAID, END_US - TOLD_WITHIN_US),
        ToldObjective("new", SAID, END_US - TOLD_WITHIN_US + 1),
    ]
    assert in_force(told, END_US).keys() == {"new"}


@pytest.mark.parametrize(
    "said",
    [
        "null",
        "",
        "{}",
        "[]",
        "0.9",
        "{",
        '{"share":1,"within_ms":null,"days":30}',
        '{"share":2,"within_ms":null,"days":30}',
        '{"share":0.9,"within_ms":0,"days":30}',
        '{"share":0.9,"within_ms":5,"days":0}',
        '{"share":0.9,"within_ms":5,"days":30,"of":"a newer broker"}',
    ],
)
def test_what_is_no_objective_is_none(said: str) -> None:
    assert in_force([ToldObjective("echo", said, END_US), ToldObjective("sum", SAID, END_US)], END_US).keys() == {"sum"}


@pytest.mark.parametrize("within_ms", [1, 5, 500, 60_000, 86_400_000])
def test_a_limit_counts_to_within_a_bucket(within_ms: int) -> None:
    last = Objective(0.9, within_ms, 30).last_good_bucket(BUCKETS_PER_E_FOLD)
    assert last is not None
    begin, end = (math.exp((last + step) / BUCKETS_PER_E_FOLD) - 1 for step in (0, 1))
    assert begin <= within_ms * 1e6 < end < within_ms * 1.066e6
    assert Objective(0.9, None, 30).last_good_bucket(BUCKETS_PER_E_FOLD) is None


def test_an_alarm_stands_for_so_much_of_a_budget() -> None:
    hours = 30 * 24
    assert math.isclose(FAST.rate * FAST.long_minutes / 60 / hours, 0.02)
    assert math.isclose(SLOW.rate * SLOW.long_minutes / 60 / hours, 0.05)
