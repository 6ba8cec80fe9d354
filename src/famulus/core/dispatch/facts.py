"""What the dispatcher has to tell its journal: rows of facts, which go to functions that come in. Knows no layout.

A task is one row at the end of each attempt. What is open is a row at a checkpoint, once in each state that it is seen
in: so what a crash swallows was written down before, and a task costs a bounded number of rows. With no functions
nothing is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from famulus.core.dispatch.task import QUEUED, Task
from famulus.wire import inner, reasons

if TYPE_CHECKING:
    from famulus.core.dispatch.session import Session

#: Of each service: slots that are free, slots that are busy, tasks that wait.
Work = dict[str, tuple[int, int, int]]
#: Takes the fields of one row, in the order of `famulus.journal.records`.
Note = Callable[..., object]

#: How the rows of attempts end that are not the end of their task; beside the tails of `famulus.wire.inner`.
TAIL_RETRY: Final = inner.tail("RETRY", reasons.reason(reasons.WORKER_LOST, "another attempt follows"))
TAIL_LATE: Final = b',"outcome":"LATE"}'

STATE_QUEUED: Final = b"queued"
STATE_RUNNING: Final = b"running"
STATE_DELEGATED: Final = b"delegated"

#: Of one checkpoint; the rest is counted.
OPEN_ROWS_MAX: Final = 20_000
#: Services with rows of their own at one checkpoint.
LOAD_ROWS_MAX: Final = 2_000
#: Checkpoints without a refusal until an overload is over.
CALM_CHECKPOINTS: Final = 5


class Facts:
    def __init__(self, notes: Mapping[str, Note] | None = None) -> None:
        """`notes`: one for each table, or none at all."""
        self.on = notes is not None
        notes = notes or {}
        self._task: Note = notes.get("tasks", _nowhere)
        self._open_task: Note = notes.get("open_tasks", _nowhere)
        self._worker: Note = notes.get("workers", _nowhere)
        self._broker: Note = notes.get("brokers", _nowhere)
        self._peer: Note = notes.get("peers", _nowhere)
        #: Tasks given to other brokers since the last checkpoint, by broker and service.
        self.delegated: dict[tuple[bytes, bytes], int] = {}
        #: Tasks refused for overload since the last checkpoint, by service.
        self.refused: dict[bytes, int] = {}
        #: Services in overload, with the checkpoints since their last refusal.
        self._overloaded: dict[bytes, int] = {}

    # -- as it happens ------------------------------------------------------------------------------------------

    def ended(self, task: Task, ticket: bytes, tail: bytes, moment: object, response_bytes: int) -> None:
        """An attempt has ended, and mostly its task with it."""
        flow = task.flow
        self._task(
            ticket,
            task.message_id,
            task.attempt,
            task.service.name,
            task.worker,
            task.client,
            flow.at_least_once,
            flow.priority,
            task.arrived,
            task.assigned,
            flow.came_from,
            task.delegate,
            tail,
            moment,
            task.request_bytes,
            response_bytes,
        )

    def late(self, task: Task, ticket: bytes, worker: bytes, delegate: bytes, now_ns: int, response_bytes: int) -> None:
        """An answer to an attempt that had ended before."""
        if not self.on:
            return
        flow = task.flow
        assigned = task.assigned if task.ticket == ticket else 0
        self._task(
            ticket,
            task.message_id,
            task.attempt,
            task.service.name,
            worker,
            task.client,
            flow.at_least_once,
            flow.priority,
            task.arrived,
            assigned,
            flow.came_from,
            delegate,
            TAIL_LATE,
            now_ns,
            task.request_bytes,
            response_bytes,
        )

    def rejected_unseen(
        self,
        ticket: bytes,
        message_id: bytes,
        service: bytes,
        client: bytes,
        terms: inner.Terms,
        visited: list[bytes],
        arrived_ns: int,
        tail: bytes,
        now_ns: int,
        request_bytes: int,
    ) -> None:
        """A task for which there is no service, or no time any more."""
        if self.on:
            came_from = visited[-1] if visited else b""
            self._task(
                ticket,
                message_id,
                0,
                service,
                b"",
                client,
                terms.at_least_once,
                terms.priority,
                arrived_ns,
                0,
                came_from,
                b"",
                tail,
                now_ns,
                request_bytes,
                0,
            )

    def worker(self, session: Session, event: bytes, now_ns: int, tasks: int = -1, reason: bytes = b"") -> None:
        if self.on:
            services = b"\n".join([service.name for service in session.services])
            self._worker(now_ns, session.identity, event, services, session.slots, tasks, reason)

    def stranger(self, name: bytes, event: bytes, now_ns: int, reason: bytes = b"") -> None:
        """Of a worker that has no session."""
        if self.on:
            self._worker(now_ns, name, event, b"", 0, -1, reason)

    def gave(self, delegate: bytes, service: bytes) -> None:
        if self.on:
            key = (delegate, service)
            self.delegated[key] = self.delegated.get(key, 0) + 1

    def refuse(self, service: bytes) -> None:
        if self.on:
            self.refused[service] = self.refused.get(service, 0) + 1

    # -- once a second ------------------------------------------------------------------------------------------

    def checkpoint(self, tasks: Iterable[Task], work: Work, now_ns: int) -> None:
        self._note_open(tasks, now_ns)
        room = LOAD_ROWS_MAX
        for name, (free, busy, backlog) in work.items():
            if (free or busy or backlog) and room:
                room -= 1
                self._service(b"load", name.encode(), free, busy, backlog, now_ns)
        self._note_overloads(now_ns)
        for (delegate, service), count in self.delegated.items():
            self._peer(now_ns, delegate, b"delegated", -1, -1, -1, count, service)
        self.delegated.clear()

    def _note_open(self, tasks: Iterable[Task], now_ns: int) -> None:
        room = OPEN_ROWS_MAX
        left_out = 0
        for task in tasks:
            state = _state_of(task)
            if task.noted == state:
                continue
            if room == 0:
                left_out += 1
                continue
            room -= 1
            task.noted = state
            flow = task.flow
            waits = state == STATE_QUEUED
            self._open_task(
                now_ns,
                b"" if waits else task.ticket,
                task.message_id,
                task.attempt,
                task.service.name,
                b"" if waits else task.worker,
                task.client,
                flow.at_least_once,
                flow.priority,
                task.arrived,
                0 if waits else task.assigned,
                flow.came_from,
                b"" if waits else task.delegate,
                state,
            )
        if left_out:
            why = b"more tasks were open than a checkpoint writes down; the next one goes on with them"
            self._broker(now_ns, b"gap", b"", b"", b"", -1, -1, -1, b"open_tasks", left_out, why)

    def _note_overloads(self, now_ns: int) -> None:
        for service in self.refused:
            if service not in self._overloaded:
                self._service(b"overload_on", service, -1, -1, -1, now_ns)
            self._overloaded[service] = 0
        for service, calm in list(self._overloaded.items()):
            if service in self.refused:
                continue
            self._overloaded[service] = calm + 1
            if calm + 1 >= CALM_CHECKPOINTS:
                del self._overloaded[service]
                self._service(b"overload_off", service, -1, -1, -1, now_ns)
        self.refused.clear()

    def _service(self, event: bytes, name: bytes, free: int, busy: int, backlog: int, now_ns: int) -> None:
        self._broker(now_ns, event, b"", b"", name, free, busy, backlog, b"", -1, b"")


def _nowhere(*_: object) -> None:
    pass


def _state_of(task: Task) -> bytes:
    if task.stage == QUEUED:
        return STATE_QUEUED
    return STATE_DELEGATED if task.delegate else STATE_RUNNING
