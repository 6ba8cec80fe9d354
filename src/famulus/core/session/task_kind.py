"""What the tasks have in common that a client asks for alike: all but their bodies, ids and moments.

Most tasks of a client are of few kinds, so each task has its kind instead of all that, and the header of a kind is
written once: one with the same bytes is cheap for the broker, too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from famulus.core.session.retry import Idempotent, Retry
from famulus.wire import headers, limits

REMEMBERED_MAX: Final = 1024


class TaskKind:
    __slots__ = (
        "_header",
        "at_least_once",
        "begin",
        "credit",
        "delay_ms",
        "end",
        "is_named",
        "priority",
        "retry",
        "service",
        "timeout_ms",
    )

    def __init__(
        self,
        service: str,
        timeout_ms: int,
        priority: int = limits.PRIORITY_DEFAULT,
        at_least_once: bool = False,
        retry: Retry | None = None,
        more: bytes = b"",
        delay_ms: int = 0,
        credit: int = 0,
    ) -> None:
        """`more` are further fields of the header. An `Idempotent` as its retry goes together with `at_least_once`.

        Its time-out begins when its delay is over. With a `credit` it is answered with a stream, whose reader takes in
        so many parts before it says that it wants more. It is sent again only if it was refused, whatever else is said.
        """
        self.service = service
        self.timeout_ms = timeout_ms
        self.priority = priority
        self.at_least_once = at_least_once
        #: Whether a task is sent again if it is refused, and how often.
        self.retry = retry
        self.delay_ms = delay_ms
        self.credit = credit
        #: It gets an id before it is sent for the first time, if its caller gave none. Without one its header is cheap
        #: for the broker, and an idempotent one gets one if it has to be sent again.
        self.is_named = at_least_once
        if at_least_once and isinstance(retry, Idempotent):
            self.is_named = retry.is_named
            more += headers.IDEMPOTENT
        if delay_ms:
            more += headers.write_delay(delay_ms)
        if credit:
            more += b',"credit":%d' % credit
        #: The two parts of the header between which an id goes.
        self.begin: bytes = _begin(service, timeout_ms, priority)
        self.end = more + b"}"
        # Kept where many tasks are likely to have it: an open task that is alone with a long one holds it once.
        self._header = b"" if more else self.begin + self.end

    @property
    def header(self) -> bytes:
        """Of a task without an id."""
        return self._header or self.begin + self.end


@lru_cache(REMEMBERED_MAX)
def _begin(service: str, timeout_ms: int, priority: int) -> bytes:
    told = priority if priority != limits.PRIORITY_DEFAULT else None
    return headers.write("TASK", "REQUEST", service=service, timeout_ms=timeout_ms, priority=told)[:-1]
