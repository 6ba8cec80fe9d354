"""What the dispatcher has to tell its journal: rows of facts. Knows nothing about their layout.

A task is one row at the end of each attempt. What is open is a row at a checkpoint, once for each state that it is seen
in: so tasks that are lost in a crash were written down before, and a task costs a bounded number of rows. Without a
journal nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from famulus.core.access import BACKEND, CALL, FRONTEND, NO_KEY, SERVE, UNKNOWN_KEY, Access, Refusal
from famulus.core.clock import NS_PER_S
from famulus.core.dispatch.strangers import host_of
from famulus.core.dispatch.task import DELAYED, QUEUED, Task
from famulus.wire import inner, reasons
from famulus.wire.rows import BrokerRow, Journal, PeerRow, Row, WorkerRow

if TYPE_CHECKING:
    from famulus.core.dispatch.accounts import Account
    from famulus.core.dispatch.session import Session


#: How the rows of attempts end that do not end their task; in addition to the tails of `famulus.wire.inner`.
TAIL_RETRY: Final = inner.tail("RETRY", reasons.reason(reasons.WORKER_LOST, "another attempt follows"))
TAIL_LATE: Final = b',"outcome":"LATE"}'
_OVERLOAD: Final = reasons.OVERLOAD.encode()

STATE_DELAYED: Final = b"delayed"
STATE_QUEUED: Final = b"queued"
STATE_RUNNING: Final = b"running"
STATE_DELEGATED: Final = b"delegated"

#: How often what waits for its time is written down again. Otherwise it would seem to be forgotten: other tasks end, or
#: are at least given to somebody, sooner than that (see `famulus.journal.fates.OVERDUE`).
DELAYED_AGAIN_S: Final = 40
#: Per checkpoint; the rest is only counted.
OPEN_ROWS_MAX: Final = 20_000
#: Services with rows of their own at one checkpoint.
LOAD_ROWS_MAX: Final = 2_000
#: How many checkpoints without a refusal end an overload.
CALM_CHECKPOINTS: Final = 5


class Facts:
    def __init__(self, journal: Journal | None = None) -> None:
        self.on = journal is not None
        journal = journal or _Nowhere()
        self._journal = journal
        self._task = journal.task
        self.access = Access(self.on)
        #: Tasks given to other brokers since the last checkpoint, by broker and service.
        self.delegated: dict[tuple[bytes, bytes], int] = {}
        #: Tasks refused for overload since the last checkpoint, by service.
        self.refused: dict[bytes, int] = {}
        #: Services in overload, with the number of checkpoints since their last refusal.
        self._overloaded: dict[bytes, int] = {}

    # -- as it happens ------------------------------------------------------------------------------------------

    def ended(self, task: Task, ticket: bytes, tail: bytes, moment: object, response_bytes: int) -> None:
        """An attempt has ended, and usually its task with it."""
        if task.account.is_named:
            self._count(task, tail, moment, response_bytes)
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
        """An answer to an attempt that had already ended."""
        if not self.on:
            return
        # In the meantime the task may have been given to others.
        whose = (task.account, task.client, task.envelope)
        past = Task(*whose, b"", task.arrived_ns, task.flow, task.message_id, task.arrived)
        past.service, past.attempt, past.request_bytes = task.service, task.attempt, task.request_bytes
        past.worker, past.delegate = worker, delegate
        past.assigned = task.assigned if task.ticket == ticket else 0
        self.ended(past, ticket, TAIL_LATE, now_ns, response_bytes)

    def delayed(self, task: Task, now_ns: int) -> None:
        """At once, since its other rows do not say when it came."""
        if self.on:
            self._note(task, STATE_DELAYED, now_ns)

    def worker(self, session: Session, event: bytes, now_ns: int, tasks: int = -1, reason: bytes = b"") -> None:
        if self.on:
            services = b"\n".join([service.name for service in session.services])
            self._journal.note(WorkerRow(now_ns, session.identity, event, services, session.slots, tasks, reason))

    def stranger(self, name: bytes, event: bytes, now_ns: int, reason: bytes = b"") -> None:
        """About a worker that has no session."""
        if self.on:
            self._journal.note(WorkerRow(now_ns, name, event, reason=reason))

    def gave(self, delegate: bytes, service: bytes) -> None:
        if self.on:
            key = (delegate, service)
            self.delegated[key] = self.delegated.get(key, 0) + 1

    def refuse(self, service: bytes) -> None:
        if self.on:
            self.refused[service] = self.refused.get(service, 0) + 1

    # -- who may do what ----------------------------------------------------------------------------------------

    def over_limit(self, task: Task, now_ns: int) -> None:
        """Its principal has too many open, or sends too many."""
        whose, address = task.account.name, host_of(task.client)
        self.access.refuse(Refusal(FRONTEND, CALL, _OVERLOAD, whose, b"", address, task.service.name), now_ns)

    def void(self, account: Account, port: bytes, peer: bytes, now_ns: int) -> None:
        """One that was let in, and that the config does not know any more, wants something: we do not read what."""
        why, wanted = UNKNOWN_KEY if account.name else NO_KEY, CALL if port == FRONTEND else SERVE
        self.access.refuse(Refusal(port, wanted, why, account.name, b"", host_of(peer)), now_ns)

    def not_allowed(
        self, origin: bytes, wanted: bytes, principal: bytes, peer: bytes, services: list[bytes], now_ns: int
    ) -> None:
        port = FRONTEND if origin == inner.FROM_CLIENT else BACKEND
        for service in services or [b""]:
            refusal = Refusal(port, wanted, reasons.NOT_ALLOWED.encode(), principal, b"", host_of(peer), service)
            self.access.refuse(refusal, now_ns)

    def _count(self, task: Task, tail: bytes, ended: object, response_bytes: int) -> None:
        if tail == TAIL_LATE or tail == inner.REJECTED_TOO_MANY_OPEN or tail == inner.REJECTED_TOO_FAST:
            return
        use = self.access.use(task.account.name, task.service.name)
        # A task is counted where its client asked for it, and the time of a worker where the worker is.
        if tail != TAIL_RETRY and not task.flow.came_from:
            use.tasks += 1
            use.request_bytes += task.request_bytes
            use.response_bytes += response_bytes
        assigned = task.assigned
        if task.worker and assigned:
            assert isinstance(assigned, int)
            assert isinstance(ended, int)
            use.busy_ns += ended - assigned

    # -- once a second ------------------------------------------------------------------------------------------

    def checkpoint(self, tasks: Iterable[Task], work: inner.Work, now_ns: int) -> Iterator[None]:
        """Between two steps others may be served: there may be thousands of services."""
        self._note_open(tasks, now_ns)
        room = LOAD_ROWS_MAX
        for name, (free, busy, backlog) in work.items():
            if (free or busy or backlog) and room:
                yield
                room -= 1
                self._journal.note(BrokerRow(now_ns, b"load", b"", b"", name.encode(), free, busy, backlog))
        self._note_overloads(now_ns)
        for (delegate, service), count in self.delegated.items():
            self._journal.note(PeerRow(now_ns, delegate, b"delegated", tasks=count, service=service))
        self.delegated.clear()
        self.note_access(now_ns)

    def note_access(self, now_ns: int) -> None:
        for row in self.access.take(now_ns):
            self._journal.note(row)

    def _note_open(self, tasks: Iterable[Task], now_ns: int) -> None:
        room = OPEN_ROWS_MAX
        left_out = 0
        for task in tasks:
            state = _state_of(task)
            if task.noted == state and not (state == STATE_DELAYED and _is_seen_again(task, now_ns)):
                continue
            if room == 0:
                left_out += 1
                continue
            room -= 1
            self._note(task, state, now_ns)
        if left_out:
            why = b"more tasks were open than a checkpoint writes down; the next one goes on with them"
            self._journal.note(BrokerRow(now_ns, b"gap", table=b"open_tasks", rows=left_out, detail=why))

    def _note(self, task: Task, state: bytes, now_ns: int) -> None:
        task.noted = state
        flow = task.flow
        waits = state in (STATE_QUEUED, STATE_DELAYED)
        self._journal.open_task(
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

    def _note_overloads(self, now_ns: int) -> None:
        for service in self.refused:
            if service not in self._overloaded:
                self._journal.note(BrokerRow(now_ns, b"overload_on", service=service))
            self._overloaded[service] = 0
        for service, calm in list(self._overloaded.items()):
            if service in self.refused:
                continue
            self._overloaded[service] = calm + 1
            if calm + 1 >= CALM_CHECKPOINTS:
                del self._overloaded[service]
                self._journal.note(BrokerRow(now_ns, b"overload_off", service=service))
        self.refused.clear()


class _Nowhere:
    """For a dispatcher that has nobody to tell."""

    def task(self, *_: object) -> None:
        pass

    def open_task(self, *_: object) -> None:
        pass

    def note(self, row: Row) -> None:
        pass


def _is_seen_again(task: Task, now_ns: int) -> bool:
    return (now_ns - task.arrived_ns) // NS_PER_S % DELAYED_AGAIN_S == DELAYED_AGAIN_S - 1


def _state_of(task: Task) -> bytes:
    if task.stage == QUEUED:
        return STATE_QUEUED
    if task.stage == DELAYED:
        return STATE_DELAYED
    return STATE_DELEGATED if task.delegate else STATE_RUNNING
