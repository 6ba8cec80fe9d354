"""Many tasks of one caller that keeps account of them itself: it names each by a number, and hears when it ended."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import repeat
from time import monotonic_ns
from typing import Final

from famulus.client import rules
from famulus.client.own_headers import more_fields
from famulus.client.threads import Client
from famulus.core.session.client import Wish
from famulus.core.session.done import Done as Done
from famulus.core.session.retry import LIKE_CLIENT
from famulus.core.session.task_kind import TaskKind
from famulus.errors import OutcomeError
from famulus.wire.limits import PRIORITY_DEFAULT

# Final, so that compiled code has it at hand instead of looking it up each time.
clock_ns: Final = monotonic_ns


class Many:
    def __init__(
        self,
        client: Client,
        service: str,
        *,
        priority: int = PRIORITY_DEFAULT,
        at_least_once: bool = False,
        idempotent: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        rules.checked_service(service, priority, None)
        self._client = client
        self._service, self._priority = service, priority
        self._retry = client._kinds.retry_of(LIKE_CLIENT)
        if idempotent:
            self._retry = client._of_idempotent(LIKE_CLIENT, at_least_once, idempotent, None, None)
        self._at_least_once = at_least_once or idempotent
        self._more = more_fields("", headers) if headers else b""
        #: The kind of the last task; the next one mostly has the same time-out.
        self._kind = TaskKind(service, 0, priority, self._at_least_once, self._retry, self._more)
        self._came: deque[tuple[int, Done]] = deque()
        # Held while there is nothing to take; the I/O thread releases it.
        self._nothing = threading.Lock()
        self._nothing.acquire()
        self._error: OutcomeError | None = None
        client._waiters.add(self)  # type: ignore[arg-type]  # of which only `orphan` is used

    def submit(
        self, numbers: Iterable[int], bodies: Iterable[bytes], message_ids: Iterable[str], timeout_ms: int
    ) -> None:
        """Each has a number by which its caller knows it, and a message_id or "". Their bodies have been checked."""
        kind = self._kind_of(timeout_ms)
        wishes: list[Wish] = list(zip(repeat(self), repeat(kind), bodies, message_ids, numbers, strict=False))
        self._client._leave_wishes(wishes, self._at_least_once)

    def take(self, wait_s: float) -> list[tuple[int, Done]]:
        """Those that have ended since, and when; waits until there is one, but no longer than that."""
        came = self._came
        if not came and wait_s > 0:
            self._nothing.acquire(timeout=wait_s)
        if self._error is not None:
            raise self._error
        return [came.popleft() for _ in range(len(came))]

    def close(self) -> None:
        """Whatever is open is cancelled."""
        self._client._waiters.discard(self)
        self._client._cancel(self, may_wait=False)

    def _kind_of(self, timeout_ms: int) -> TaskKind:
        if timeout_ms != self._kind.timeout_ms:
            self._kind = TaskKind(
                self._service, timeout_ms, self._priority, self._at_least_once, self._retry, self._more
            )
        return self._kind

    # -- the I/O thread -----------------------------------------------------------------------------------------

    def __call__(self, done: Done) -> None:
        self._came.append((clock_ns(), done))
        if self._nothing.locked():
            self._nothing.release()

    def orphan(self, error: OutcomeError) -> None:
        """This process was forked, and what is open is the parent's."""
        self._error = error
        if self._nothing.locked():
            self._nothing.release()
