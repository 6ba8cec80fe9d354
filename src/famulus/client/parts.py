"""The parts of a stream as its reader takes them: what the streams of both clients have in common. Never waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from famulus.client.rules import error_of
from famulus.core.session.done import Done
from famulus.core.session.stream import Streamed
from famulus.errors import OutcomeError
from famulus.wire.limits import CREDIT_MAX

Part = TypeVar("Part", covariant=True)

#: Called with how much is done, from 0 to 1, and a note.
OnProgress = Callable[[float, str], object]

CREDIT_DEFAULT: Final = 256


def checked_credit(credit: int) -> int:
    if not isinstance(credit, int):
        raise TypeError(f"a credit is a whole number, not {credit!r}")
    if not 1 <= credit <= CREDIT_MAX:
        raise ValueError(f"a credit is a number of parts from 1 to {CREDIT_MAX}, not {credit!r}")
    return credit


class Mailbox:
    """The token of a stream's task: learns of what comes, and wakes whoever waits for it.

    Apart from the stream that a program holds: when that is garbage, the task is not wanted any more.
    """

    def __init__(self) -> None:
        self.task: Streamed | None = None
        #: Nothing more will come.
        self.is_over = False
        self._error: OutcomeError | None = None

    def wake(self) -> None:
        raise NotImplementedError

    def on_news(self, task: Streamed) -> None:
        self.task = task
        self.wake()

    def __call__(self, done: Done) -> None:
        assert isinstance(done, Streamed)
        self.task = done
        self.is_over = True
        self.wake()

    def orphan(self, error: OutcomeError) -> None:
        """In a child that was forked: whoever waits here, or goes on, gets this error."""
        self._error = error
        self.task = None
        self.is_over = True
        self.wake()

    @property
    def error(self) -> OutcomeError | None:
        """How it ended, if not well; to be asked when it is over."""
        if self.task is None or self._error is not None:
            return self._error
        return None if self.task.outcome == "OK" else error_of(self.task)


class AnyStream(Generic[Part]):
    #: What says to a loop that there are no more.
    _END: type[Exception]

    def __init__(
        self,
        mailbox: Mailbox,
        want: Callable[[Streamed], None],
        leave: Callable[[Mailbox], None],
        read: Callable[[bytes], Any] | None,
        on_progress: OnProgress | None,
    ) -> None:
        """`want`: tell the broker that more is wanted; `leave`: that nothing is; `read` makes a value of a part."""
        self._mailbox = mailbox
        self._want = want
        self._leave = leave
        self._read = read
        self._on_progress = on_progress
        #: It has been left, or read to its end.
        self._closed = False
        #: For a trace: called with the error, if there was one.
        self._at_end: Callable[[BaseException | None], None] | None = None

    def _has_next(self) -> bool:
        """Whether the next part is there. Raises at the end, or how it ended if not well."""
        if self._closed:
            raise self._END
        mailbox = self._mailbox
        # First, since parts that come before the end may come between these two lines.
        is_over = mailbox.is_over
        task = mailbox.task
        if task is not None:
            if task.progress is not None:
                self._tell_progress(task)
            if task.parts:
                return True
        if is_over:
            raise mailbox.error or self._END
        return False

    def _take(self) -> Part:
        """The next part; only after `_has_next`."""
        task = self._mailbox.task
        assert task is not None
        body = task.take()
        if task.is_low() and not self._mailbox.is_over:
            self._want(task)
        return body if self._read is None else self._read(body)  # type: ignore[return-value]

    def _tell_progress(self, task: Streamed) -> None:
        progress, task.progress = task.progress, None
        if progress is not None and self._on_progress is not None:
            self._on_progress(progress.done, progress.note)

    def _finish(self, error: BaseException | None = None) -> None:
        """It was read to its end, or is left."""
        if self._closed:
            return
        self._closed = True
        self._leave(self._mailbox)
        if self._at_end is not None:
            self._at_end(None if isinstance(error, self._END | GeneratorExit) else error)

    def when_over(self, tell: Callable[[BaseException | None], None]) -> None:
        """For a trace: it is told of the error, or of None, when nobody reads any more."""
        self._at_end = tell

    def __del__(self) -> None:
        # Not even begun, if its arguments were wrong.
        if not getattr(self, "_closed", True):
            self._finish()
