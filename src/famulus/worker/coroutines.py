"""Runs asynchronous functions as tasks on one asyncio loop in a thread of its own."""

from __future__ import annotations

import asyncio
from collections import deque
from threading import Event, Thread
from time import monotonic_ns

from famulus.core.clock import NEVER_NS
from famulus.net.waiting import Bell
from famulus.worker.calls import EXPIRED, Answer, Call, failed, log_failure, to_bytes
from famulus.worker.task import read_task

JOIN_S = 1.0


class Coroutines:
    next_due_ns = NEVER_NS

    def __init__(self, bell: Bell) -> None:
        self.failure = ""
        self._bell = bell
        self._answers: deque[Answer] = deque()
        # The loop has only weak references to its tasks; without this, one could be collected while it runs.
        self._tasks: set[asyncio.Task[None]] = set()
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
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def _perform(self, call: Call) -> None:
        self._answers.append(await _answer(call))
        self._bell.ring()


async def _answer(call: Call) -> Answer:
    """Like `calls.perform`, with an await in the middle."""
    given, service = call.given, call.service
    if call.deadline_ns <= monotonic_ns():
        return Answer(given, EXPIRED, b"")
    try:
        body = given.body
        if service.wants_task:
            result = await service.function(body, read_task(given.header, body, call.deadline_ns))
        else:
            result = await service.function(body)
        return Answer(given, "", to_bytes(result))
    except BaseException as error:
        # Also SystemExit, KeyboardInterrupt and CancelledError: they would end the loop, or give no answer.
        answer, trace = failed(given, error)
        log_failure(call, trace)
        return answer
