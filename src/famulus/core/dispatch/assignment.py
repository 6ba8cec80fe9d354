"""Decides which worker gets which task, and when.

The tickets that are out are kept with the session, or the other broker, that has them: they are looked up there when an
answer comes or the worker is lost. Knows nothing about routers or headers: what it sends are prefixes and tails that
others prepared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from famulus.core.clock import NEVER_NS
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.counters import Counters
from famulus.core.dispatch.deadlines import can_wait, may_try, must_start_by_ns, waits_until_ns, why_not_started
from famulus.core.dispatch.delegates import Delegates
from famulus.core.dispatch.facts import TAIL_RETRY, Facts
from famulus.core.dispatch.now import Now
from famulus.core.dispatch.outcomes import Outcomes
from famulus.core.dispatch.outgoing import Outgoing
from famulus.core.dispatch.service import Service
from famulus.core.dispatch.services import Services
from famulus.core.dispatch.session import Session, take_slot
from famulus.core.dispatch.streams import Streams
from famulus.core.dispatch.task import (
    ANSWERED,
    DELAYED,
    GIVEN,
    JUDGING,
    NEW,
    PUT_IN_QUEUE,
    QUEUED,
    RUNNING,
    Task,
    next_task,
)
from famulus.wire import inner
from famulus.wire.headers import ANSWER_HEAD, HEDGE_ENDING

# Final, so that compiled code need not look it up each time.
_ANSWER_HEAD: Final = ANSWER_HEAD


class Assignment:
    def __init__(
        self,
        now: Now,
        out: Outgoing,
        services: Services,
        counters: Counters,
        next_ticket: Callable[[], bytes],
        bounds: Bounds,
        delegates: Delegates,
        outcomes: Outcomes,
        facts: Facts,
        streams: Streams,
    ) -> None:
        self._now = now
        self._out = out
        self._services = services
        self._counters = counters
        self._next_ticket = next_ticket
        self._tasks_max = bounds.open_tasks_max
        self._body_bytes_max = bounds.open_bytes_max
        self._delegates = delegates
        self._outcomes = outcomes
        self._facts = facts
        self._streams = streams
        #: Our own name among the brokers; empty while we are on our own.
        self.identity = b""
        #: Lets other brokers tell the ids that we made from those of clients: a JSON text, and a secret.
        self.token = b'""'
        #: Services with a task in their backlog; mostly none, and then freeing a slot costs nothing more.
        self.backlogged: dict[Service, None] = {}

    # -- tasks come ---------------------------------------------------------------------------------------------

    def accept(self, task: Task) -> None:
        now_ns = self._now.ns
        outcomes = self._outcomes
        self._counters.accepted += 1
        outcomes.begin(task)
        service = task.service
        account = task.account
        if account.is_limited and (refusal := account.refusal(now_ns)):
            self._facts.over_limit(task, now_ns)
            outcomes.reject(task, refusal)
        elif outcomes.open_tasks > self._tasks_max or outcomes.open_bytes + len(task.body) > self._body_bytes_max:
            outcomes.reject(task, inner.REJECTED_BROKER_FULL)
        elif task.deadline_ns - now_ns <= service.service_time.least_ns and not may_try(task, now_ns):
            outcomes.reject(task, inner.REJECTED_TOO_LATE if task.deadline_ns > now_ns else inner.REJECTED_EXPIRED)
        elif not service.backlog.tasks and (session := take_slot(service, task)) is not None:
            self._hand(task, session)
        else:
            self._wait(task)

    def begin(self, task: Task) -> None:
        """Its time has come: as `accept`, but it has been counted."""
        now_ns = self._now.ns
        service = task.service
        if task.deadline_ns - now_ns <= service.service_time.least_ns and not may_try(task, now_ns):
            self._outcomes.reject(task, inner.REJECTED_TOO_LATE)
        elif not service.backlog.tasks and (session := take_slot(service, task)) is not None:
            self._hand(task, session)
        else:
            self._wait(task)

    def hedge(self, task: Task) -> None:
        """A second attempt: at once, and at another worker than the first one, or not at all."""
        now_ns = self._now.ns
        outcomes = self._outcomes
        service, account = task.service, task.account
        self._counters.accepted += 1
        outcomes.begin(task)
        if account.is_limited and (refusal := account.refusal(now_ns)):
            self._facts.over_limit(task, now_ns)
            outcomes.reject(task, refusal)
        elif outcomes.open_tasks > self._tasks_max or outcomes.open_bytes + len(task.body) > self._body_bytes_max:
            outcomes.reject(task, inner.REJECTED_BROKER_FULL)
        elif task.deadline_ns - now_ns <= service.service_time.least_ns:
            outcomes.reject(task, inner.REJECTED_TOO_LATE)
        elif (session := _take_other_slot(service, task)) is None:
            outcomes.reject(task, inner.REJECTED_NO_OTHER)
        else:
            self._hand(task, session)

    # -- answers come -------------------------------------------------------------------------------------------

    def ticket_back(self, session: Session, ticket: bytes, body_bytes: int) -> Task | None:
        """A worker brought a ticket back, so its slot is free. Returns the task if it was still waiting for this."""
        now_ns = self._now.ns
        task = session.running.pop(ticket)
        is_due = task.ticket == ticket and now_ns >= task.service.service_time.next_sample_ns
        if is_due and not self._streams.has_begun(task):
            _sample(task, session, now_ns, plain=False)
        self._free_slot(session)
        if not task.waits_for(ticket):
            self._counters.late += 1
            self._facts.late(task, ticket, session.identity, b"", now_ns, body_bytes)
            return None
        task.stage = ANSWERED[task.stage]
        return task

    def plain_answer(self, session: Session, ticket: bytes, header: bytes, body: bytes) -> bool:
        """If this is, to the letter, a plain OK to a task that waits for it, end the task. Most answers by far are."""
        now_ns = self._now.ns
        task = session.running[ticket]
        if task.stage != RUNNING or header != _ANSWER_HEAD + task.message_id + task.service.answer_tail:
            return False
        del session.running[ticket]
        if now_ns >= task.service.service_time.next_sample_ns:
            _sample(task, session, now_ns)
        self._outcomes.ok(task, inner.TAIL_OK, body)
        self._free_slot(session)
        return True

    def answer(self, task: Task, outcome: bytes, tail: bytes, body: bytes) -> None:
        """The router has read the answer. It may be late by now: then the task already has its outcome."""
        if task.stage != JUDGING:
            self._late(task, len(body))
            return
        if outcome == inner.OUTCOME_OK:
            self._outcomes.ok(task, tail, body)
        else:
            self._outcomes.error(task, tail, body)

    def given_up(self, task: Task, tail: bytes, body: bytes, *, begun: bool) -> None:
        """The worker says that it has stopped a cancelled task, or that it had not even begun."""
        if task.stage == JUDGING and not task.is_cancelled:
            self._outcomes.unknown(task, inner.UNKNOWN_BAD_ANSWER)  # nobody wanted that
        elif task.stage == JUDGING and begun:
            self._outcomes.unknown(task, tail)
        elif task.stage == JUDGING and self._streams.has_begun(task):
            self._outcomes.unknown(task, inner.UNKNOWN_BAD_ANSWER)
        elif task.stage == JUDGING:
            # As if it had never been given to this worker, also in the journal.
            task.attempt -= 1
            task.ticket = task.worker = b""
            task.assigned = 0
            self._outcomes.unstarted(task, tail, inner.UNKNOWN_CANCELLED)
        else:
            self._late(task, len(body))

    def bad_answer(self, task: Task) -> None:
        if task.stage == JUDGING:
            self._outcomes.unknown(task, inner.UNKNOWN_BAD_ANSWER)

    # -- workers come and go ------------------------------------------------------------------------------------

    def enter(self, session: Session, greeted_ns: int) -> None:
        """The worker is ready: its slots are available."""
        session.enter(greeted_ns)
        self._serve(session)

    def lose(self, session: Session) -> None:
        """The worker is gone: each of its tasks gets another attempt where that is allowed, or ends as UNKNOWN."""
        session.leave()
        running, session.running = session.running, {}
        for ticket, task in running.items():
            if task.waits_for(ticket):
                self.again_or_unknown(task)

    def undelivered(self, session: Session, ticket: bytes, body: bytes) -> None:
        """A send to this worker was refused, so the task provably did not leave: it takes the next slot."""
        task = session.running.pop(ticket, None)
        if task is None or not task.waits_for(ticket):
            return
        if not task.terms.at_least_once:
            task.body = body
            self._outcomes.open_bytes += len(body)
        task.attempt -= 1
        self.requeue(task)

    # -- time passes --------------------------------------------------------------------------------------------

    def on_tick(self) -> list[Task]:
        """Returns the tasks that have waited for this time."""
        now_ns = self._now.ns
        delayed: list[Task] = []
        for task in self._outcomes.timers.due(now_ns):
            if task.stage == DELAYED:
                delayed.append(task)
            elif task.stage == QUEUED and waits_until_ns(task) > now_ns:
                # Its service was only expected when the task came, and is there now.
                self._outcomes.timers.set(task, waits_until_ns(task))
            elif task.stage == QUEUED:
                self.leave_backlog(task)
                self._outcomes.unstarted(task, why_not_started(task, now_ns), inner.UNKNOWN_WORKER_LOST)
            else:
                # The worker is still busy with it: its session keeps the ticket, and the slot, until it answers.
                self._outcomes.unknown(task, inner.UNKNOWN_CANCELLED if task.is_cancelled else inner.UNKNOWN_EXPIRED)
        return delayed

    def end_all(self) -> None:
        """The broker stops: tasks that no worker ever had are rejected, the others are unknown."""
        for task in self._outcomes.timers.due(NEVER_NS):
            if task.stage == QUEUED:
                self.leave_backlog(task)
            self._outcomes.unstarted(task, inner.REJECTED_DRAINING, inner.UNKNOWN_BROKER_STOPPED)

    # -- inside -------------------------------------------------------------------------------------------------

    def _wait(self, task: Task) -> None:
        """No slot is free here: it goes to another broker or to the backlog, if that may be."""
        service = task.service
        if not service.backlog.tasks and self.delegate(task):
            pass
        elif not service.backlog.has_room_for(task):
            self._facts.refuse(service.name)
            self._outcomes.reject(task, inner.REJECTED_OVERLOAD)
        elif can_wait(task, self._now.ns):
            self._queue(task)
        elif not self.delegate(task):
            self._facts.refuse(service.name)
            self._outcomes.reject(task, inner.REJECTED_LONG_WAIT)

    def _late(self, task: Task, body_bytes: int) -> None:
        self._counters.late += 1
        self._facts.late(task, task.ticket, task.worker, task.delegate, self._now.ns, body_bytes)

    def _hand(self, task: Task, session: Session) -> None:
        """Give the task to a worker of which a slot was taken for it."""
        ticket = self._next_ticket()
        task.ticket = ticket
        task.attempt += 1
        task.worker = session.identity
        task.assigned = self._now.moment
        session.running[ticket] = task
        if task.bucket is None:
            self._outcomes.timers.set(task, task.deadline_ns)
        self._out.workers.append([session.peer, ticket, task.worker_header(self._now.ns), task.body])
        if not task.flow.at_least_once:
            # It is never given out again, so its body need not be kept.
            if task.stage != NEW:
                self._outcomes.open_bytes -= len(task.body)
            task.body = b""
        elif task.stage == NEW:
            self._outcomes.open_bytes += len(task.body)
        task.stage = GIVEN[task.stage]

    def delegate(self, task: Task) -> bool:
        """Hand the task to another broker, if one has a slot. Its body is kept: it may come back without having run."""
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
            self._outcomes.timers.set(task, task.deadline_ns)
        header = task.delegate_header(self._now.ns, self.identity, self.token)
        self._out.delegates.append((delegate.identity, [ticket, header, task.body]))
        if task.stage == NEW:
            self._outcomes.open_bytes += len(task.body)
        task.stage = GIVEN[task.stage]
        self._counters.delegated += 1
        self._delegates.exchange(delegate.identity).given += 1
        self._facts.gave(delegate.identity, task.service.name)
        return True

    def _queue(self, task: Task, *, front: bool = False) -> None:
        if task.stage == NEW:
            self._outcomes.open_bytes += len(task.body)
        task.stage = PUT_IN_QUEUE[task.stage]
        task.queued_ns = self._now.ns
        task.service.backlog.push(task, front=front)
        self.backlogged[task.service] = None
        self._outcomes.timers.set(task, waits_until_ns(task))

    def leave_backlog(self, task: Task) -> None:
        backlog = task.service.backlog
        backlog.remove(task)
        if not backlog.tasks:
            del self.backlogged[task.service]
        if task.bucket is not None:
            self._outcomes.timers.cancel(task)

    def _free_slot(self, session: Session) -> None:
        session.give_back_slot()
        if self.backlogged and session.ready:
            self._serve(session)
        elif session.farewell is not None and not session.running:
            self._out.workers.append(session.farewell)

    def _serve(self, session: Session) -> None:
        """Give waiting tasks to the free slots of this session."""
        while self.backlogged and session.free and (service := self._neediest(session)) is not None:
            task = next_task(service)
            self.leave_backlog(task)
            if must_start_by_ns(task) < self._now.ns:
                self._outcomes.unstarted(task, inner.REJECTED_TOO_LATE, inner.UNKNOWN_WORKER_LOST)
                continue
            taken = take_slot(service, task)
            assert taken is not None, "a session with a free slot is listed by the chooser of each of its services"
            self._hand(task, taken)

    def _neediest(self, session: Session) -> Service | None:
        """The one of this session's services whose next task is most urgent, then oldest."""
        waiting = [service for service in session.services if service in self.backlogged]
        return min(waiting, key=_urgency, default=None)

    def again_or_unknown(self, task: Task) -> None:
        terms = task.terms
        if task.is_cancelled:
            self._outcomes.unknown(task, inner.UNKNOWN_CANCELLED)
        elif self._streams.has_begun(task):
            self._outcomes.unknown(task, inner.UNKNOWN_WORKER_LOST)
        elif terms.at_least_once and task.attempt < terms.attempts_max and self._now.ns < task.deadline_ns:
            self._counters.attempts_again += 1
            if self._facts.on:
                self._facts.ended(task, task.ticket, TAIL_RETRY, self._now.moment, 0)
            self.requeue(task)
        else:
            self._outcomes.unknown(task, inner.UNKNOWN_WORKER_LOST)

    def requeue(self, task: Task) -> None:
        """Back to the head of the queue, or straight to a free slot if there is one."""
        if task.bucket is not None:
            self._outcomes.timers.cancel(task)
        task.ticket = task.worker = task.delegate = task.noted = b""
        task.assigned = 0
        if task.is_cancelled:
            self._outcomes.unstarted(task, inner.REJECTED_CANCELLED, inner.UNKNOWN_CANCELLED)
            return
        if task.terms.is_hedge:
            self._outcomes.unstarted(task, inner.REJECTED_NO_OTHER, inner.UNKNOWN_WORKER_LOST)
            return
        # Its service may have been forgotten and offered again while another broker had the task.
        task.service = self._services.by_name.setdefault(task.service.name, task.service)
        if task.deadline_ns - self._now.ns <= task.service.service_time.least_ns:
            self._outcomes.unstarted(task, inner.REJECTED_TOO_LATE, inner.UNKNOWN_WORKER_LOST)
        elif (session := take_slot(task.service, task)) is not None:
            self._hand(task, session)
        elif self.delegate(task):
            pass
        elif task.service.backlog.has_room_for(task):
            self._queue(task, front=True)
        else:
            self._outcomes.unstarted(task, inner.REJECTED_OVERLOAD, inner.UNKNOWN_WORKER_LOST)


def _take_other_slot(service: Service, task: Task) -> Session | None:
    """A slot for a second attempt; of a worker that has not got the first one, too."""
    taken = take_slot(service, task)
    if taken is None or not _has_first(taken, task):
        return taken
    # Passed over, for as long as it takes to choose another one.
    service.chooser.withdraw(taken)
    other = take_slot(service, task)
    taken.give_back_slot()
    return other


def _has_first(session: Session, hedge: Task) -> bool:
    """Nothing but the worker's own tasks is looked at: nobody keeps a list of envelopes."""
    client, first = hedge.client, hedge.envelope.removesuffix(HEDGE_ENDING)
    return any(task.envelope == first and task.client == client for task in session.running.values())


def _sample(task: Task, session: Session, now_ns: int, *, plain: bool = True) -> None:
    """`plain`: it is an OK and nothing else."""
    if task.is_cancelled:
        return  # it may have been stopped in the middle
    assigned_ns = task.assigned
    assert isinstance(assigned_ns, int)
    took_ns, service = now_ns - assigned_ns, task.service
    service.chooser.answered(session, took_ns, now_ns, plain)
    if now_ns >= service.service_time.due_ns:
        service.service_time.add(took_ns, now_ns)


def _urgency(service: Service) -> tuple[int, int]:
    task = next_task(service)
    return (-task.terms.priority, task.arrived_ns)
