"""The kinds of tasks that a client is asked for. Each is checked when it is first seen, and then remembered."""

from __future__ import annotations

from typing import Any, Final

from famulus.client import rules
from famulus.core.session.retry import LIKE_CLIENT, Idempotent, Retry
from famulus.core.session.task_kind import TaskKind

REMEMBERED_MAX: Final = 1024
#: A content type is shorter, and many tasks have the same. The context of a trace is longer, and each task has its own.
MORE_MAX: Final = 64


class TaskKinds:
    def __init__(self, timeout_ms: int, retry: Any) -> None:
        """What goes for a task of which nothing else is said."""
        rules.checked_retry(retry)
        self._timeout_ms = timeout_ms
        self._retry: Retry | None = retry
        self._known: dict[tuple[Any, Any, Any, Any, Any, bytes], TaskKind] = {}

    def of(
        self,
        service: Any,
        timeout: Any,
        priority: Any,
        message_id: Any = None,
        at_least_once: Any = False,
        retry: Any = LIKE_CLIENT,
        more: bytes = b"",
        delay_ms: int = 0,
        credit: int = 0,
    ) -> TaskKind:
        """All this is what the user gave; raises if anything is wrong with it."""
        if message_id is not None:
            rules.checked_message_id(message_id)
        if len(more) > MORE_MAX or delay_ms or credit or isinstance(retry, Idempotent):
            # Likely to be the only one of its kind.
            return self._checked(service, timeout, priority, at_least_once, retry, more, delay_ms, credit)
        key = (service, timeout, priority, at_least_once, retry, more)
        try:
            return self._known[key]
        except (KeyError, TypeError):
            pass  # it is new, or nothing that a key can have
        kind = self._checked(service, timeout, priority, at_least_once, retry, more, 0, 0)
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        self._known[key] = kind
        return kind

    def retry_of(self, retry: Any) -> Retry | None:
        """What a client does if nothing is said."""
        return self._retry if retry is LIKE_CLIENT else retry

    def _checked(
        self,
        service: Any,
        timeout: Any,
        priority: Any,
        at_least_once: Any,
        retry: Any,
        more: bytes,
        delay_ms: int,
        credit: int,
    ) -> TaskKind:
        rules.checked_service(service, priority, None)
        rules.checked_at_least_once(at_least_once)
        rules.checked_retry(retry)
        timeout_ms = self._timeout_ms if timeout is None else rules.timeout_ms(timeout)
        return TaskKind(service, timeout_ms, priority, at_least_once, self.retry_of(retry), more, delay_ms, credit)
