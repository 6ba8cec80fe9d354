"""Which tasks of a client are tried again, and when. Uses no clock.

A task that was refused provably did not run, so sending it once more is safe; one that may have run is sent once more
if running twice does no harm. It rests for a moment first, longer each time, and at most until its own deadline. Trying
again must not make an overload worse: what a broker has no room for, what may have run, and second attempts are
together at most a tenth of the tasks that the client sends at that time, and a few more.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.session.done import Done
from famulus.core.session.retry import FINAL, Idempotent
from famulus.wire import reasons

#: The pause before a task is sent once more: doubling, from the first value to the second, less up to a half by chance.
PAUSE_NS: Final = (100 * NS_PER_MS, 2 * NS_PER_S)
#: So long after the connection is back, its broker may not know its workers yet.
WORKERS_BACK_NS: Final = 10 * NS_PER_S
#: The budget: for each span of time a share of the tasks that were sent in it, and a few more.
SPAN_NS: Final = 10 * NS_PER_S
FEW: Final = 100
SHARE: Final = 10


class Retries:
    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        #: Those that rest: until when, their envelope, and the task.
        self._resting: list[tuple[int, bytes, Done]] = []
        self.next_due_ns = NEVER_NS
        #: When the connection came back after a loss.
        self._back_ns = -WORKERS_BACK_NS
        self._span_ns = -SPAN_NS
        self._sent_before = self._spent = 0

    def on_back(self, now_ns: int) -> None:
        """The connection, which was lost, is up again."""
        self._back_ns = now_ns

    def allows(self, task: Done, now_ns: int, sent: int) -> bool:
        """Whether this task is to be sent again, which was refused or may have run. `sent`: how many were, so far."""
        retry = task.retry
        if retry is None or not task.is_kept or now_ns >= task.deadline_ns:
            return False
        if retry.attempts and task.tries + 1 >= retry.attempts:
            return False
        code = reasons.code_of(task.reason)
        if task.outcome == "UNKNOWN":
            repeats = isinstance(retry, Idempotent) and retry.doubts and code not in FINAL
            return repeats and self.has_budget(now_ns, sent)
        if code not in retry.on:
            return False
        if code == reasons.NO_SERVICE:
            # Otherwise nobody offers it, and waiting would not help whoever misspelt its name.
            return now_ns - self._back_ns < WORKERS_BACK_NS
        return code != reasons.OVERLOAD or self.has_budget(now_ns, sent)

    def has_budget(self, now_ns: int, sent: int) -> bool:
        """Whether one more may leave that nobody has asked for; if so, it counts."""
        if now_ns - self._span_ns >= SPAN_NS:
            self._span_ns, self._sent_before, self._spent = now_ns, sent, 0
        if self._spent >= FEW + (sent - self._sent_before) // SHARE:
            return False
        self._spent += 1
        return True

    def rest(self, task: Done, now_ns: int) -> None:
        """It is sent again when it is `due`."""
        pause_ns = min(PAUSE_NS[0] << min(task.tries, 30), PAUSE_NS[1])
        task.tries += 1
        due_ns = now_ns + pause_ns // 2 + int(self._chance() * (pause_ns // 2))
        heappush(self._resting, (due_ns, task.envelope, task))
        self.next_due_ns = self._resting[0][0]

    def due(self, now_ns: int) -> list[Done]:
        """Those that have rested long enough."""
        found: list[Done] = []
        while self._resting and self._resting[0][0] <= now_ns:
            found.append(heappop(self._resting)[2])
        self.next_due_ns = self._resting[0][0] if self._resting else NEVER_NS
        return found

    def take(self) -> list[Done]:
        """All that rest."""
        resting, self._resting = self._resting, []
        self.next_due_ns = NEVER_NS
        return [task for _, _, task in sorted(resting)]

    def drop_ended(self, open_tasks: dict[bytes, Done]) -> None:
        """Some have expired meanwhile."""
        self._resting = [each for each in self._resting if each[1] in open_tasks]
        self._resting.sort()
        self.next_due_ns = self._resting[0][0] if self._resting else NEVER_NS
