"""Second attempts at tasks that may run twice: when one leaves, and what becomes of the two. Uses no socket, no clock.

One leaves after the time that the caller has named, or when a task takes longer than nearly all others of its service
did lately. Whichever attempt is answered first with OK or ERROR, the task ends so, and the other one is cancelled. If
one of them is REJECTED or UNKNOWN, the other one decides: then the task goes on as if there had been only that one.

What is open, unsent and to be cancelled belongs to the session; this is the part of it that knows of two attempts.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from famulus.core.clock import NEVER_NS
from famulus.core.session.done import Done, Hedge, Repeatable
from famulus.core.session.kept_bodies import KeptBodies
from famulus.core.session.retry import Idempotent
from famulus.core.session.usual_times import Services
from famulus.core.timers import Timers

#: Tasks that have ended are forgotten when there are this many of them, and more than of the others.
ENDED_MAX: Final = 1000


class Hedges:
    def __init__(
        self,
        open_tasks: dict[bytes, Done],
        unsent: list[Done],
        timers: Timers[Done],
        bodies: KeptBodies,
        cancels: dict[int, list[bytes]],
    ) -> None:
        self._open = open_tasks
        self._unsent = unsent
        self._timers = timers
        self._bodies = bodies
        self._cancels = cancels
        #: Whether anybody has ever asked for second attempts: until then no task pays for them.
        self.on = False
        #: Until when, under which envelope, how long from the beginning, and the task.
        self._waiting: list[tuple[int, bytes, int, Repeatable]] = []
        self.next_due_ns = NEVER_NS
        self._services = Services()

    def __len__(self) -> int:
        """How many are waited with, also if they have ended meanwhile."""
        return len(self._waiting)

    # -- when one leaves ----------------------------------------------------------------------------------------

    def expect(self, task: Repeatable, wish: Idempotent, service: str, now_ns: int) -> None:
        """It is being submitted, and may need a second attempt."""
        after_ns = wish.hedge_after_ns
        if wish.hedges_slowest:
            self.on = True
            after_ns = self._services.slow_ns(service)
        if after_ns:
            self.on = True
            if len(self._waiting) >= ENDED_MAX + 2 * len(self._open):
                self._waiting = [each for each in self._waiting if self._is_open(each[3])]
                heapify(self._waiting)
            self._wait(task, now_ns, after_ns)

    def due(self, now_ns: int) -> list[Repeatable]:
        """Those that have had no answer for long enough."""
        found: list[Repeatable] = []
        while self._waiting and self._waiting[0][0] <= now_ns:
            _, envelope, after_ns, task = heappop(self._waiting)
            if not task.is_kept or not self._is_open(task):
                continue
            if task.leg and task.envelope == envelope:
                found.append(task)
            elif now_ns + after_ns < task.deadline_ns:
                # It was not sent yet, or has just been sent anew: the time begins again.
                self._wait(task, now_ns, after_ns)
        self.next_due_ns = self._waiting[0][0] if self._waiting else NEVER_NS
        return found

    def begin(self, task: Repeatable, now_ns: int) -> None:
        hedge = task.hedged(now_ns)
        self._open[hedge.envelope] = hedge
        self._unsent.append(hedge)
        self._timers.set(hedge, hedge.deadline_ns)

    # -- what becomes of the two --------------------------------------------------------------------------------

    def settle(self, ended: list[Done], now_ns: int = NEVER_NS) -> list[Done]:
        """What callers are to be told: they know tasks, and not which attempt it was that ended them."""
        told: list[Done] = []
        for each in ended:
            if isinstance(each, Hedge):
                task = _leave(each)
                if task is None or not _is_first_answer(each, task):
                    continue
                task.outcome, task.reason, task.body = each.outcome, each.reason, each.body
                task.message_id, task.broker = each.message_id or task.message_id, each.broker
                self._withdraw(task)
            elif isinstance(each, Repeatable):
                task = each
                if task.hedge is not None:
                    hedge = task.hedge
                    _leave(hedge)
                    self._withdraw(hedge)
            else:
                told.append(each)
                continue
            self._learn(task, now_ns)
            told.append(task)
        return told

    def goes_on(self, ended: Done) -> bool:
        """This attempt is REJECTED or UNKNOWN: whether its task has another one, which decides now."""
        if isinstance(ended, Hedge):
            task = _leave(ended)
            if task is not None and ended.outcome == "UNKNOWN":
                task.note_doubt(ended.reason)
            self._bodies.let_go(ended)
            return True
        if not isinstance(ended, Repeatable) or ended.hedge is None:
            return False
        hedge = ended.hedge
        if self._open.get(hedge.envelope) is not hedge:
            return True  # it has been answered in this very moment, and `settle` will see it
        _leave(hedge)
        self._withdraw(hedge, tell=False)
        if not hedge.leg:
            return False
        if ended.outcome == "UNKNOWN":
            ended.note_doubt(ended.reason)
        ended.outcome, ended.reason, ended.body = "UNKNOWN", "", b""
        ended.envelope, ended.leg = hedge.envelope, hedge.leg
        self._open[ended.envelope] = ended
        self._timers.set(ended, ended.deadline_ns)
        return True

    def lose(self, leg: int, reason: str) -> None:
        """Nothing more is heard over this leg (0: over any). With a reason, what was sent there may have run."""
        hedges = [each for each in self._open.values() if isinstance(each, Hedge)]
        for hedge in hedges:
            if not hedge.leg or leg in (0, hedge.leg):
                task = _leave(hedge)
                if task is not None and reason and hedge.leg:
                    task.note_doubt(reason)
                self._withdraw(hedge, tell=False)
        for hedge in hedges:
            task = hedge.first
            if task is not None and task.leg == leg:
                del self._open[task.envelope]
                if task.bucket is not None:
                    self._timers.cancel(task)
                task.outcome, task.reason = "UNKNOWN" if reason else "REJECTED", reason
                self.goes_on(task)

    # -- inside -------------------------------------------------------------------------------------------------

    def _is_open(self, task: Done) -> bool:
        return self._open.get(task.envelope) is task

    def _wait(self, task: Repeatable, now_ns: int, after_ns: int) -> None:
        heappush(self._waiting, (max(now_ns, task.begins_ns) + after_ns, task.envelope, after_ns, task))
        self.next_due_ns = self._waiting[0][0]

    def _withdraw(self, attempt: Done, *, tell: bool = True) -> None:
        """Nobody waits for it any more; its broker is to be told."""
        if self._is_open(attempt):
            del self._open[attempt.envelope]
            if attempt.bucket is not None:
                self._timers.cancel(attempt)
            if not attempt.leg:
                self._unsent.remove(attempt)
            elif tell:
                self._cancels.setdefault(attempt.leg, []).append(attempt.envelope)
        self._bodies.let_go(attempt)

    def _learn(self, task: Repeatable, now_ns: int) -> None:
        wish = task.retry
        if isinstance(wish, Idempotent) and wish.hedges_slowest and task.outcome == "OK" and now_ns < NEVER_NS:
            self._services.add(task.service, now_ns - task.begins_ns)


def _leave(hedge: Hedge) -> Repeatable | None:
    """It does not matter to its task any more. The task, if it still did."""
    task, hedge.first = hedge.first, None
    if task is not None:
        task.hedge = None
    return task


def _is_first_answer(hedge: Hedge, task: Repeatable) -> bool:
    if hedge.outcome == "UNKNOWN":
        task.note_doubt(hedge.reason)
    is_answer = hedge.outcome == "OK" or hedge.outcome == "ERROR"
    # Both may have been answered in the same moment.
    return is_answer and task.outcome != "OK" and task.outcome != "ERROR"
