"""What holds for a task follows from its service and its client's wish."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from famulus.core.delivery import OUTCOMES, Policy, ServicePolicy
from famulus.wire import headers, limits
from famulus.wire.inner import POLICIES


@pytest.mark.parametrize(("wish_ms", "granted_ms"), [(None, 5000), (1, 1), (4999, 4999), (5001, 5000), (2**53, 5000)])
def test_the_time_out_of_a_service_is_the_default_and_the_largest(wish_ms: int | None, granted_ms: int) -> None:
    assert ServicePolicy(timeout_ms=5000).terms(wish_ms, 5).timeout_ms == granted_ms


def test_terms_are_what_the_policy_says() -> None:
    policy = ServicePolicy(
        delivery="at_least_once",
        timeout_ms=1,
        max_attempts=2,
        backlog_tasks_max=3,
        backlog_bytes_max=4,
        backlog_age_ms=5,
        results_max=6,
        results_bytes_max=7,
        results_age_ms=8,
        policy="ewma",
        abandon="cancel",
    )
    assert policy.terms(None, 9) == (1, 9, True, 2, 3, 4, 5, 2, 6, 7, 8, True, False, 0, 0)
    assert policy.terms(None, 9, 7).credit == 7


def test_every_policy_has_a_number() -> None:
    assert get_args(Policy) == POLICIES


def test_the_default_is_at_most_once() -> None:
    assert ServicePolicy().terms(None, 5).at_least_once is False


@pytest.mark.parametrize(
    "setting",
    [
        {"delivery": "exactly_once"},
        {"policy": "random"},
        {"timeout_ms": 0},
        {"timeout_ms": limits.TIMEOUT_MS_MAX + 1},
        {"max_attempts": 0},
        {"max_attempts": limits.ATTEMPTS_MAX + 1},
        {"backlog_tasks_max": -1},
        {"backlog_bytes_max": -1},
        {"backlog_age_ms": 0},
        {"results_max": -1},
        {"results_bytes_max": -1},
        {"results_age_ms": 0},
        {"timeout": 5},
    ],
    ids=str,
)
def test_a_wrong_setting_is_refused(setting: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(setting, ServicePolicy)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_can_be_said_in_a_header(outcome: str) -> None:
    told = headers.read(headers.write("TASK", "RESPONSE", outcome=outcome))
    assert isinstance(told, headers.TaskResponse)
    assert told.outcome == outcome
