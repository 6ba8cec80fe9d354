"""Decides which tasks wait for their time: those whose clients want nobody to have them before it.

They are open tasks, and are on the wheel of all open tasks. There may be as many of a service as its backlog may hold,
and they are counted apart from it, so that what is to run later takes no room from what is to run now. When its time
has come, a task is as if it had arrived at that moment. Until then it is in memory only. Reads no clock.
"""

from __future__ import annotations

from typing import Final

from famulus.core.access import FRONTEND
from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.dispatch.accounts import Accounts
from famulus.core.dispatch.assignment import Assignment
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.counters import Counters
from famulus.core.dispatch.facts import Facts
from famulus.core.dispatch.now import Now
from famulus.core.dispatch.outcomes import Outcomes
from famulus.core.dispatch.services import Services
from famulus.core.dispatch.task import DELAYED, PUT_OFF, Task
from famulus.wire import inner

#: After this long all routers have the config that we have.
SETTLED_NS: Final = 2 * NS_PER_S


class Delays:
    def __init__(
        self,
        now: Now,
        accounts: Accounts,
        services: Services,
        counters: Counters,
        bounds: Bounds,
        outcomes: Outcomes,
        assignment: Assignment,
        facts: Facts,
    ) -> None:
        self._now = now
        self._accounts = accounts
        self._services = services
        self._counters = counters
        self._tasks_max = bounds.open_tasks_max
        self._body_bytes_max = bounds.open_bytes_max
        self._outcomes = outcomes
        self._assignment = assignment
        self._facts = facts
        #: What the principals of these tasks might call when they came: a hash, or empty if routers may have known
        #: something else then.
        self._rights: dict[Task, bytes] = {}
        self._rights_changed_ns = -SETTLED_NS

    def on_principals(self) -> None:
        """There is a new config, and routers may hear of it a moment later."""
        self._rights_changed_ns = self._now.ns

    def accept(self, task: Task) -> None:
        """It is counted now, as any other: whoever may send so many tasks may not send more by putting them off."""
        now_ns = self._now.ns
        outcomes, account, service = self._outcomes, task.account, task.service
        self._counters.accepted += 1
        outcomes.begin(task)
        if account.is_limited and (refusal := account.refusal(now_ns)):
            self._facts.over_limit(task, now_ns)
            outcomes.reject(task, refusal)
        elif outcomes.open_tasks > self._tasks_max or outcomes.open_bytes + len(task.body) > self._body_bytes_max:
            outcomes.reject(task, inner.REJECTED_BROKER_FULL)
        elif not service.delayed.has_room_for(task):
            self._facts.refuse(service.name)
            outcomes.reject(task, inner.REJECTED_TOO_MANY_DELAYED)
        else:
            self._put_off(task)

    def end(self, tasks: list[Task]) -> None:
        """The time of these has come, unless they have been cancelled at the last moment."""
        for task in tasks:
            if task.stage == DELAYED:
                self._begin(task)

    def reject(self, task: Task, tail: bytes) -> None:
        """Its time has not come, and never will."""
        self._arrive(task)
        self._outcomes.reject(task, tail)

    def close(self) -> None:
        """The broker stops: their clients take them elsewhere, while there is time for that."""
        for task in [task for task in self._outcomes.timers if task.stage == DELAYED]:
            self.reject(task, inner.REJECTED_DRAINING)

    # -- inside -------------------------------------------------------------------------------------------------

    def _put_off(self, task: Task) -> None:
        task.stage = PUT_OFF[task.stage]
        self._outcomes.open_bytes += len(task.body)
        task.service.delayed.push(task)
        if task.account.is_named:
            is_settled = self._now.ns - self._rights_changed_ns >= SETTLED_NS
            self._rights[task] = task.account.terms.rights if is_settled else b""
        due_ns = task.arrived_ns + task.terms.delay_ms * NS_PER_MS
        task.deadline_ns = due_ns + task.flow.timeout_ns
        self._outcomes.timers.set(task, due_ns)
        self._facts.delayed(task, self._now.ns)

    def _begin(self, task: Task) -> None:
        account, rights = self._accounts.now_of(task.client, task.account), self._rights.get(task)
        self._arrive(task)
        if account.is_void:
            self._facts.void(account, FRONTEND, task.client, self._now.ns)
            self._outcomes.reject(task, inner.REJECTED_VOID)
            return
        if rights is not None and rights != account.terms.rights:
            # Only a router knows what it may call now, and only its client has the header to ask one.
            self._outcomes.reject(task, inner.REJECTED_RIGHTS_CHANGED)
            return
        # It may have been forgotten meanwhile, and offered again.
        service = self._services.find(task.service.name, self._now.ns)
        if service is None:
            self._outcomes.reject(task, inner.REJECTED_NO_SERVICE)
            return
        task.service = service
        self._assignment.begin(task)

    def _arrive(self, task: Task) -> None:
        """Whatever is said about it from now on is as if it had come now: its delay is nobody's waiting time."""
        task.service.delayed.remove(task)
        self._rights.pop(task, None)
        task.arrived_ns = self._now.ns
        task.arrived = self._now.moment
        task.deadline_ns = self._now.ns + task.flow.timeout_ns
