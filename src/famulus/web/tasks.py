"""What the HTTP port says about single tasks: the last ones, the life of one, and the kinds of failures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from famulus.errors import NoAnswer
from famulus.web.life import life
from famulus.web.past import PastTasks
from famulus.web.replies import json_reply
from famulus.web.status.board import Board
from famulus.web.status.ended import FIELDS, OK, OUTCOMES, TaskFilter
from famulus.web.status.views import EndedTask, RunningTask

LIMIT = 100
LIMIT_MAX = 500
#: In the year 5138; later instants have no date.
MS_MAX = 1e14
#: Where in the journal a task is looked for that ended at a known time: a late answer may come after that.
BEFORE_MS = 60_000
AFTER_MS = 3_600_000
FAILED = "failed"
MEMORY, JOURNAL = "memory", "journal"


class BadQuestion(Exception):
    """One sentence for whoever asked."""


class TaskSearch(Struct, frozen=True):
    wanted: TaskFilter
    source: str
    until_ms: float | None
    limit: int


class Tasks:
    def __init__(self, board: Board, past: PastTasks) -> None:
        self._board = board
        self._past = past

    def routes(self) -> list[Route]:
        return [
            Route("/api/v1/tasks", self.last),
            Route("/api/v1/tasks/{message_id:path}", self.one),
        ]

    async def last(self, request: Request) -> Response:
        try:
            question = read_question(request.query_params)
            tasks = await self._last(question)
        except BadQuestion as error:
            return json_reply({"error": str(error)}, 400)
        except NoAnswer as error:
            return json_reply({"error": str(error)}, 503)
        told = {"source": question.source, "journal": self._past.is_kept, "tasks": tasks}
        running = [each for each in self._board.running if question.wanted.may_become(each)]
        return json_reply({**told, "running": running, "choices": self._board.ended.choices()})

    async def _last(self, question: TaskSearch) -> list[EndedTask]:
        wanted, limit = question.wanted, question.limit
        if question.source == MEMORY:
            return self._board.ended.last(wanted, limit)
        if not self._past.is_kept:
            raise BadQuestion("this broker keeps no journal")
        if wanted.principal is not None:
            raise BadQuestion("the journal does not say whose a task was: leave out the principal")
        return await self._past.last(wanted, question.until_ms, limit)

    async def one(self, request: Request) -> Response:
        """With `from=memory` at once, though it may be only the end of its life; otherwise the journal is asked."""
        message_id = request.path_params["message_id"]
        known = self._board.ended.find(message_id)
        remembered = known or self._running(message_id)
        try:
            ended_ms = known.ended_ms if known is not None else _instant(request.query_params, "ended_ms")
            if self._past.is_kept and request.query_params.get("from") != MEMORY:
                told = await self._from_journal(message_id, known, ended_ms)
                if told is not None:
                    return json_reply(told)
        except BadQuestion as error:
            return json_reply({"error": str(error)}, 400)
        except NoAnswer as error:
            if remembered is None:
                return json_reply({"error": str(error)}, 503)
        if remembered is None:
            return json_reply({"error": self._not_found()}, 404)
        return json_reply(self._story(MEMORY, life(remembered, self._board.supervisor.identity).as_dict(), remembered))

    async def _from_journal(
        self, message_id: str, known: EndedTask | None, ended_ms: float | None
    ) -> dict[str, Any] | None:
        around = (None, None) if ended_ms is None else (ended_ms - _total_ms(known) - BEFORE_MS, ended_ms + AFTER_MS)
        found = await self._past.story(message_id, *around)
        if len(found.ids) > 1:
            raise BadQuestion(f"several ids begin like this: {', '.join(found.ids)}")
        # What was open at the last checkpoint may have ended since then, and we know how.
        if found.story is None or (known is not None and found.story["outcome"] is None):
            return None
        running = self._running(found.story["message_id"]) if found.story["outcome"] is None else None
        return self._story(JOURNAL, found.story, known or running)

    def _story(self, source: str, story: dict[str, Any], remembered: EndedTask | RunningTask | None) -> dict[str, Any]:
        principal = remembered.principal if remembered is not None else None
        running = remembered if isinstance(remembered, RunningTask) else None
        told = {"source": source, "journal": self._past.is_kept, "principal": principal, "story": story}
        return {**told, "running": running}

    def _running(self, message_id: str) -> RunningTask | None:
        return next((task for task in self._board.running if task.message_id == message_id), None)

    def _not_found(self) -> str:
        if not self._past.is_kept:
            return "it is not among the last tasks, and this broker keeps no journal"
        return (
            "neither the last tasks nor the journal have it; a row can be read up to a minute after its task has ended"
        )

    def failures(self) -> object:
        """By service, outcome and reason, with an example of each."""
        broker = self._board.supervisor.identity
        kinds = [
            {**asdict(kind), "try_again": life(kind.example, broker).verdict.try_again}
            for kind in self._board.ended.kinds()
        ]
        return {"failures": kinds}


def _total_ms(known: EndedTask | None) -> float:
    return known.total_ms if known is not None else 0.0


def read_question(given: Mapping[str, str]) -> TaskSearch:
    """What an address says after its question mark; a name without a value does not matter."""
    named = {name: given[name] for name in FIELDS if given.get(name)}
    source = given.get("from") or MEMORY
    if source not in (MEMORY, JOURNAL):
        raise BadQuestion(f"from: {MEMORY} or {JOURNAL}")
    limit = given.get("limit") or str(LIMIT)
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= LIMIT_MAX):
        raise BadQuestion(f"limit: a number from 1 to {LIMIT_MAX}")
    wanted = TaskFilter(_outcomes(given.get("outcome", "")), **named)
    return TaskSearch(wanted, source, _instant(given, "until_ms"), int(limit))


def _outcomes(text: str) -> frozenset[str]:
    if not text:
        return OUTCOMES
    if text == FAILED:
        return OUTCOMES - {OK}
    if text not in OUTCOMES:
        raise BadQuestion(f"outcome: {FAILED}, or one of {', '.join(sorted(OUTCOMES))}")
    return frozenset({text})


def _instant(given: Mapping[str, str], name: str) -> float | None:
    text = given.get(name)
    if not text:
        return None
    try:
        at_ms = float(text)
    except ValueError:
        at_ms = -1.0
    if not 0 <= at_ms <= MS_MAX:
        raise BadQuestion(f"{name}: milliseconds on the wall clock")
    return at_ms
