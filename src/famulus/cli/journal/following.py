"""`famulus tasks --follow`: the tasks of a running broker as they end, and how far the others have got.

Its HTTP port is asked once a second. If very many tasks end, it is told of some of them only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import msgspec
import typer
from msgspec.structs import asdict

from famulus.cli.journal.options import shown_instant
from famulus.cli.status.http_port import HttpPort
from famulus.errors import NobodyAnswers
from famulus.journal.ids import short
from famulus.web.status.views import EndedTask, RunningTask

PAUSE_S = 1.0
#: As many as the port gives.
ASKED_MAX = 500
#: So many are known to have been shown; the port has forgotten the others.
SHOWN_MAX = 10_000


class _Answer(msgspec.Struct):
    tasks: list[EndedTask]
    running: list[RunningTask] = []


class TaskFollower:
    def __init__(
        self, port: HttpPort, wanted: dict[str, str], outcomes: Collection[str], slower_ms: float | None
    ) -> None:
        self._port = port
        self._path = f"/api/v1/tasks?{urlencode({**wanted, 'limit': ASKED_MAX})}"
        self._outcomes = outcomes
        self._slower_ms = slower_ms or 0.0
        self._shown: dict[tuple[str, float], None] = {}
        self._told: dict[str, tuple[float, str]] = {}
        self._is_new = True

    def news(self) -> Iterator[EndedTask | RunningTask]:
        """What has happened since the last call: tasks that have ended, then those that have got further."""
        answer = self._ask()
        for task in reversed(answer.tasks):
            key = (task.message_id, task.ended_ms)
            if key in self._shown:
                continue
            self._shown[key] = None
            if not self._is_new and task.outcome in self._outcomes and task.total_ms >= self._slower_ms:
                yield task
        while len(self._shown) > SHOWN_MAX:
            del self._shown[next(iter(self._shown))]
        self._is_new = False
        before, self._told = self._told, {each.message_id: (each.done, each.note) for each in answer.running}
        for running in reversed(answer.running):
            if before.get(running.message_id) != self._told[running.message_id]:
                yield running

    def _ask(self) -> _Answer:
        try:
            return msgspec.json.decode(self._port.fetch(self._path), type=_Answer)
        except msgspec.DecodeError:
            raise NobodyAnswers(f"something answers at {self._port.base}, but not as a broker does") from None


def follow(follower: TaskFollower, *, as_json: bool, sleep: Callable[[float], None] = time.sleep) -> None:
    """Until Ctrl-C. Whoever does not answer at once is an error; later it may be away for a while."""
    problem = ""
    is_first = True
    while True:
        try:
            for each in follower.news():
                typer.echo(json.dumps(_as_dict(each)) if as_json else line(each))
            problem = ""
        except NobodyAnswers as error:
            if is_first:
                raise
            if str(error) != problem:
                problem = str(error)
                typer.echo(problem, err=True)
        is_first = False
        sleep(PAUSE_S)


def _as_dict(task: EndedTask | RunningTask) -> dict[str, Any]:
    return {**asdict(task), "outcome": task.outcome if isinstance(task, EndedTask) else None}


def line(task: EndedTask | RunningTask) -> str:
    who = task.worker or (f"broker {task.delegated_to}" if task.delegated_to else "-")
    at_ms = task.ended_ms if isinstance(task, EndedTask) else task.told_ms
    at = shown_instant(datetime.fromtimestamp(at_ms / 1000, UTC))
    if isinstance(task, EndedTask):
        how = f"{task.outcome:<8} {task.reason or '-'}  {task.total_ms:,.1f} ms"
    else:
        how = f"{task.done:>7.0%}  {task.note or '-'}"
    return f"{at}  {short(task.message_id)}  {task.service}  {who}  {how}"
