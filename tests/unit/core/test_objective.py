"""What an objective may say, and when the journal is told of it."""

from __future__ import annotations

import msgspec
import pytest

from famulus.core.objective import AGAIN_NS, Objective, ObjectiveFacts
from famulus.wire import limits

STRICT, LAX = Objective(0.999, 500), Objective(0.9)


def told(facts: ObjectiveFacts, now_ns: int, **objectives: Objective) -> list[tuple[str, str]]:
    return [(row.service.decode(), row.detail.decode()) for row in facts.look(objectives, now_ns)]


def test_only_the_share_has_to_be_said() -> None:
    objective = msgspec.convert({"share": 0.99}, Objective)
    assert (objective.share, objective.within_ms, objective.days) == (0.99, None, 30)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"share": 2},
        {"share": 1},
        {"share": 0},
        {"share": "0.9"},
        {"share": 0.9, "within_ms": 0},
        {"share": 0.9, "within_ms": 0.5},
        {"share": 0.9, "within_ms": limits.TIMEOUT_MS_MAX + 1},
        {"share": 0.9, "days": 0},
        {"share": 0.9, "days": 367},
        {"share": 0.9, "within": 5},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, Objective)


def test_an_objective_is_told_when_it_is_new_when_it_changes_and_once_a_day() -> None:
    facts = ObjectiveFacts()
    said = '{"share":0.999,"within_ms":500,"days":30}'
    assert told(facts, 1, echo=STRICT) == [("echo", said)]
    assert told(facts, 2, echo=STRICT) == []
    assert told(facts, 3, echo=STRICT, sum=LAX) == [("sum", '{"share":0.9,"within_ms":null,"days":30}')]
    assert told(facts, 4, echo=STRICT, sum=STRICT) == [("sum", said)]
    assert told(facts, 1 + AGAIN_NS, echo=STRICT, sum=STRICT) == [("echo", said), ("sum", said)]


def test_of_a_service_that_has_none_any_more_it_is_told_once() -> None:
    facts = ObjectiveFacts()
    told(facts, 1, echo=STRICT, sum=LAX)
    assert told(facts, 2, sum=LAX) == [("echo", "null")]
    assert told(facts, 3, sum=LAX) == []


def test_where_no_service_has_one_nothing_is_told() -> None:
    facts = ObjectiveFacts()
    assert told(facts, 1) == []
    assert told(facts, 2 + AGAIN_NS) == []
