"""What waits for an outcome in a program with threads: a caller, or a future. Knows no sockets.

The I/O thread calls each with its task when that has ended. In a child that was forked meanwhile nobody will do so;
there each is told that it is an orphan, and may be in whatever state the parent's I/O thread had left it in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from famulus.client.rules import error_of
from famulus.core.session.client import Done
from famulus.errors import BadAnswer, OutcomeError


class WaitingThread:
    """A thread that waits for one task."""

    __slots__ = ("_done", "_ended", "_error")

    def __init__(self) -> None:
        self._ended = threading.Lock()
        self._ended.acquire()
        self._done: Done | None = None
        self._error: OutcomeError | None = None

    @property
    def is_over(self) -> bool:
        return self._done is not None or self._error is not None

    def __call__(self, done: Done) -> None:
        self._done = done
        self._ended.release()

    def wait(self) -> bytes:
        self._ended.acquire()
        done = self._done
        if done is None:
            assert self._error is not None
            raise self._error
        if done.outcome == "OK":
            return done.body
        raise error_of(done)

    def orphan(self, error: OutcomeError) -> None:
        # If a thread waits here, it is the one that forked, in a signal handler.
        if self._done is None:
            self._error = error
        if self._ended.locked():
            self._ended.release()


class Promise(Future[Any]):
    """A future that settles itself, and then leaves the `waiters`. `read` makes a value of the body, or a BadAnswer."""

    def __init__(
        self, waiters: set[Any], cancel: Callable[[object], None], read: Callable[[bytes], Any] | None = None
    ) -> None:
        super().__init__()
        self._read = read
        self.set_running_or_notify_cancel()  # it is settled by its outcome alone
        self._all_waiters = waiters
        self._cancel = cancel

    def cancel(self) -> bool:
        """Have the task removed if it waits, or stopped if that is possible. False if it has ended already.

        The future is done when the broker has said what became of the task, soon: `Rejected` or `Unknown` with the code
        `cancelled`, or its answer if that was faster.
        """
        if self.done():
            return False
        self._cancel(self)
        return True

    def __call__(self, done: Done) -> None:
        if done.outcome != "OK":
            self.set_exception(error_of(done))
        elif self._read is None:
            self.set_result(done.body)
        else:
            self._settle_with_value(self._read, done.body)
        # Last of all: until then it may be half settled, with its lock held.
        self._all_waiters.discard(self)

    def _settle_with_value(self, read: Callable[[bytes], Any], body: bytes) -> None:
        try:
            value = read(body)
        except BadAnswer as error:
            self.set_exception(error)
        else:
            self.set_result(value)

    def orphan(self, error: OutcomeError) -> None:
        # Its lock may be held for ever; and the parent runs its callbacks.
        self._condition = threading.Condition()
        self._done_callbacks: list[object] = []
        self._waiters = []
        if not self.done():
            self.set_exception(error)


Waiter = WaitingThread | Promise
