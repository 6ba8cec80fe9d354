"""What a client checks before anything is sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from time import time

import pytest

from famulus.client import rules
from famulus.core.session.client import Done
from famulus.core.session.task_kind import TaskKind
from famulus.errors import OutcomeError, Rejected, TaskError, Unknown
from famulus.wire import limits


@pytest.mark.parametrize(("seconds", "milliseconds"), [(1, 1000), (0.0001, 1), (0.0015, 2), (86_400, 86_400_000)])
def test_timeouts(seconds: float, milliseconds: int) -> None:
    assert rules.timeout_ms(seconds) == milliseconds


@pytest.mark.parametrize("seconds", [0, -1, 86_400.1, float("nan"), float("inf")])
def test_timeouts_that_cannot_be(seconds: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        rules.timeout_ms(seconds)


@pytest.mark.parametrize(("seconds", "milliseconds"), [(None, 0), (0, 0), (0.0001, 1), (1.5, 1500), (3600, 3_600_000)])
def test_delays(seconds: float | None, milliseconds: int) -> None:
    assert rules.delay_ms(seconds, None) == milliseconds


@pytest.mark.parametrize("seconds", [-0.1, 3600.1, float("nan"), float("inf")])
def test_delays_that_cannot_be(seconds: float) -> None:
    with pytest.raises(ValueError, match="delay_s is 0 to 3600"):
        rules.delay_ms(seconds, None)
    if not seconds < 0:
        with pytest.raises(ValueError, match="at is at most 3600 s from now"):
            rules.delay_ms(None, time() + seconds + 1)


def test_a_time_of_day_is_a_delay_by_our_own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)
    monkeypatch.setattr(rules, "time", now.timestamp)
    assert rules.delay_ms(None, now + timedelta(seconds=90)) == 90_000
    assert rules.delay_ms(None, now.timestamp() + 1.5) == 1500
    assert rules.delay_ms(None, datetime(2026, 11, 19, 14, 30, tzinfo=timezone(timedelta(hours=2)))) == 30 * 60_000
    for past in (now, now - timedelta(days=1), 0, -1.0):
        assert rules.delay_ms(None, past) == 0, "it runs at once"


def test_a_time_of_day_without_a_time_zone_is_none() -> None:
    with pytest.raises(ValueError, match="needs a time zone"):
        rules.delay_ms(None, datetime(2026, 11, 19))  # noqa: DTZ001
    with pytest.raises(ValueError, match="not both"):
        rules.delay_ms(1, 1)


def test_bodies() -> None:
    body = b"as it is"
    assert rules.checked_body(body) is body
    assert rules.checked_body("ü") == b"\xc3\xbc"
    assert rules.checked_body(bytearray(b"a")) == b"a"
    assert rules.checked_body(memoryview(b"abc")[1:]) == b"bc"
    for wrong in (None, 1, ["x"], {"a": 1}):
        with pytest.raises(TypeError, match="a body is"):
            rules.checked_body(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "kind", "exit_code"), [("ERROR", TaskError, 1), ("REJECTED", Rejected, 3), ("UNKNOWN", Unknown, 4)]
)
def test_an_outcome_that_is_not_ok_is_an_error(outcome: str, kind: type[OutcomeError], exit_code: int) -> None:
    done = Done(None, TaskKind("s", 1000), "id", b"", b"", b"", 0, 0)
    done.outcome, done.reason, done.body = outcome, "code: words: more", b"body"  # type: ignore[assignment]
    error = rules.error_of(done)
    assert type(error) is kind
    assert (error.outcome, error.code, error.reason) == (outcome, "code", "code: words: more")
    assert (error.message_id, error.body, error.exit_code) == ("id", b"body", exit_code)


def test_too_many_open_tasks_are_rejected() -> None:
    assert rules.overload().code == "overload"


def test_a_body_that_no_broker_takes_is_rejected_before_it_leaves() -> None:
    largest = bytes(limits.BODY_BYTES_MAX)
    assert rules.checked_body(largest) is largest
    with pytest.raises(Rejected) as caught:
        rules.checked_body(largest + b"x")
    assert caught.value.code == "too_large"


@pytest.mark.parametrize(("service", "message_id"), [("\ud800x", None), ("echo", "\udfff")])
def test_half_a_surrogate_pair_is_named_before_anything_is_sent(service: str, message_id: str | None) -> None:
    with pytest.raises(ValueError, match="Unicode"):
        rules.checked_service(service, 5, message_id)
