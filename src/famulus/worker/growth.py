"""Decides when more threads would help. Knows no threads and no clock.

A quick function keeps one thread busy without a pause, and more threads would only compete for the interpreter. A
function that waits (for a disk, a database, another service) leaves it idle. The two differ in how long a call takes,
so that is what is checked, about once a millisecond, and only while tasks wait for a thread.
"""

from __future__ import annotations

from collections.abc import Collection

from famulus.core.clock import NEVER_NS, NS_PER_MS

LOOK_NS = NS_PER_MS
#: Calls that take less than this on average are quick: another thread would not start the next one sooner.
QUICK_NS = NS_PER_MS // 2
#: This many calls are remembered. Many, since now and then a quick one waits for the interpreter and looks slow.
REMEMBERED = 512
#: Fewer than this are not enough to judge.
TELLING = 64
#: If nothing has ended for this long, what runs now is slow, whatever ran before.
SILENCE_NS = 20 * NS_PER_MS
#: This many threads are never too many.
FEW = 4


class Growth:
    def __init__(self, threads_max: int) -> None:
        self._threads_max = threads_max
        self._finished = 0
        self._finished_ns = 0
        self.next_due_ns = NEVER_NS

    def at_once(self, threads: int, running: int) -> int:
        """How many threads to add when tasks arrive and `running` of them have no answer yet."""
        return max(0, min(FEW, self._threads_max, running) - threads)

    def later(self, now_ns: int, threads: int, waiting: int, finished: int, lasted_ns: Collection[int]) -> int:
        """How many to add if `waiting` tasks have no thread and `finished` have ended; the last took `lasted_ns`."""
        if waiting <= 0 or threads >= self._threads_max:
            self.next_due_ns = NEVER_NS
            return 0
        begins = self.next_due_ns == NEVER_NS
        if begins or finished != self._finished:
            self._finished = finished
            self._finished_ns = now_ns
        if not begins and now_ns < self.next_due_ns:
            return 0
        self.next_due_ns = now_ns + LOOK_NS
        if begins or self._quick(now_ns - self._finished_ns, threads, lasted_ns):
            return 0
        # Doubling: a burst of slow tasks has all its threads after about ten looks.
        return min(threads, waiting, self._threads_max - threads)

    def _quick(self, silence_ns: int, threads: int, lasted_ns: Collection[int]) -> bool:
        count = len(lasted_ns)
        if count < TELLING:
            return silence_ns < LOOK_NS
        if silence_ns >= SILENCE_NS:
            return False
        if sum(lasted_ns) < QUICK_NS * count:
            return True
        # A thread that lost the interpreter to another in the middle of a quick call makes that call look long.
        usual_ns = sorted(lasted_ns)[: -min(threads, count // 2)]
        return sum(usual_ns) < QUICK_NS * len(usual_ns)
