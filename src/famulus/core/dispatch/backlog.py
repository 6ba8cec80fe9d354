"""Decides which waiting task is next, and whether one more may wait. Reads no clock: a timer takes care of age."""

from __future__ import annotations

from collections import OrderedDict

from famulus.core.timers import Timed
from famulus.wire.inner import Terms


class Queueable(Timed):
    """A task, as far as it matters here."""

    __slots__ = ("body", "terms")

    def __init__(self, body: bytes, terms: Terms) -> None:
        super().__init__()
        self.body = body
        self.terms = terms


class Backlog:
    """Higher priority first; within a priority, first come, first served."""

    __slots__ = ("_by_priority", "body_bytes", "tasks")

    def __init__(self) -> None:
        # OrderedDict, since an expired task leaves from the middle, and a dict would be slow to find its first key
        # then.
        self._by_priority: dict[int, OrderedDict[Queueable, None]] = {}
        self.tasks = 0
        self.body_bytes = 0

    def has_room_for(self, task: Queueable) -> bool:
        terms = task.terms
        return self.tasks < terms.backlog_tasks_max and self.body_bytes + len(task.body) <= terms.backlog_bytes_max

    def ahead_of(self, priority: int) -> int:
        """How many tasks would be served before one more of this priority."""
        if len(self._by_priority) == 1 and priority in self._by_priority:
            return self.tasks
        return sum([len(line) for urgency, line in self._by_priority.items() if urgency >= priority])

    def push(self, task: Queueable, *, front: bool = False) -> None:
        line = self._by_priority.get(task.terms.priority)
        if line is None:
            line = self._by_priority[task.terms.priority] = OrderedDict()
        line[task] = None
        if front:
            line.move_to_end(task, last=False)
        self.tasks += 1
        self.body_bytes += len(task.body)

    def head(self) -> Queueable:
        return next(iter(self._by_priority[max(self._by_priority)]))

    def remove(self, task: Queueable) -> None:
        priority = task.terms.priority
        line = self._by_priority[priority]
        del line[task]
        if not line:
            del self._by_priority[priority]
        self.tasks -= 1
        self.body_bytes -= len(task.body)
