"""One call of a function for a batch of tasks, and what becomes of each: an answer, whatever the function does.

An exception in the place of a result is the ERROR of that task alone. One that is raised, and a result that is no list
of the right length, are the ERROR of all that the function got.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import monotonic_ns
from typing import Any

from famulus import tracing
from famulus.wire import headers
from famulus.worker.calls import (
    EXPIRED,
    NOT_BEGUN,
    Answer,
    BadArguments,
    BatchAnswer,
    BatchCall,
    Call,
    failed,
    log_failure,
    perform,
    to_bytes,
)
from famulus.worker.outgoing_parts import StreamCall
from famulus.worker.stream_call import perform_stream
from famulus.worker.task import read_task
from famulus.worker.traced_function import headers_of, note_wait


def perform_any(call: Call) -> Answer:
    """What a thread does with a call."""
    if type(call) is Call:
        return perform(call)
    if isinstance(call, StreamCall):
        return perform_stream(call)
    assert isinstance(call, BatchCall)
    return perform_batch(call)


def perform_batch(batch: BatchCall) -> BatchAnswer:
    return attempt_batch(batch).finish()


async def answer_of_batch(batch: BatchCall) -> BatchAnswer:
    """Like `perform_batch`, with an await in the middle."""
    attempt = Attempt(batch)
    if attempt.ready:
        try:
            with attempt.span():
                attempt.take(await attempt.begin())
        except BaseException as error:
            attempt.fail(error)
    return attempt.finish()


def attempt_batch(batch: BatchCall) -> Attempt:
    attempt = Attempt(batch)
    if attempt.ready:
        try:
            with attempt.span():
                attempt.take(attempt.begin())
        except BaseException as error:
            # Also SystemExit and KeyboardInterrupt, as for a single task.
            attempt.fail(error)
    return attempt


class Attempt:
    """Reads the tasks of a batch, and keeps what becomes of each."""

    def __init__(self, batch: BatchCall) -> None:
        assert batch.service.batching is not None
        self._batch = batch
        self._batching = batch.service.batching
        #: By the place of a task in the batch: its answer, and the traceback of what went wrong with it alone.
        self.ended: dict[int, tuple[Answer, str]] = {}
        #: The traceback of what the function raised.
        self.trace = ""
        #: The places of those that the function gets, with their items and the content types of their answers.
        self.ready: list[tuple[int, Any, str]] = []
        now_ns = monotonic_ns()
        for place, call in enumerate(batch.calls):
            self._read(place, call, now_ns)

    def _read(self, place: int, call: Call, now_ns: int) -> None:
        if call.given.is_cancelled:
            self.ended[place] = Answer(call.given, NOT_BEGUN, b""), ""
            return
        if call.deadline_ns <= now_ns:
            self.ended[place] = Answer(call.given, EXPIRED, b""), ""
            return
        try:
            item, content_type = self._batching.read(call.given.body, call.given.header)
        except BadArguments as error:
            self.ended[place] = failed(call.given, error)
        else:
            self.ready.append((place, item, content_type))

    def begin(self) -> Any:
        """What the function returns: its results, or a coroutine."""
        function: Callable[..., Any] = self._batch.service.function
        items = [item for _, item, _ in self.ready]
        if not self._batching.wants_tasks:
            return function(items)
        calls = [self._batch.calls[place] for place, _, _ in self.ready]
        return function(items, [read_task(call.given, call.deadline_ns, call.service.tell_progress) for call in calls])

    def take(self, results: object) -> None:
        """What the function returned."""
        if not isinstance(results, list | tuple):
            raise TypeError(f"a function with batch returns a list, not {type(results).__name__}")
        if len(results) != len(self.ready):
            raise ValueError(f"it returned {len(results)} results for a batch of {len(self.ready)}")
        for (place, _, content_type), result in zip(self.ready, results, strict=True):
            given = self._batch.calls[place].given
            try:
                if isinstance(result, BaseException):
                    self.ended[place] = failed(given, result)
                else:
                    self.ended[place] = Answer(given, "", to_bytes(self._batching.write(result, content_type))), ""
            except Exception as error:
                self.ended[place] = failed(given, error)

    def fail(self, error: BaseException) -> None:
        """The same ERROR for all that the function got."""
        for place, _, _ in self.ready:
            answer, self.trace = failed(self._batch.calls[place].given, error)
            self.ended[place] = answer, ""

    def finish(self) -> BatchAnswer:
        """All answers, in the order of the tasks; and what went wrong, in the log."""
        if self.trace:
            log_failure(self._batch, self.trace)
        answers = []
        for place, call in enumerate(self._batch.calls):
            answer, trace = self.ended[place]
            if trace:
                log_failure(call, trace)
            answers.append(answer)
        return BatchAnswer(self._batch, answers)

    def span(self) -> AbstractContextManager[None]:
        if not self._batching.is_traced:
            return nullcontext()
        own: list[dict[str, str]] = []
        for place, _, _ in self.ready:
            call = self._batch.calls[place]
            request = headers.read_task_request(call.given.header)
            if request is not None:
                note_wait(request, call.deadline_ns)
            own.append(headers_of(request))
        return tracing.running_batch(self._batch.service.name, own)
