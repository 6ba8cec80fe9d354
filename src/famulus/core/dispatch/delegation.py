"""What becomes of the tasks that other brokers have: they are answered, come back not run, or are lost.

Which broker gets a task is for `Delegates` to decide; `Assignment` hands it over.
"""

from __future__ import annotations

from famulus.core.dispatch.assignment import Assignment
from famulus.core.dispatch.counters import Counters
from famulus.core.dispatch.deadlines import must_start_by_ns
from famulus.core.dispatch.delegates import Delegate, Delegates, Offer
from famulus.core.dispatch.facts import Facts
from famulus.core.dispatch.now import Now
from famulus.core.dispatch.outcomes import Outcomes
from famulus.core.dispatch.services import Services
from famulus.core.dispatch.task import ANSWERED, JUDGING, Task, next_task
from famulus.wire import inner


class Delegation:
    def __init__(
        self,
        now: Now,
        services: Services,
        delegates: Delegates,
        assignment: Assignment,
        outcomes: Outcomes,
        counters: Counters,
        facts: Facts,
    ) -> None:
        self._now = now
        self._services = services
        self._delegates = delegates
        self._assignment = assignment
        self._outcomes = outcomes
        self._counters = counters
        self._facts = facts

    def update(self, offers: list[Offer]) -> None:
        """The steward tells what our peers have free."""
        for gone in self._delegates.update(offers):
            self._lose(gone)
        self._services.look_at_others()
        self._relieve()

    def link(self, identity: bytes, up: bool) -> None:
        """The connection to another broker is there, or lost."""
        delegate = self._delegates.by_identity.get(identity)
        if delegate is None:
            return
        delegate.up = up
        if up:
            self._services.look_at_others()
            self._relieve()
        else:
            self._lose(delegate)

    def answer(self, identity: bytes, ticket: bytes, header: bytes, body: bytes) -> Task | None:
        """Another broker answers. The task, if a router has to read what it says."""
        delegate = self._delegates.by_identity.get(identity)
        task = delegate.running.pop(ticket, None) if delegate is not None else None
        if delegate is None or task is None:
            self._counters.late += 1
            return None
        self._delegates.give_back(delegate, task.service.name)
        if not task.waits_for(ticket):
            self._counters.late += 1
            self._facts.late(task, ticket, b"", delegate.identity, self._now.ns, len(body))
            return None
        if header == task.client_header(inner.TAIL_OK):
            self._outcomes.ok(task, inner.TAIL_OK, body)
            self._relieve()
            return None
        task.stage = ANSWERED[task.stage]
        return task

    def rejected(self, task: Task, identity: bytes) -> None:
        """A router read that it was not run there."""
        if task.stage == JUDGING:
            self._take_back(task, self._delegates.by_identity.get(identity))

    def unknown(self, task: Task, tail: bytes) -> None:
        """A router read that nobody knows over there."""
        if task.stage != JUDGING:
            return
        if task.flow.at_least_once:
            self._assignment.again_or_unknown(task)
        else:
            self._outcomes.unknown(task, tail)

    def undelivered(self, identity: bytes, ticket: bytes) -> None:
        """The link did not take it: it did not leave."""
        delegate = self._delegates.by_identity.get(identity)
        task = delegate.running.pop(ticket, None) if delegate is not None else None
        if task is not None and task.waits_for(ticket):
            self._take_back(task, delegate)

    def _take_back(self, task: Task, delegate: Delegate | None) -> None:
        """Provably not run there: it is a task without a slot again."""
        if delegate is not None:
            self._delegates.refused(delegate, task.service.name)
        task.attempt -= 1
        self._assignment.requeue(task)

    def _lose(self, delegate: Delegate) -> None:
        """The other broker is gone, and nobody knows what it did with our tasks."""
        running, delegate.running = delegate.running, {}
        delegate.up = False
        for ticket, task in running.items():
            if task.waits_for(ticket):
                self._assignment.again_or_unknown(task)

    def _relieve(self) -> None:
        """Others have slots: what waits here may go there."""
        assignment = self._assignment
        for service in list(assignment.backlogged):
            while service.backlog.tasks:
                task = next_task(service)
                if self._delegates.find(service.name, task.flow.visited) is None:
                    break
                assignment.leave_backlog(task)
                if must_start_by_ns(task) < self._now.ns:
                    self._outcomes.unstarted(task, inner.REJECTED_TOO_LATE, inner.UNKNOWN_WORKER_LOST)
                else:
                    assignment.delegate(task)
