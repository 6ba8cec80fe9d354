"""How far running tasks have got, as their workers tell it: the latest word about each, for whoever watches.

Nothing is looked for when a task ends: what is said about one that has ended is dropped when somebody looks, or when
there is no room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from famulus.core.dispatch.task import DONE

if TYPE_CHECKING:
    from famulus.core.dispatch.task import Task

#: Tasks of which something is known; beyond that, the one that was told of longest ago is forgotten.
TASKS_MAX: Final = 1000


class ToldProgress:
    def __init__(self, tasks_max: int = TASKS_MAX) -> None:
        self._tasks_max = tasks_max
        #: What was told last, and when; the task that was told of last is the last one.
        self._latest: dict[Task, tuple[bytes, int]] = {}

    def __len__(self) -> int:
        return len(self._latest)

    def note(self, task: Task, body: bytes, now_ns: int) -> None:
        latest = self._latest
        if task in latest:
            del latest[task]
        elif len(latest) >= self._tasks_max:
            self._drop_ended()
            if len(latest) >= self._tasks_max:
                del latest[next(iter(latest))]
        latest[task] = (body, now_ns)

    def running(self) -> list[tuple[Task, bytes, int]]:
        """What is known about tasks that have not ended, the one that was told of last first."""
        self._drop_ended()
        told = [(task, body, at_ns) for task, (body, at_ns) in self._latest.items()]
        told.reverse()
        return told

    def _drop_ended(self) -> None:
        for task in [task for task in self._latest if task.stage == DONE]:
            del self._latest[task]
