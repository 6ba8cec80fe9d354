"""Decides which tasks of a service go into a batch together, and when it starts. Knows no threads and no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from famulus.core.clock import NEVER_NS

_Task = TypeVar("_Task")


class _QueuedTask(NamedTuple, Generic[_Task]):
    task: _Task
    since_ns: int
    deadline_ns: int


class Start(NamedTuple, Generic[_Task]):
    """What is to be done now. Nothing, if both are empty."""

    #: These go to the function together.
    batch: list[_Task]
    #: The time of these was up before their turn came.
    expired: list[_Task]


class BatchQueue(Generic[_Task]):
    """The tasks of one service that wait for a batch.

    A batch starts when it is full, or a while after its first task came; and not before there is room for it. So while
    all batches that may run at once do run, what comes in the meantime fills the next one.
    """

    def __init__(self, size: int, wait_ns: int, at_once: int) -> None:
        """`size`: the most tasks of a batch; `at_once`: the most batches that run at the same time."""
        self._size = size
        self._wait_ns = wait_ns
        self._at_once = at_once
        self._running = 0
        self._hurries = False
        self._waiting: deque[_QueuedTask[_Task]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, now_ns: int, task: _Task, deadline_ns: int) -> None:
        self._waiting.append(_QueuedTask(task, now_ns, deadline_ns))

    def remove(self, unwanted: Callable[[_Task], bool]) -> bool:
        """Whether there was such a task; it is not here any more."""
        kept = deque(each for each in self._waiting if not unwanted(each.task))
        is_found = len(kept) < len(self._waiting)
        self._waiting = kept
        return is_found

    def hurry(self) -> None:
        """From now on nothing waits for more: no more will come."""
        self._hurries = True

    def start(self, now_ns: int) -> Start[_Task]:
        """To be called until there is nothing to do: whenever tasks came, a batch has ended, or one is due."""
        expired: list[_Task] = []
        if self._is_due(now_ns):
            expired = self._take_expired(now_ns)
        # Once more: those whose time was up may have been its first, or made it full.
        if not self._is_due(now_ns):
            return Start([], expired)
        self._running += 1
        count = min(self._size, len(self._waiting))
        return Start([self._waiting.popleft().task for _ in range(count)], expired)

    def ended(self) -> None:
        """One of the batches that were started has ended."""
        assert self._running > 0
        self._running -= 1

    @property
    def next_due_ns(self) -> int:
        """When a batch starts, if nothing else happens before."""
        if not self._waiting or self._running >= self._at_once:
            return NEVER_NS
        if self._hurries or len(self._waiting) >= self._size:
            return 0
        return self._waiting[0].since_ns + self._wait_ns

    def _is_due(self, now_ns: int) -> bool:
        return self.next_due_ns <= now_ns

    def _take_expired(self, now_ns: int) -> list[_Task]:
        waiting = self._waiting
        expired = [each.task for each in waiting if each.deadline_ns <= now_ns]
        if expired:
            self._waiting = deque(each for each in waiting if each.deadline_ns > now_ns)
        return expired


def batches_at_once(slots: int, size: int) -> int:
    """How many batches may run at the same time: one batch less than there are slots for, since the next one fills."""
    return max(1, slots // size - 1)


def slots_for(size: int, at_once: int) -> int:
    """How many slots it takes that so many batches run while the next one fills."""
    return size * (at_once + 1)
