"""The parts of one stream on their way from the function that gives them to the I/O thread, and the credit back.

A part is added by whoever runs the function, one at a time; everything else is done by the I/O thread. What is here at
once is bounded by the credit. There is no lock: each attribute is set by one side only, apart from `is_listed`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Event
from time import monotonic_ns
from typing import Final

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.session.header_cache import Given
from famulus.net.waiting import Bell
from famulus.wire import reasons
from famulus.worker.calls import STOPPED, Call

# Final, so that compiled code does not look it up each time.
clock_ns: Final = monotonic_ns

OVER: Final = reasons.reason(reasons.EXPIRED, "its time was over in the middle of its stream")


class OutgoingParts:
    def __init__(self, given: Given, last: int, deadline_ns: int, bell: Bell, listed: deque[OutgoingParts]) -> None:
        self.given = given
        self._deadline_ns = deadline_ns
        self._bell = bell
        #: Those at which the I/O thread is going to look.
        self._listed = listed
        #: It will look at this one, so that nobody need tell it; and it has a date for that.
        self.is_listed = False
        self.is_held = False
        #: How many were added, and up to which number they are wanted.
        self.added = 0
        self.last = last
        #: Why no more are wanted.
        self.closed = ""
        #: Called when one of the last two has changed; there only while somebody waits for that.
        self.wake: Callable[[], None] | None = None
        #: The function has returned, or never will.
        self.over = Event()
        self._bodies: deque[bytes] = deque()

    # -- for whoever runs the function --------------------------------------------------------------------------

    def are_wanted(self) -> bool:
        """Whether there is credit for one more, and somebody to read it."""
        return self.added < self.last and not self.closed and clock_ns() < self._deadline_ns

    def refusal(self) -> str:
        """Why no more will ever be wanted. Empty if only credit is missing."""
        return self.closed or ("" if clock_ns() < self._deadline_ns else OVER)

    def add(self, body: bytes) -> None:
        """One more, which is wanted."""
        self._bodies.append(body)
        self.added += 1
        # Without credit there is nothing more to come, so this goes at once.
        if not self.is_listed or self.added == self.last:
            self.is_listed = True
            self._listed.append(self)
            self._bell.ring()

    def wait(self, until_ns: int = NEVER_NS) -> str:
        """Wait in a thread until one more is wanted, or it is late. Why none ever will be, if that is so."""
        news = Event()
        self.wake = news.set
        until_ns = min(until_ns, self._deadline_ns)
        while True:
            # In this order: what comes after the first line wakes us, and what came before is seen by the next ones.
            news.clear()
            refusal = self.refusal()
            if refusal or self.added < self.last or clock_ns() >= until_ns:
                break
            news.wait((until_ns - clock_ns()) / NS_PER_S if until_ns < NEVER_NS else None)
        self.wake = None
        return refusal

    @property
    def seconds_left(self) -> float | None:
        return None if self._deadline_ns == NEVER_NS else max(0, self._deadline_ns - clock_ns()) / NS_PER_S

    # -- for the I/O thread -------------------------------------------------------------------------------------

    def grant(self, last: int) -> None:
        self.last = last
        self._tell()

    def close(self) -> None:
        """Nobody wants any more."""
        self.closed = STOPPED
        self._tell()

    def take(self) -> list[bytes]:
        bodies = self._bodies
        return [bodies.popleft() for _ in range(len(bodies))]

    def _tell(self) -> None:
        wake = self.wake
        if wake is not None:
            wake()


class StreamCall(Call):
    """A call of a function that gives parts, for a client that wants them."""

    __slots__ = ("parts",)

    def __init__(self, call: Call, parts: OutgoingParts) -> None:
        super().__init__(call.given, call.service, call.deadline_ns)
        self.parts = parts
