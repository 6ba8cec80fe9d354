"""What a function may know about the task it works on, besides its body."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.wire import headers, stream

if TYPE_CHECKING:
    from famulus.core.session.header_cache import Given

#: Whoever sends what a function says about its progress; the body is what `wire.stream.write_progress` makes.
TellProgress: TypeAlias = "Callable[[Given, bytes], None]"


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
    _tell: TellProgress | None = field(default=None, repr=False, compare=False)

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

    def progress(self, done: float, note: str = "") -> None:
        """Say how far it has got, from 0 to 1, and what it does now: `task.progress(0.4, "resizing")`.

        For whoever watches the task, and for the client if it asked for a stream. Of what is said in a tenth of a
        second only the latest is sent. May be called from any thread.
        """
        body = _written(done, note)
        if self._tell is not None and self._given is not None:
            self._tell(self._given, body)

    def time_left(self) -> float:
        """Seconds until nobody waits for the answer any more; 0 once that time is over."""
        return max(0.0, self.deadline - monotonic())


def _written(done: object, note: object) -> bytes:
    if isinstance(done, bool) or not isinstance(done, Real):
        raise TypeError(f"progress: how much is done is a number from 0 to 1, not {done!r}")
    if not 0 <= float(done) <= 1:
        raise ValueError(f"progress: how much is done is a number from 0 to 1, not {done!r}")
    if not isinstance(note, str):
        raise TypeError(f"progress: its note is a text, not {note!r}")
    # Invalid Unicode could not be written.
    return stream.write_progress(float(done), note.encode("utf-8", "replace").decode())


def read_task(given: Given, deadline_ns: int, tell: TellProgress | None) -> Task:
    """The task of a header that is known to be valid."""
    fields = headers.read_valid(given.header)
    deadline = deadline_ns / NS_PER_S if deadline_ns < NEVER_NS else math.inf
    own = fields.get("message_id", ""), fields["service"], fields.get("attempt", 1)
    return Task(*own, deadline, fields, given.body, given, tell)
