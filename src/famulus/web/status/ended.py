"""The last tasks that have ended, and what kinds of failures there were. Bounded; knows no clock.

Tasks that failed have room of their own: however many go well, they do not push out the ones that somebody looks for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from famulus.web.status.views import EndedTask, FailureKind, RunningTask
from famulus.wire import status as snapshots

OK_MAX: Final = 1000
FAILED_MAX: Final = 2000
#: By service, outcome and reason. The one that was seen longest ago makes room.
KINDS_MAX: Final = 300
#: Of each field.
CHOICES_MAX: Final = 200
#: What tasks can be chosen by, besides their outcomes.
FIELDS: Final = ("service", "reason", "worker", "principal")

OK: Final = "OK"
OUTCOMES: Final = frozenset({OK, "ERROR", "REJECTED", "UNKNOWN"})


class TaskFilter(Struct, frozen=True):
    """Which tasks are wanted; what is not given does not matter."""

    outcomes: frozenset[str] = OUTCOMES
    service: str | None = None
    reason: str | None = None
    worker: str | None = None
    principal: str | None = None

    @property
    def equal(self) -> dict[str, str]:
        named = {name: getattr(self, name) for name in FIELDS}
        return {name: value for name, value in named.items() if value is not None}

    def fits(self, task: EndedTask) -> bool:
        return task.outcome in self.outcomes and all(getattr(task, name) == value for name, value in self.equal.items())

    def may_become(self, running: RunningTask) -> bool:
        """Whether it may fit once it has ended: nobody knows yet how that will be."""
        known = ("service", "worker", "principal")
        return all(getattr(running, name) == value for name, value in self.equal.items() if name in known)


class EndedTasks:
    def __init__(self) -> None:
        # The newest first.
        self._ok: deque[EndedTask] = deque(maxlen=OK_MAX)
        self._failed: deque[EndedTask] = deque(maxlen=FAILED_MAX)
        self._kinds: dict[tuple[str, str, str], FailureKind] = {}

    def __len__(self) -> int:
        return len(self._ok) + len(self._failed)

    def __iter__(self) -> Iterator[EndedTask]:
        """The newest first."""
        return merge(self._ok, self._failed, key=lambda task: -task.ended_ms)

    def take(self, told: snapshots.TaskEnds, now_ms: int) -> None:
        for each in told.tasks:
            task = _ended_task(each, now_ms)
            if task.outcome == OK:
                self._ok.appendleft(task)
            else:
                self._failed.appendleft(task)
                self._count(task)

    def last(self, wanted: TaskFilter, limit: int) -> list[EndedTask]:
        return list(islice(filter(wanted.fits, self), limit))

    def find(self, message_id: str) -> EndedTask | None:
        return next((task for task in self if task.message_id == message_id), None)

    def choices(self) -> dict[str, list[str]]:
        """By field, the values that tasks have here, for who wants to choose one of them."""
        tasks = list(self)
        return {name: sorted({getattr(task, name) for task in tasks} - {""})[:CHOICES_MAX] for name in FIELDS}

    def kinds(self) -> list[FailureKind]:
        """The one that was seen last first."""
        return list(reversed(self._kinds.values()))

    def _count(self, task: EndedTask) -> None:
        key = (task.service, task.outcome, task.reason)
        before = self._kinds.pop(key, None)
        times, first_ms = (before.times, before.first_ms) if before is not None else (0, task.ended_ms)
        self._kinds[key] = FailureKind(*key, times + 1, first_ms, task)
        if len(self._kinds) > KINDS_MAX:
            del self._kinds[next(iter(self._kinds))]


def _ended_task(told: snapshots.TaskEnd, now_ms: int) -> EndedTask:
    facts = asdict(told)
    ago_ms, total_ms, queue_ms = (facts.pop(name) / 1000 for name in ("ended_ago_us", "total_us", "queue_us"))
    return EndedTask(**facts, ended_ms=round(now_ms - ago_ms, 3), total_ms=total_ms, queue_ms=queue_ms)
