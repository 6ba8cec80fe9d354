"""Tasks that are asked for alike share what they have in common; what was checked once is not checked again."""

from __future__ import annotations

from typing import Any

import pytest

from famulus.client.task_kinds import REMEMBERED_MAX, TaskKinds
from famulus.core.session.retry import Idempotent, Retry
from famulus.wire.limits import MESSAGE_ID_CHARS_MAX, PRIORITY_DEFAULT, PRIORITY_MAX

RETRY = Retry(attempts=3)


@pytest.fixture
def kinds() -> TaskKinds:
    return TaskKinds(timeout_ms=30_000, retry=RETRY)


def test_tasks_that_are_asked_for_alike_are_of_one_kind(kinds: TaskKinds) -> None:
    one = kinds.of("echo", 2.0, 5)
    assert kinds.of("echo", 2.0, 5) is one
    assert kinds.of("echo", 2.0, 5, "mine") is one, "an id is the task's own"
    like_it: dict[str, Any] = {"service": "echo", "timeout": 2.0, "priority": 5}
    others: list[dict[str, Any]] = [
        {"service": "other"},
        {"timeout": 3.0},
        {"priority": 6},
        {"at_least_once": True},
        {"retry": None},
        {"more": b',"key":"k"'},
        {"more": b',"key":"l"'},
        {"delay_ms": 7},
        {"credit": 8},
    ]
    for each in others:
        assert kinds.of(**like_it | each) is not one


def test_a_content_type_is_of_many_tasks_and_the_context_of_a_trace_of_one(kinds: TaskKinds) -> None:
    for more, is_shared in (
        (b',"content_type":"application/json"', True),
        (b',"traceparent":"00-%b-01"' % (b"a" * 49), False),
    ):
        one, other = (kinds.of("echo", None, 5, more=more) for _ in range(2))
        assert (one is other) == is_shared
        assert one.header == other.header
        assert one.header.endswith(more + b"}")


def test_what_is_not_said_is_as_the_client_does_it(kinds: TaskKinds) -> None:
    kind = kinds.of("echo", None, PRIORITY_DEFAULT)
    assert (kind.timeout_ms, kind.retry) == (30_000, RETRY)
    assert kinds.of("echo", 0.25, PRIORITY_DEFAULT, retry=None).retry is None
    assert kinds.of("echo", 0.25, PRIORITY_DEFAULT, retry=None).timeout_ms == 250


@pytest.mark.parametrize(
    "wrong",
    [
        {"service": ""},
        {"timeout": 0.0},
        {"priority": PRIORITY_MAX + 1},
        {"message_id": "x" * (MESSAGE_ID_CHARS_MAX + 1)},
    ],
)
@pytest.mark.parametrize("known", [False, True])
def test_a_mistake_is_raised_each_time(kinds: TaskKinds, wrong: dict[str, Any], known: bool) -> None:
    right: dict[str, Any] = {"service": "echo", "timeout": None, "priority": PRIORITY_DEFAULT}
    if known:
        kinds.of(**right)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^a (service|timeout|priority|message_id) is|has "):
            kinds.of(**right | wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"service": ["echo"]},
        {"service": b"echo"},
        {"timeout": [1]},
        {"priority": {}},
        {"priority": 5.0},
    ],
)
def test_what_cannot_be_remembered_is_a_mistake_too(kinds: TaskKinds, wrong: dict[str, Any]) -> None:
    right: dict[str, Any] = {"service": "echo", "timeout": None, "priority": PRIORITY_DEFAULT}
    with pytest.raises(TypeError) as caught:
        kinds.of(**right | wrong)
    assert "unhashable" not in str(caught.value)


def test_only_so_many_are_remembered(kinds: TaskKinds) -> None:
    for number in range(3 * REMEMBERED_MAX):
        kinds.of(f"s{number}", None, PRIORITY_DEFAULT)
        kinds.of("echo", None, PRIORITY_DEFAULT, at_least_once=True, retry=Idempotent(None))
    assert len(kinds._known) <= REMEMBERED_MAX
