"""One call of a function for a task, and what becomes of it: an answer, whatever the function does.

A function may return bytes, bytearray, memoryview, str (sent as UTF-8) or None (an empty body). Anything else, and
anything it raises, is an ERROR; the traceback goes to the worker's log and never to the client.
"""

from __future__ import annotations

import logging
import threading
import traceback
from time import monotonic_ns
from typing import Final

from famulus.core.delivery import Outcome
from famulus.core.session.header_cache import Given
from famulus.wire import limits, reasons
from famulus.worker.service import Service
from famulus.worker.task import read_task

# Final, so that compiled code does not look it up each time.
clock_ns: Final = monotonic_ns

log = logging.getLogger("famulus.worker")

REASON_CHARS_MAX: Final = 300

#: Of a cancelled task: the outcome of these two is not ERROR.
NOT_BEGUN: Final = reasons.reason(reasons.CANCELLED, "it was cancelled before its function was called")
STOPPED: Final = reasons.reason(reasons.CANCELLED, "it was cancelled while its function ran")

EXPIRED: Final = reasons.reason(reasons.EXPIRED, "its time was over before the worker got to it")


class BadArguments(Exception):
    """What came is not what the function takes, and it was not called."""


class PlainError(Exception):
    """Its text is the reason, code and all; whatever there is to log has been logged."""


class Call:
    __slots__ = ("deadline_ns", "given", "service")

    def __init__(self, given: Given, service: Service, deadline_ns: int) -> None:
        self.given = given
        self.service = service
        self.deadline_ns = deadline_ns


class BatchCall(Call):
    """Several tasks of one service, which its function gets together. Where one has to be named, it is the first."""

    __slots__ = ("calls",)

    def __init__(self, calls: list[Call]) -> None:
        first = calls[0]
        super().__init__(first.given, first.service, first.deadline_ns)
        self.calls = calls


class CurrentCall:
    """What a thread is working on, for its logs. Each task sets it, so it is one attribute and no more."""

    __slots__ = ("call",)

    def __init__(self) -> None:
        self.call: Call | None = None


_here: Final = threading.local()


def my_current() -> CurrentCall:
    """That of the thread that asks."""
    current: CurrentCall | None = getattr(_here, "current", None)
    if current is None:
        current = _here.current = CurrentCall()
    return current


class Answer:
    __slots__ = ("body", "given", "reason")

    def __init__(self, given: Given, reason: str, body: bytes) -> None:
        self.given = given
        #: Empty: the outcome is OK. Otherwise it is an ERROR, and this is why.
        self.reason = reason
        self.body = body


class BatchAnswer(Answer):
    """The answers to all tasks of a batch."""

    __slots__ = ("answers",)

    def __init__(self, batch: BatchCall, answers: list[Answer]) -> None:
        super().__init__(batch.given, "", b"")
        self.answers = answers


def same_answer(call: Call, reason: str) -> Answer:
    """An ERROR for a task, or for all tasks of a batch."""
    if isinstance(call, BatchCall):
        return BatchAnswer(call, [Answer(each.given, reason, b"") for each in call.calls])
    return Answer(call.given, reason, b"")


def ended_as(answer: Answer) -> tuple[Outcome, str]:
    """The outcome, and the reason. What a cancelled function raises says only that it has stopped."""
    reason = answer.reason
    if not reason:
        return "OK", ""
    if not answer.given.is_cancelled:
        return "ERROR", reason
    # The very object: no function can raise it.
    return ("REJECTED", NOT_BEGUN) if reason is NOT_BEGUN else ("UNKNOWN", STOPPED)


def perform(call: Call) -> Answer:
    """Call the function, if somebody is still waiting for the answer."""
    answer, trace = attempt(call)
    if trace:
        log_failure(call, trace)
    return answer


def attempt(call: Call) -> tuple[Answer, str]:
    """The answer, and the traceback of what was raised."""
    given = call.given
    if call.deadline_ns <= clock_ns():
        return Answer(given, EXPIRED, b""), ""
    try:
        return Answer(given, "", to_bytes(begin(call))), ""
    except BaseException as error:
        # Also SystemExit and KeyboardInterrupt: one function that calls exit() must not end the others' work.
        return failed(given, error)


def begin(call: Call) -> object:
    """What the function returns: its result, or a coroutine."""
    given, service = call.given, call.service
    body = given.body
    if not service.wants_task:
        return service.function(body)
    if service.is_typed:
        return service.function(call)
    return service.function(body, read_task(call.given, call.deadline_ns, call.service.tell_progress))


def failed(given: Given, error: BaseException) -> tuple[Answer, str]:
    """What the client is told about an exception, and what the log is told."""
    if isinstance(error, BadArguments | PlainError):
        return Answer(given, reason_of(error), b""), ""  # nothing failed here
    return Answer(given, reason_of(error), b""), "".join(traceback.format_exception(error))


def log_failure(call: Call, trace: str) -> None:
    log.error("%s failed for %s\n%s", call.service.name, what_of(call), trace.rstrip())


def what_of(call: Call) -> str:
    """For the log."""
    if isinstance(call, BatchCall):
        return f"a batch of {len(call.calls)} tasks, the first of them {call.given.message_id}"
    return f"task {call.given.message_id}"


def reason_of(error: BaseException) -> str:
    """`TypeName: message`, on one line of bounded length."""
    kind = reasons.BAD_ARGUMENTS if isinstance(error, BadArguments) else type(error).__name__
    try:
        message = " ".join(str(error)[: 4 * REASON_CHARS_MAX].split())
    except Exception:
        message = "(it cannot be shown)"
    reason = f"{kind}: {message}" if message and not isinstance(error, PlainError) else message or kind
    # Invalid Unicode would make a header that nobody can read.
    reason = reason.encode("utf-8", "replace").decode()
    return reason if len(reason) <= REASON_CHARS_MAX else reason[: REASON_CHARS_MAX - 1] + "…"


def to_bytes(result: object) -> bytes:
    if type(result) is bytes:
        body = result
    elif result is None:
        return b""
    elif isinstance(result, str):
        body = result.encode()
    elif isinstance(result, bytes | bytearray | memoryview):
        body = bytes(result)
    else:
        raise TypeError(f"a service returns bytes, str or None, not {type(result).__name__}")
    if len(body) > limits.BODY_BYTES_MAX:
        raise ValueError(f"the result has {len(body)} bytes; a body has at most {limits.BODY_BYTES_MAX}")
    return body
