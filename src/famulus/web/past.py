"""Tasks that only the journal still has: asked for in a process of its own, by a thread, a few at a time.

So neither a search that takes long nor many who search get in the way of the herald's other work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from time import monotonic_ns
from typing import Any

from famulus.errors import NoAnswer
from famulus.journal import apart
from famulus.journal.questions import JournalAnswer, Question, StoryQuestion, TasksQuestion
from famulus.web import threads
from famulus.web.status.ended import TaskFilter
from famulus.web.status.views import EndedTask
from famulus.web.turnstile import Turnstile

AT_ONCE = 2
NS_PER_MS = 1_000_000


class PastTasks:
    def __init__(self, folder: Path | None, clock: Callable[[], int] = monotonic_ns) -> None:
        """`folder`: of the journal; None if there is none."""
        self._folder = folder
        self._clock = clock
        self._turnstile = Turnstile(AT_ONCE)

    @property
    def is_kept(self) -> bool:
        return self._folder is not None

    async def last(self, wanted: TaskFilter, until_ms: float | None, limit: int) -> list[EndedTask]:
        """The newest first. Raises NoAnswer if too many ask, or the journal is too large."""
        question = TasksQuestion(tuple(sorted(wanted.outcomes)), wanted.equal, until_ms, limit)
        return [_ended_task(row) for row in (await self._ask(question)).tasks]

    async def story(self, message_id: str, since_ms: float | None, until_ms: float | None) -> JournalAnswer:
        return await self._ask(StoryQuestion(message_id, since_ms, until_ms))

    async def _ask(self, question: Question) -> JournalAnswer:
        folder = self._folder
        if folder is None:
            return JournalAnswer()
        if not self._turnstile.enter(self._clock()):
            raise NoAnswer("others search the journal already; try again in a moment")
        try:
            asking = threads.start(lambda: apart.ask(folder, question), "journal")
        except RuntimeError:  # the system gives us no more threads
            self._turnstile.leave()
            raise NoAnswer("too many at once; try again in a moment") from None
        asking.add_done_callback(lambda _: self._turnstile.leave())
        return await asyncio.shield(asking)


def _ended_task(row: dict[str, Any]) -> EndedTask:
    return EndedTask(
        message_id=row["message_id"],
        service=row["service"],
        outcome=row["outcome"],
        reason=row["reason"] or "",
        worker=row["worker"] or "",
        delegated_to=row["delegated_to"] or "",
        delegated_from=row["delegated_from"] or "",
        principal=None,
        attempt=row["attempt"],
        at_most_once=row["at_most_once"],
        priority=row["priority"],
        ended_ms=round(datetime.fromisoformat(row["ended"]).timestamp() * 1000, 3),
        total_ms=row["total_ns"] / NS_PER_MS,
        queue_ms=row["queue_ns"] / NS_PER_MS,
        request_bytes=row["request_bytes"],
        response_bytes=row["response_bytes"],
    )
