"""Runs asynchronous functions as tasks on one asyncio loop in a thread of its own."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from functools import partial
from threading import Event, Thread
from time import monotonic_ns
from typing import Any

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.session.header_cache import Given
from famulus.net.waiting import Bell
from famulus.worker.batch_call import answer_of_batch
from famulus.worker.calls import (
    EXPIRED,
    NOT_BEGUN,
    STOPPED,
    Answer,
    BatchCall,
    Call,
    begin,
    failed,
    log_failure,
    same_answer,
    to_bytes,
)
from famulus.worker.current import in_coroutine
from famulus.worker.outgoing_parts import StreamCall
from famulus.worker.stream_call import answer_of_stream
from famulus.worker.time_limit import CANCELLED, time_limit_reason

JOIN_S = 1.0


class Coroutines:
    next_due_ns = NEVER_NS

    def __init__(self, bell: Bell) -> None:
        self.failure = ""
        self._bell = bell
        self._answers: deque[Answer] = deque()
        # The loop has only weak references to its tasks; without this, one could be collected while it runs.
        self._tasks: dict[Given, asyncio.Task[None]] = {}
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event
        started = Event()
        live = self._live(started)
        self._thread = Thread(target=asyncio.run, args=(live,), name="famulus-worker-loop", daemon=True)
        self._thread.start()
        started.wait()

    def start(self, calls: list[Call]) -> None:
        self._loop.call_soon_threadsafe(self._begin, calls)

    def take(self, now_ns: int) -> list[Answer]:
        answers = self._answers
        return [answers.popleft() for _ in range(len(answers))]

    def cancel(self, given: Given) -> bool:
        given.is_cancelled = True
        self._loop.call_soon_threadsafe(self._cancel, given)
        return False

    def close(self) -> bool:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(JOIN_S)
        return not self._thread.is_alive()

    async def _live(self, started: Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        started.set()
        await self._end.wait()  # asyncio.run then cancels what is left, and waits for it

    def _begin(self, calls: list[Call]) -> None:
        tasks = self._tasks
        for call in calls:
            task = self._loop.create_task(self._perform(call))
            tasks[call.given] = task
            task.add_done_callback(partial(self._forget, call.given))

    def _forget(self, given: Given, task: asyncio.Task[None]) -> None:
        del self._tasks[given]

    async def _perform(self, call: Call) -> None:
        call.given.has_begun = True
        in_coroutine.set(call)
        self._bring(await answer_of_any(call))

    def _bring(self, answer: Answer) -> None:
        self._answers.append(answer)
        self._bell.ring()

    def _cancel(self, given: Given) -> None:
        task = self._tasks.get(given)
        if task is None:
            return  # it has just ended
        if not given.has_begun:
            self._bring(Answer(given, NOT_BEGUN, b""))
        task.cancel()


def answer_of_any(call: Call) -> Coroutine[Any, Any, Answer]:
    """Of a task, a batch or a stream, within the limit of its service."""
    answer: Coroutine[Any, Any, Answer]
    if isinstance(call, BatchCall):
        answer = answer_of_batch(call)
    else:
        answer = answer_of_stream(call) if isinstance(call, StreamCall) else answer_of(call)
    return _within_limit(call, answer) if call.service.is_limited else answer


async def _within_limit(call: Call, coming: Coroutine[Any, Any, Answer]) -> Answer:
    limit_ns = call.service.time_limit_ns
    async with asyncio.timeout(limit_ns / NS_PER_S) as limit:
        # When it is cancelled, that is an exception like any other, and the log says where it was.
        answer = await coming
    return same_answer(call, time_limit_reason(limit_ns, CANCELLED)) if limit.expired() else answer


async def answer_of(call: Call) -> Answer:
    """Like `calls.perform`, with an await in the middle."""
    given = call.given
    if call.deadline_ns <= monotonic_ns():
        return Answer(given, EXPIRED, b"")
    try:
        coroutine: Any = begin(call)
        return Answer(given, "", to_bytes(await coroutine))
    except BaseException as error:
        # Also SystemExit, KeyboardInterrupt and CancelledError: they would end the loop, or give no answer.
        if given.is_cancelled and isinstance(error, asyncio.CancelledError):
            return Answer(given, STOPPED, b"")  # nothing failed here
        answer, trace = failed(given, error)
        if trace:
            log_failure(call, trace)
        return answer
