"""Decides which tasks are cancelled: those that somebody does not want any more, and those whose client is gone.

Clients name a task by the envelope that they gave it. An index by envelopes would cost every task something, so there
is none: one look at all open tasks serves all wishes that have come since the last one. Looks take a bounded share of
our time, and each wish brings one nearer: so whoever sends wishes for ever keeps us no busier than with other messages.

A task that waits, for a slot or for its time, is gone at once. Who runs one is told, and has a moment to say what
became of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from famulus.core.clock import NEVER_NS, NS_PER_MS
from famulus.core.dispatch.assignment import Assignment
from famulus.core.dispatch.delays import Delays
from famulus.core.dispatch.now import Now
from famulus.core.dispatch.outcomes import Outcomes
from famulus.core.dispatch.outgoing import Outgoing
from famulus.core.dispatch.questions import Questions
from famulus.core.dispatch.sessions import Sessions
from famulus.core.dispatch.task import DELAYED, DONE, QUEUED, RUNNING, Task
from famulus.wire import inner, limits
from famulus.wire.headers import CANCEL

#: How long the worker, or the other broker, has to say whether the task had begun; a thread cannot be stopped.
ANSWER_NS: Final = 500 * NS_PER_MS
#: After a look, so long for each task that was looked at; looking takes less than a tenth of that.
PAUSE_PER_TASK_NS: Final = 1000
#: A look comes sooner if there is a wish for each so many tasks.
TASKS_PER_WISH: Final = 20


class Cancels:
    def __init__(
        self,
        now: Now,
        out: Outgoing,
        outcomes: Outcomes,
        assignment: Assignment,
        delays: Delays,
        sessions: Sessions,
        questions: Questions,
    ) -> None:
        self._now = now
        self._out = out
        self._outcomes = outcomes
        self._assignment = assignment
        self._delays = delays
        self._sessions = sessions
        self._questions = questions
        #: By client: envelopes, and when it asked.
        self._wishes: dict[bytes, dict[bytes, int]] = {}
        #: Clients whose connections are gone.
        self._gone: set[bytes] = set()
        #: There are services whose tasks end when their client is gone.
        self.minds_gone = False
        #: Wishes since the last look, and how much there was to look at then.
        self._asked = self._looked = 0
        self._rests_until_ns = 0

    def __bool__(self) -> bool:
        return bool(self._wishes or self._gone)

    def ask(self, client: bytes, envelope: bytes, asked_ns: int) -> None:
        """The client does not want the task with this envelope any more; `look` must follow."""
        self._asked += 1
        if len(envelope) > limits.ENVELOPE_BYTES_MAX:
            return  # no task has that one, and it need not be kept
        envelopes = self._wishes.get(client)
        if envelopes is None:
            self._wishes[client] = {envelope: asked_ns}
        else:
            envelopes[envelope] = asked_ns

    def gone(self, clients: list[bytes]) -> None:
        """Their connections are lost; `look` must follow."""
        if self.minds_gone:
            self._gone.update(clients)

    @property
    def next_due_ns(self) -> int:
        return self._rests_until_ns if self else NEVER_NS

    def look(self) -> None:
        """Find what is to be cancelled, unless we have only just looked."""
        now_ns = self._now.ns
        if not self or (now_ns < self._rests_until_ns and self._asked * TASKS_PER_WISH < self._looked):
            return
        self._looked = 0
        self._note_questions()
        for task, client, envelope in self._find(self._outcomes.timers):
            self._leave(task, client, envelope)
        self._wishes, self._gone, self._asked = {}, set(), 0
        self._rests_until_ns = now_ns + self._looked * PAUSE_PER_TASK_NS

    def look_at(self, tasks: list[Task]) -> None:
        """Their time has come, so from now on they are new tasks: what was said before is about them as they were."""
        looked = self._looked
        for task, client, envelope in self._find(tasks):
            self._leave(task, client, envelope)
        self._looked = looked

    # -- inside -------------------------------------------------------------------------------------------------

    def _note_questions(self) -> None:
        """What no router has read yet is no task yet."""
        for question in self._questions:
            self._looked += 1
            if question.origin == inner.FROM_CLIENT:
                envelopes = self._wishes.get(question.asker)
                if envelopes is not None and envelopes.get(question.envelope, -1) >= question.seen_ns:
                    question.is_cancelled = True

    def _find(self, tasks: Iterable[Task]) -> list[tuple[Task, bytes, bytes]]:
        """Who does not wait for which task any more, each with the envelope."""
        found: list[tuple[Task, bytes, bytes]] = []
        for task in tasks:
            self._looked += 1
            if self._is_left(task, task.client, task.envelope):
                found.append((task, task.client, task.envelope))
            if task.known is not None:
                for client, envelope in task.known.waiters:
                    self._looked += 1
                    if self._is_left(task, client, envelope):
                        found.append((task, client, envelope))
        return found

    def _is_left(self, task: Task, client: bytes, envelope: bytes) -> bool:
        envelopes = self._wishes.get(client)
        if envelopes is not None and envelopes.get(envelope, -1) >= task.arrived_ns:
            return True  # a later task may have the same envelope
        return client in self._gone and task.terms.abandoned_is_cancelled

    def _leave(self, task: Task, client: bytes, envelope: bytes) -> None:
        known = task.known
        if task.stage == DONE:
            return
        if known is None or not known.waiters:
            self.cancel(task)
            return
        if (task.client, task.envelope) == (client, envelope):
            task.client, task.envelope = known.waiters.pop(0)
        else:
            known.waiters.remove((client, envelope))
        self._out.clients.append([client, envelope, task.client_header(inner.UNKNOWN_LEFT_TO_OTHERS), b""])

    def cancel(self, task: Task) -> None:
        if task.is_cancelled:
            return
        task.is_cancelled = True
        if task.stage == QUEUED:
            self._assignment.leave_backlog(task)
            self._outcomes.unstarted(task, inner.REJECTED_CANCELLED, inner.UNKNOWN_CANCELLED)
        elif task.stage == DELAYED:
            self._delays.reject(task, inner.REJECTED_CANCELLED)
        elif task.stage == RUNNING:
            if task.delegate:
                self._out.delegates.append((task.delegate, [b"", CANCEL, task.ticket]))
            elif (session := self._sessions.by_identity.get(task.worker)) is not None:
                self._out.workers.append([session.peer, b"", CANCEL, task.ticket])
            timers = self._outcomes.timers
            timers.cancel(task)
            timers.set(task, min(task.deadline_ns, self._now.ns + ANSWER_NS))
