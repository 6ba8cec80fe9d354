"""One call: whatever the function does, there is one answer, and what the client reads is short and harmless."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from famulus.wire import limits
from famulus.worker.calls import REASON_CHARS_MAX, Call, perform, reason_of
from famulus.worker.task import Task

MakeCall = Callable[..., Call]


@pytest.mark.parametrize(
    ("result", "body"),
    [
        (b"bytes", b"bytes"),
        (bytearray(b"array"), b"array"),
        (memoryview(b"view"), b"view"),
        ("täxt", "täxt".encode()),
        (None, b""),
    ],
    ids=["bytes", "bytearray", "memoryview", "str", "None"],
)
def test_what_a_function_may_return(make_call: MakeCall, result: Any, body: bytes) -> None:
    answer = perform(make_call(lambda _: result))
    assert (answer.reason, answer.body) == ("", body)
    assert type(answer.body) is bytes


@pytest.mark.parametrize("result", [5, {"a": 1}, ["a"], object(), True])
def test_anything_else_is_an_error_of_the_function(make_call: MakeCall, result: Any) -> None:
    answer = perform(make_call(lambda _: result))
    assert answer.reason == f"TypeError: a service returns bytes, str or None, not {type(result).__name__}"


def test_a_result_beyond_the_limit_of_the_protocol_is_an_error(make_call: MakeCall) -> None:
    assert perform(make_call(lambda _: bytes(limits.BODY_BYTES_MAX))).reason == ""
    answer = perform(make_call(lambda _: bytes(limits.BODY_BYTES_MAX + 1)))
    assert answer.reason.startswith("ValueError: the result has 16777217 bytes")
    assert answer.body == b""


def raise_(error: BaseException) -> Callable[[bytes], bytes]:
    def function(body: bytes) -> bytes:
        raise error

    return function


def test_an_exception_goes_to_the_client_in_one_line_and_to_the_log_in_full(
    make_call: MakeCall, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "famulus.worker"):
        answer = perform(make_call(raise_(ValueError("two\nlines"))))
    assert answer.reason == "ValueError: two lines"
    (record,) = caplog.records
    assert record.name == "famulus.worker"
    assert "Traceback" in record.getMessage()
    assert answer.given.message_id in record.getMessage()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_not_even_an_exit_escapes(make_call: MakeCall, error: BaseException) -> None:
    assert perform(make_call(raise_(error))).reason.startswith(type(error).__name__)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError(), "ValueError"),
        (ValueError("\ud800 lone"), "ValueError: ? lone"),
        (Unspeakable(), "Unspeakable: (it cannot be shown)"),
    ],
    ids=["empty", "surrogate", "unspeakable"],
)
def test_odd_exceptions_have_a_reason_too(error: BaseException, reason: str) -> None:
    assert reason_of(error) == reason


def test_a_long_message_is_cut() -> None:
    reason = reason_of(ValueError("x" * 1_000_000))
    assert len(reason) == REASON_CHARS_MAX
    assert reason.endswith("…")


def test_a_task_whose_time_is_over_is_not_run(make_call: MakeCall) -> None:
    ran: list[bytes] = []
    answer = perform(make_call(ran.append, left_ms=0))
    assert answer.reason.startswith("expired: ")
    assert ran == []


def test_a_function_can_know_its_task(make_call: MakeCall) -> None:
    seen: list[Task] = []

    def function(body: bytes, task: Task) -> bytes:
        seen.append(task)
        return body

    before = time.monotonic()
    perform(make_call(function, b"body", left_ms=5000, name="report"))
    (task,) = seen
    assert (task.service, task.attempt, task.body) == ("report", 2, b"body")
    assert task.message_id.startswith("id-")
    assert task.header["traceparent"] == "00-ab"
    assert before + 4.9 < task.deadline < time.monotonic() + 5.1
    assert 0 < task.time_left() <= 5
    with pytest.raises(AttributeError):
        task.attempt = 3  # type: ignore[misc]


def test_a_task_without_a_time_out_has_all_the_time(make_call: MakeCall) -> None:
    left: list[float] = []
    perform(make_call(lambda body, task: left.append(task.time_left())))
    assert left == [float("inf")]


def test_deep_recursion_is_an_error_like_any_other(make_call: MakeCall) -> None:
    def function(body: bytes) -> bytes:
        return function(body)

    assert sys.getrecursionlimit() < 100_000
    assert perform(make_call(function)).reason.startswith("RecursionError")
