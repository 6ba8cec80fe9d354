"""Gives every accepted task its one outcome, and tells whoever should know. Until then the task is open: it is counted,
its body is held if it may be needed again, and a timer waits for its deadline."""

from __future__ import annotations

from collections.abc import Callable

from famulus.core.dispatch.counters import Counters
from famulus.core.dispatch.facts import Facts
from famulus.core.dispatch.now import Now
from famulus.core.dispatch.outgoing import Outgoing
from famulus.core.dispatch.repeats import Known, Repeats
from famulus.core.dispatch.streams import Streams
from famulus.core.dispatch.task import ENDED, NEW, Task
from famulus.core.timers import Timers
from famulus.wire import inner

#: A task that has ended: the tail that says how, when, and how many bytes its answer has.
Ending = tuple[Task, bytes, int, int]


class Outcomes:
    def __init__(
        self,
        now: Now,
        out: Outgoing,
        counters: Counters,
        next_ticket: Callable[[], bytes],
        repeats: Repeats,
        facts: Facts,
        streams: Streams,
    ) -> None:
        self._now = now
        self._out = out
        self._counters = counters
        self._next_ticket = next_ticket
        self._repeats = repeats
        self._facts = facts
        self._streams = streams
        self.timers: Timers[Task] = Timers()
        #: Tasks without an outcome, and the bodies held for them.
        self.open_tasks = 0
        self.open_bytes = 0
        #: How many more tasks of each kind the herald will be told about. 0 if nobody asks: then a task costs one test.
        self._ok_room = 0
        self._failed_room = 0
        self._sample: list[Ending] = []

    def begin(self, task: Task) -> None:
        self.open_tasks += 1
        task.account.open_tasks += 1

    def ok(self, task: Task, tail: bytes, body: bytes) -> None:
        self._counters.ok += 1
        service = task.service
        service.ok += 1
        service.latency.add(self._now.ns - task.arrived_ns)
        if self._ok_room:
            self._ok_room -= 1
            self._sample.append((task, tail, self._now.ns, len(body)))
        self._end(task, tail, body)

    def error(self, task: Task, tail: bytes, body: bytes) -> None:
        self._counters.error += 1
        service = task.service
        service.error += 1
        service.latency.add(self._now.ns - task.arrived_ns)
        self._fail(task, tail, body)

    def reject(self, task: Task, tail: bytes) -> None:
        self._counters.rejected += 1
        task.service.rejected += 1
        self._fail(task, tail, b"")

    def unknown(self, task: Task, tail: bytes) -> None:
        self._counters.unknown += 1
        task.service.unknown += 1
        self._fail(task, tail, b"")

    def unstarted(self, task: Task, rejection: bytes, unknown: bytes) -> None:
        """Only a task that no worker ever had has provably not run."""
        if task.attempt == 0:
            self.reject(task, rejection)
        else:
            self.unknown(task, unknown)

    def take_sample(self, ok_max: int, failed_max: int) -> list[Ending]:
        """Tasks that have ended since the last call; until the next one, the first so many of each kind are kept."""
        taken = self._sample
        self._sample = []
        self._ok_room = ok_max
        self._failed_room = failed_max
        return taken

    def _fail(self, task: Task, tail: bytes, body: bytes) -> None:
        if self._failed_room:
            self._failed_room -= 1
            self._sample.append((task, tail, self._now.ns, len(body)))
        self._end(task, tail, body)

    def _end(self, task: Task, tail: bytes, body: bytes) -> None:
        stage = task.stage
        task.stage = ENDED[stage]
        if task.bucket is not None:
            self.timers.cancel(task)
        self.open_tasks -= 1
        task.account.open_tasks -= 1
        if task.body:
            if stage != NEW:
                self.open_bytes -= len(task.body)
            task.body = b""
        size = len(body)
        if task.flow.credit:
            size += self._streams.end(task)
        self._out.clients.append([task.client, task.envelope, task.client_header(tail), body])
        facts = self._facts
        if facts.on:
            # A task that was never given out has no ticket, but its row needs a number of its own.
            facts.ended(task, task.ticket or self._next_ticket(), tail, self._now.moment, size)
        if task.known is not None:
            self._remember(task, task.known, tail, body)

    def _remember(self, task: Task, known: Known, tail: bytes, body: bytes) -> None:
        """The client chose its id, and may ask again: those who already did are told now, those to come later."""
        for client, envelope in known.waiters:
            self._out.clients.append([client, envelope, task.client_header(tail), body])
        may_run_again = task.flow.at_least_once and tail.startswith(inner.TAIL_UNKNOWN) and not known.is_streamed
        if task.attempt == 0 or may_run_again:
            self._repeats.drop(known)
        else:
            self._repeats.end(known, task.service, tail, body, self._now.ns)
