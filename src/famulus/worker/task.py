"""What a function may know about the task it works on, besides its body."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.wire import headers

if TYPE_CHECKING:
    from famulus.core.session.header_cache import Given


@dataclass(frozen=True, slots=True)
class Task:
    """One task, as the second argument of a function that asks for it.

    @worker.service("report")
    def report(body: bytes, task: Task) -> bytes:
        if task.time_left() < 2.0:
            raise TimeoutError("no time left to write it")
        customer = task.headers.get("customer")
        ...
    """

    #: Unique per task; `famulus trace` finds it by this.
    message_id: str
    #: Whose function was called.
    service: str
    #: 1 for the first attempt; more when an at-least-once service tries again.
    attempt: int
    #: On the clock of `time.monotonic()`, in seconds; infinite if the task has no time-out.
    deadline: float
    #: All fields of the header, including those that the network does not know.
    header: Mapping[str, Any]
    #: As the client sent it.
    body: bytes
    _given: Given | None = field(default=None, repr=False, compare=False)

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants the answer any more: a function in a thread may look, and raise something.

        Coroutines get a CancelledError instead, and a child process is killed.
        """
        return self._given is not None and self._given.is_cancelled

    @property
    def headers(self) -> Mapping[str, str]:
        """What the client gave as `headers`."""
        own: Mapping[str, str] = self.header.get("headers", {})
        return own

    def time_left(self) -> float:
        """Seconds until nobody waits for the answer any more; 0 once that time is over."""
        return max(0.0, self.deadline - monotonic())


def read_task(given: Given, deadline_ns: int) -> Task:
    """The task of a header that is known to be valid."""
    fields = headers.read_fields(given.header)
    request = headers.read_message(fields)
    assert isinstance(request, headers.TaskRequest)
    deadline = deadline_ns / NS_PER_S if deadline_ns < NEVER_NS else math.inf
    return Task(request.message_id, request.service, request.attempt, deadline, fields, given.body, given)
