"""What a client asks of its users, and what it tells them: checks of what they give, and the errors that they get."""

from __future__ import annotations

from datetime import datetime
from math import ceil
from time import time
from typing import Any, Final

from famulus.core.clock import NS_PER_S
from famulus.core.session.done import Done
from famulus.core.session.kept_bodies import KEPT_BYTES_MAX
from famulus.core.session.retry import Idempotent, Retry
from famulus.errors import OutcomeError, Rejected, TaskError, Unknown
from famulus.wire import limits, reasons

DEFAULT_TIMEOUT_S: Final = 30.0
IN_FLIGHT_MAX: Final = 100_000

_ERRORS: dict[str, type[OutcomeError]] = {"ERROR": TaskError, "REJECTED": Rejected, "UNKNOWN": Unknown}


def checked_token(token: str) -> str:
    if not isinstance(token, str):
        raise TypeError(f"token must be str, not {type(token).__name__}")
    if not 16 <= len(token) <= limits.TOKEN_CHARS_MAX:
        raise ValueError(f"token must have 16 to {limits.TOKEN_CHARS_MAX} characters, so that nobody guesses it")
    return token


def error_of(done: Done) -> OutcomeError:
    kind = _ERRORS[done.outcome]
    return kind(done.reason, message_id=done.message_id, body=done.body, service=done.service, broker=done.broker)


def orphan_error() -> Unknown:
    sentence = "this process was forked while the task was open; its outcome goes to the parent alone"
    return Unknown(reasons.reason(reasons.BROKER_LOST, sentence))


def overload() -> Rejected:
    return Rejected(reasons.reason(reasons.OVERLOAD, f"{IN_FLIGHT_MAX} tasks of this client are open already"))


def kept_overload() -> Rejected:
    sentence = f"{KEPT_BYTES_MAX >> 20} MiB of this client's tasks are kept already, to be sent again if need be"
    return Rejected(reasons.reason(reasons.OVERLOAD, sentence))


# What users give is of any type here: else compiled code would say in its own words what is wrong with it.


def timeout_ms(timeout_s: object) -> int:
    """Checked here, so that a mistake is raised where it was made and not as the outcome of some task."""
    seconds = _number("a timeout", timeout_s)
    if not 0 < seconds <= limits.TIMEOUT_MS_MAX / 1000:
        raise ValueError(f"a timeout is more than 0 s and at most a day, not {timeout_s!r}")
    return max(1, round(seconds * 1000))


def idempotent(
    retry: Any,
    at_least_once: Any,
    is_idempotent: Any,
    hedge_after_s: object,
    hedge: object,
) -> Idempotent:
    """What goes for a task that may run twice, or of which somebody says so only in part."""
    checked_retry(retry)
    _check_yes_or_no("at_least_once", at_least_once)
    _check_yes_or_no("idempotent", is_idempotent)
    if not is_idempotent:
        raise ValueError("a second attempt may run beside the first: say idempotent=True if that does no harm")
    if hedge is not None and hedge != "p95":
        raise ValueError(f'hedge is "p95", not {hedge!r}; hedge_after_s takes seconds')
    if hedge is not None and hedge_after_s is not None:
        raise ValueError("either hedge or hedge_after_s, not both")
    if hedge_after_s is None:
        return Idempotent(retry, 0, hedge is not None, at_least_once)
    after_s = _number("hedge_after_s", hedge_after_s)
    if not 0 < after_s <= limits.TIMEOUT_MS_MAX / 1000:
        raise ValueError(f"hedge_after_s is more than 0 and at most a day, not {hedge_after_s!r}")
    return Idempotent(retry, max(1, round(after_s * NS_PER_S)), False, at_least_once)


def delay_ms(delay_s: object, at: object) -> int:
    """How long a task waits before anybody may get it. A time that has passed is no delay."""
    if delay_s is None and at is None:
        return 0
    if delay_s is not None and at is not None:
        raise ValueError("say delay_s or at, not both")
    longest_s = limits.DELAY_MS_MAX // 1000
    if at is None:
        left_s = _number("delay_s", delay_s)
    elif (left_s := _posix(at) - time()) < 0:
        left_s = 0.0
    if not 0 <= left_s <= longest_s:
        what = f"delay_s is 0 to {longest_s}" if at is None else f"at is at most {longest_s} s from now"
        raise ValueError(f"{what}, not {delay_s if at is None else at!r}: until then a task is in memory only")
    return ceil(left_s * 1000)


def _posix(at: object) -> float:
    if not isinstance(at, datetime):
        if not isinstance(at, int | float):
            raise TypeError(f"at is a datetime or a POSIX timestamp, not {at!r}")
        return float(at)
    if at.tzinfo is None:
        raise ValueError(f"at needs a time zone, as datetime.now(UTC) has one, not {at!r}")
    return at.timestamp()


def checked_body(body: bytes | bytearray | memoryview | str) -> bytes:
    if isinstance(body, bytes):
        content = body
    elif isinstance(body, str):
        content = body.encode()
    elif isinstance(body, bytearray | memoryview):
        content = bytes(body)
    else:
        raise TypeError(f"a body is bytes or text, not {type(body).__name__}")
    if len(content) > limits.BODY_BYTES_MAX:
        # A broker would say the same, or, if it is far too large, cut the connection with all that is open on it.
        sentence = f"a body has at most {limits.BODY_BYTES_MAX} bytes, and this one has {len(content)}"
        raise Rejected(reasons.reason(reasons.TOO_LARGE, sentence))
    return content


def checked_service(service: object, priority: object, message_id: str | None) -> None:
    if not isinstance(service, str):
        raise TypeError(f"a service is a text, not {type(service).__name__}")
    if not 0 < len(service) <= limits.NAME_CHARS_MAX:
        raise ValueError(f"a service is a text of 1 to {limits.NAME_CHARS_MAX} characters, not {service!r}")
    if not isinstance(priority, int):
        raise TypeError(f"a priority is a whole number, not {priority!r}")
    if not 0 <= priority <= limits.PRIORITY_MAX:
        raise ValueError(f"a priority is 0 to {limits.PRIORITY_MAX}, not {priority!r}")
    if message_id is not None:
        checked_message_id(message_id)
    _check_unicode(service)


def checked_retry(retry: object) -> None:
    if retry is not None and not isinstance(retry, Retry):
        raise TypeError(f"retry is a Retry or None, not {retry!r}")


def checked_at_least_once(at_least_once: object) -> None:
    _check_yes_or_no("at_least_once", at_least_once)


def checked_map(window: object, errors: object) -> None:
    if not isinstance(window, int):
        raise TypeError(f"a window is a whole number, not {window!r}")
    if window < 1:
        raise ValueError(f"a window is at least 1, not {window!r}")
    if errors not in ("raise", "return"):
        raise ValueError(f'errors is "raise" or "return", not {errors!r}')


def checked_message_id(message_id: object) -> None:
    if not isinstance(message_id, str):
        raise TypeError(f"a message_id is a text, not {type(message_id).__name__}")
    if not 0 < len(message_id) <= limits.MESSAGE_ID_CHARS_MAX:
        raise ValueError(f"a message_id has 1 to {limits.MESSAGE_ID_CHARS_MAX} characters, not {len(message_id)}")
    _check_unicode(message_id)


def _number(what: str, given: object) -> float:
    if not isinstance(given, int | float):
        raise TypeError(f"{what} is a number of seconds, not {given!r}")
    return float(given)


def _check_yes_or_no(what: str, given: object) -> None:
    if not isinstance(given, bool):
        raise TypeError(f"{what} is True or False, not {given!r}")


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair: not a text that could be sent.
        raise ValueError("a service and a message_id are valid Unicode") from None
