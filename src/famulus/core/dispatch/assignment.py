"""Decides which worker gets which task, and gives every accepted task its one outcome.

Owns the services with their LRUs and backlogs, and the wait queue. The wait queue lives in pieces: each session holds
the tickets that are out to it, which is where an answer and a loss look for them, and the timers hold the deadlines.
Knows no routers and no headers: what it sends are prefixes and tails that others prepared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from famulus.core.clock import NEVER_NS, NS_PER_MS
from famulus.core.dispatch.counters import Counters
from famulus.core.dispatch.delegates import Delegate, Delegates
from famulus.core.dispatch.facts import TAIL_RETRY, Facts
from famulus.core.dispatch.now import Now
from famulus.core.dispatch.outgoing import Outgoing
from famulus.core.dispatch.repeats import Known, Repeats
from famulus.core.dispatch.service import Service
from famulus.core.dispatch.services import Services
from famulus.core.dispatch.session import Session, take_slot
from famulus.core.dispatch.task import (
    ANSWERED,
    ENDED,
    GIVEN,
    JUDGING,
    NEW,
    PUT_IN_QUEUE,
    QUEUED,
    RUNNING,
    Task,
    next_task,
)
from famulus.core.timers import Timers
from famulus.wire import inner
from famulus.wire.headers import ANSWER_HEAD

#: So many may wait for each slot if they have time at all: nobody knows when it will be free, and it shall not be idle.
WAITING_PER_SLOT: Final = 2

# Final, so that compiled code has it at hand instead of looking for it each time.
_ANSWER_HEAD: Final = ANSWER_HEAD


class Assignment:
    def __init__(
        self,
        now: Now,
        out: Outgoing,
        services: Services,
        counters: Counters,
        next_ticket: Callable[[], bytes],
        tasks_max: int,
        body_bytes_max: int,
        repeats: Repeats,
        delegates: Delegates,
        facts: Facts,
    ) -> None:
        self._now = now
        self._out = out
        self._services = services
        self._counters = counters
        self._next_ticket = next_ticket
        self._tasks_max = tasks_max
        self._body_bytes_max = body_bytes_max
        self._repeats = repeats
        self._delegates = delegates
        self._facts = facts
        #: Our own name among the brokers; empty while we stand alone.
        self.identity = b""
        #: By which other brokers tell the ids that we made from those of clients: a JSON text, and a secret.
        self.token = b'""'
        #: Services with somebody in their backlog; mostly none, and then a freed slot costs nothing more.
        self._backlogged: dict[Service, None] = {}
        self.timers: Timers[Task] = Timers()
        #: Tasks without an outcome, and the bodies held for them.
        self.open_tasks = 0
        self.open_bytes = 0

    # -- tasks come ---------------------------------------------------------------------------------------------

    def accept(self, task: Task) -> None:
        now_ns = self._now.ns
        self._counters.accepted += 1
        self.open_tasks += 1
        service = task.service
        if self.open_tasks > self._tasks_max or self.open_bytes + len(task.body) > self._body_bytes_max:
            self._reject(task, inner.REJECTED_BROKER_FULL)
        elif task.deadline_ns - now_ns <= service.service_time.least_ns and not self._may_try(task):
            self._reject(task, inner.REJECTED_TOO_LATE if task.deadline_ns > now_ns else inner.REJECTED_EXPIRED)
        elif not service.backlog.tasks and (session := take_slot(service)) is not None:
            self._hand(task, session)
        elif not service.backlog.tasks and self._delegate(task):
            pass
        elif not service.backlog.has_room_for(task):
            self._facts.refuse(service.name)
            self._reject(task, inner.REJECTED_OVERLOAD)
        elif self._can_wait(task):
            self._queue(task)
        elif not self._delegate(task):
            self._facts.refuse(service.name)
            self._reject(task, inner.REJECTED_LONG_WAIT)

    def _may_try(self, task: Task) -> bool:
        """It has less time than any of the last tasks took: only now and then one is given out all the same."""
        now_ns = self._now.ns
        service = task.service
        return task.deadline_ns > now_ns and service.service_time.may_try(service.slots, now_ns)

    def _can_wait(self, task: Task) -> bool:
        """Whether its turn is likely to come while there is time for it: to wait in vain helps nobody."""
        now_ns = self._now.ns
        service = task.service
        terms = task.terms
        must_start_by_ns = _must_start_by_ns(task)
        ahead = service.backlog.ahead_of(terms.priority)
        if ahead < WAITING_PER_SLOT * service.slots:
            return must_start_by_ns >= now_ns
        wait_ns = service.service_time.wait_ns(ahead, service.slots)
        return now_ns + wait_ns <= must_start_by_ns and wait_ns <= terms.backlog_age_ms * NS_PER_MS

    # -- answers come -------------------------------------------------------------------------------------------

    def ticket_back(self, session: Session, ticket: bytes, body_bytes: int) -> Task | None:
        """A worker brought a ticket back: its slot is free. The task, if it was still waiting for this."""
        now_ns = self._now.ns
        task = session.running.pop(ticket)
        if task.ticket == ticket and now_ns >= task.service.service_time.next_sample_ns:
            _sample(task, now_ns)
        self._free_slot(session)
        if not task.waits_for(ticket):
            self._counters.late += 1
            self._facts.late(task, ticket, session.identity, b"", now_ns, body_bytes)
            return None
        task.stage = ANSWERED[task.stage]
        return task

    def plain_answer(self, session: Session, ticket: bytes, header: bytes, body: bytes) -> bool:
        """If this is, to the letter, a plain OK to a task that waits for it, end the task. By far the most are."""
        now_ns = self._now.ns
        task = session.running[ticket]
        if task.stage != RUNNING or header != _ANSWER_HEAD + task.message_id + task.service.answer_tail:
            return False
        del session.running[ticket]
        if now_ns >= task.service.service_time.next_sample_ns:
            _sample(task, now_ns)
        self._answered(task)
        self._end(task, inner.TAIL_OK, body)
        self._free_slot(session)
        return True

    def answer(self, task: Task, outcome: bytes, tail: bytes, body: bytes) -> None:
        """The router read the answer. It may be late by now: then the task has its outcome already."""
        if task.stage != JUDGING:
            self._counters.late += 1
            self._facts.late(task, task.ticket, task.worker, task.delegate, self._now.ns, len(body))
            return
        if outcome == inner.OUTCOME_OK:
            self._answered(task)
        else:
            self._counters.error += 1
            task.service.error += 1
            task.service.latency.add(self._now.ns - task.arrived_ns)
        self._end(task, tail, body)

    def bad_answer(self, task: Task) -> None:
        if task.stage == JUDGING:
            self._unknown(task, inner.UNKNOWN_BAD_ANSWER)

    # -- other brokers help -------------------------------------------------------------------------------------

    def delegated_answer(self, delegate: Delegate, ticket: bytes, header: bytes, body: bytes) -> Task | None:
        """Another broker answers. The task, if a router has to read what it says."""
        task = delegate.running.pop(ticket, None)
        if task is not None:
            self._delegates.give_back(delegate, task.service.name)
        if task is None or not task.waits_for(ticket):
            self._counters.late += 1
            if task is not None:
                self._facts.late(task, ticket, b"", delegate.identity, self._now.ns, len(body))
            return None
        if header == task.client_header(inner.TAIL_OK):
            self._answered(task)
            self._end(task, inner.TAIL_OK, body)
            if self._backlogged:
                self.relieve()
            return None
        task.stage = ANSWERED[task.stage]
        return task

    def delegate_rejected(self, task: Task, delegate: Delegate | None) -> None:
        """A router read that it was not run there."""
        if task.stage == JUDGING:
            self._take_back(task, delegate)

    def _take_back(self, task: Task, delegate: Delegate | None) -> None:
        """Provably not run there: it is a task without a slot again."""
        if delegate is not None:
            self._delegates.refused(delegate, task.service.name)
        task.attempt -= 1
        self._requeue(task)

    def delegate_unknown(self, task: Task, tail: bytes) -> None:
        if task.stage != JUDGING:
            return
        if task.flow.at_least_once:
            self._again_or_unknown(task)
        else:
            self._unknown(task, tail)

    def lose_delegate(self, delegate: Delegate) -> None:
        """The other broker is gone, and nobody knows what it did with our tasks."""
        running, delegate.running = delegate.running, {}
        delegate.up = False
        for ticket, task in running.items():
            if task.waits_for(ticket):
                self._again_or_unknown(task)

    def undelivered_to_delegate(self, delegate: Delegate, ticket: bytes) -> None:
        """The link did not take it: it did not leave."""
        task = delegate.running.pop(ticket, None)
        if task is not None and task.waits_for(ticket):
            self._take_back(task, delegate)

    def relieve(self) -> None:
        """Others have slots: what waits here may go there."""
        for service in list(self._backlogged):
            while service.backlog.tasks:
                task = next_task(service)
                if self._delegates.find(service.name, task.flow.visited) is None:
                    break
                self._leave_backlog(task)
                if _must_start_by_ns(task) < self._now.ns:
                    self._end_unstarted(task, inner.REJECTED_TOO_LATE, inner.UNKNOWN_WORKER_LOST)
                else:
                    self._delegate(task)

    def _delegate(self, task: Task) -> bool:
        """Hand the task to another broker, if one has a slot. Its body is kept: it may come back not run."""
        delegate = self._delegates.take(task.service.name, task.flow.visited)
        if delegate is None:
            return False
        ticket = self._next_ticket()
        task.ticket = ticket
        task.attempt += 1
        task.worker = b""
        task.delegate = delegate.identity
        task.assigned = self._now.moment
        delegate.running[ticket] = task
        if task.bucket is None:
            self.timers.set(task, task.deadline_ns)
        header = task.delegate_header(self._now.ns, self.identity, self.token)
        self._out.delegates.append((delegate.identity, [ticket, header, task.body]))
        if task.stage == NEW:
            self.open_bytes += len(task.body)
        task.stage = GIVEN[task.stage]
        self._counters.delegated += 1
        self._delegates.exchange(delegate.identity).given += 1
        self._facts.gave(delegate.identity, task.service.name)
        return True

    # -- workers come and go ------------------------------------------------------------------------------------

    def enter(self, session: Session, greeted_ns: int) -> None:
        """The worker is ready: its slots are free for the taking."""
        session.enter(greeted_ns)
        self._serve(session)

    def lose(self, session: Session) -> None:
        """The worker is gone: each of its tasks gets another attempt where that is allowed, or ends as UNKNOWN."""
        session.leave()
        running, session.running = session.running, {}
        for ticket, task in running.items():
            if task.waits_for(ticket):
                self._again_or_unknown(task)

    def undelivered(self, session: Session, ticket: bytes, body: bytes) -> None:
        """A send to this worker was refused, so it provably did not leave: the task takes the next slot."""
        task = session.running.pop(ticket, None)
        if task is None or not task.waits_for(ticket):
            return
        if not task.terms.at_least_once:
            task.body = body
            self.open_bytes += len(body)
        task.attempt -= 1
        self._requeue(task)

    # -- time passes --------------------------------------------------------------------------------------------

    def on_tick(self) -> None:
        now_ns = self._now.ns
        for task in self.timers.due(now_ns):
            if task.stage == QUEUED and _waits_until_ns(task) > now_ns:
                # Its service was only expected when it came, and is there now.
                self.timers.set(task, _waits_until_ns(task))
            elif task.stage == QUEUED:
                self._leave_backlog(task)
                self._too_late_in_backlog(task)
            else:
                # The worker is still busy with it: its session keeps the ticket, and the slot, until it answers.
                self._unknown(task, inner.UNKNOWN_EXPIRED)

    def end_all(self) -> None:
        """The broker stops: what no worker ever had is rejected, the rest is unknown."""
        for task in self.timers.due(NEVER_NS):
            if task.stage == QUEUED:
                self._leave_backlog(task)
            self._end_unstarted(task, inner.REJECTED_DRAINING, inner.UNKNOWN_BROKER_STOPPED)

    # -- inside -------------------------------------------------------------------------------------------------

    def _hand(self, task: Task, session: Session) -> None:
        """Give the task to a slot that was taken for it."""
        ticket = self._next_ticket()
        task.ticket = ticket
        task.attempt += 1
        task.worker = session.identity
        task.assigned = self._now.moment
        session.running[ticket] = task
        if task.bucket is None:
            self.timers.set(task, task.deadline_ns)
        self._out.workers.append([session.peer, ticket, task.worker_header(self._now.ns), task.body])
        if not task.flow.at_least_once:
            # It is never given out again, so its body need not be kept.
            if task.stage != NEW:
                self.open_bytes -= len(task.body)
            task.body = b""
        elif task.stage == NEW:
            self.open_bytes += len(task.body)
        task.stage = GIVEN[task.stage]

    def _queue(self, task: Task, *, front: bool = False) -> None:
        if task.stage == NEW:
            self.open_bytes += len(task.body)
        task.stage = PUT_IN_QUEUE[task.stage]
        task.queued_ns = self._now.ns
        task.service.backlog.push(task, front=front)
        self._backlogged[task.service] = None
        self.timers.set(task, _waits_until_ns(task))

    def _leave_backlog(self, task: Task) -> None:
        backlog = task.service.backlog
        backlog.remove(task)
        if not backlog.tasks:
            del self._backlogged[task.service]
        if task.bucket is not None:
            self.timers.cancel(task)

    def _free_slot(self, session: Session) -> None:
        session.give_back_slot()
        if self._backlogged and session.ready:
            self._serve(session)
        elif session.farewell is not None and not session.running:
            self._out.workers.append(session.farewell)

    def _serve(self, session: Session) -> None:
        """Give waiting tasks to the slots that this session has free."""
        while self._backlogged and session.free and (service := self._neediest(session)) is not None:
            task = next_task(service)
            self._leave_backlog(task)
            if _must_start_by_ns(task) < self._now.ns:
                self._end_unstarted(task, inner.REJECTED_TOO_LATE, inner.UNKNOWN_WORKER_LOST)
                continue
            taken = take_slot(service)
            assert taken is not None, "a session with a free slot is in the LRU of each of its services"
            self._hand(task, taken)

    def _neediest(self, session: Session) -> Service | None:
        """Of this session's services, the one whose next task is most urgent, then oldest."""
        waiting = [service for service in session.services if service in self._backlogged]
        return min(waiting, key=_urgency, default=None)

    def _again_or_unknown(self, task: Task) -> None:
        terms = task.terms
        if terms.at_least_once and task.attempt < terms.attempts_max and self._now.ns < task.deadline_ns:
            self._counters.attempts_again += 1
            if self._facts.on:
                self._facts.ended(task, task.ticket, TAIL_RETRY, self._now.moment, 0)
            self._requeue(task)
        else:
            self._unknown(task, inner.UNKNOWN_WORKER_LOST)

    def _requeue(self, task: Task) -> None:
        """Back to the head of the line, and on to a free slot if there is one."""
        if task.bucket is not None:
            self.timers.cancel(task)
        task.ticket = task.worker = task.delegate = task.noted = b""
        task.assigned = 0
        # Its service may have been forgotten, and offered anew, while another broker had it.
        task.service = self._services.by_name.setdefault(task.service.name, task.service)
        if task.deadline_ns - self._now.ns <= task.service.service_time.least_ns:
            self._end_unstarted(task, inner.REJECTED_TOO_LATE, inner.UNKNOWN_WORKER_LOST)
        elif (session := take_slot(task.service)) is not None:
            self._hand(task, session)
        elif self._delegate(task):
            pass
        elif task.service.backlog.has_room_for(task):
            self._queue(task, front=True)
        else:
            self._end_unstarted(task, inner.REJECTED_OVERLOAD, inner.UNKNOWN_WORKER_LOST)

    def _too_late_in_backlog(self, task: Task) -> None:
        now_ns = self._now.ns
        if task.deadline_ns <= now_ns:
            rejection = inner.REJECTED_EXPIRED
        elif _must_start_by_ns(task) <= now_ns:
            rejection = inner.REJECTED_TOO_LATE
        elif task.service.sessions:
            rejection = inner.REJECTED_TOO_LONG
        elif task.service.expected_by_ns <= now_ns:
            rejection = inner.REJECTED_NO_SERVICE
        else:
            rejection = inner.REJECTED_NO_WORKER
        self._end_unstarted(task, rejection, inner.UNKNOWN_WORKER_LOST)

    def _end_unstarted(self, task: Task, rejection: bytes, unknown: bytes) -> None:
        """Only a task that no worker ever had is provably not run."""
        if task.attempt == 0:
            self._reject(task, rejection)
        else:
            self._unknown(task, unknown)

    def _answered(self, task: Task) -> None:
        self._counters.ok += 1
        service = task.service
        service.ok += 1
        service.latency.add(self._now.ns - task.arrived_ns)

    def _reject(self, task: Task, tail: bytes) -> None:
        self._counters.rejected += 1
        task.service.rejected += 1
        self._end(task, tail, b"")

    def _unknown(self, task: Task, tail: bytes) -> None:
        self._counters.unknown += 1
        task.service.unknown += 1
        self._end(task, tail, b"")

    def _end(self, task: Task, tail: bytes, body: bytes) -> None:
        stage = task.stage
        task.stage = ENDED[stage]
        if task.bucket is not None:
            self.timers.cancel(task)
        self.open_tasks -= 1
        if task.body:
            if stage != NEW:
                self.open_bytes -= len(task.body)
            task.body = b""
        self._out.clients.append([task.client, task.envelope, task.client_header(tail), body])
        facts = self._facts
        if facts.on:
            # What was never given out has no ticket, but its row wants a number of its own.
            facts.ended(task, task.ticket or self._next_ticket(), tail, self._now.moment, len(body))
        if task.known is not None:
            self._remember(task, task.known, tail, body)

    def _remember(self, task: Task, known: Known, tail: bytes, body: bytes) -> None:
        """The client gave it its id, and may ask again: those who did already hear it now, those to come later."""
        for client, envelope in known.waiters:
            self._out.clients.append([client, envelope, task.client_header(tail), body])
        if task.attempt == 0 or (task.flow.at_least_once and _is_unknown(tail)):
            self._repeats.drop(known)
        else:
            self._repeats.end(known, tail, body, self._now.ns)


def _is_unknown(tail: bytes) -> bool:
    return tail.startswith(inner.TAIL_UNKNOWN)


def _waits_until_ns(task: Task) -> int:
    """How long a task may be in the backlog."""
    oldest_ns = task.queued_ns + task.terms.backlog_age_ms * NS_PER_MS
    return min(_must_start_by_ns(task), oldest_ns, task.service.expected_by_ns)


def _must_start_by_ns(task: Task) -> int:
    """When it is too late for a task that waits, by what is known now of its service."""
    service_time = task.service.service_time
    # One that may have run is UNKNOWN if it is not run again: for that a fair chance is reason enough.
    needed_ns = service_time.usual_ns if task.attempt else service_time.needed_ns(task.flow.timeout_ns)
    return task.deadline_ns - needed_ns


def _sample(task: Task, now_ns: int) -> None:
    assigned_ns = task.assigned
    assert isinstance(assigned_ns, int)
    task.service.service_time.add(now_ns - assigned_ns, now_ns)


def _urgency(service: Service) -> tuple[int, int]:
    task = next_task(service)
    return (-task.terms.priority, task.arrived_ns)
