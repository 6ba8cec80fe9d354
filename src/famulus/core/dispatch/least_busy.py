"""Decides which free slot of a service is used next: one of the worker that has least to do for its slots.

A worker that takes far longer than usual counts as one that has that much more to do. Without that, it would get as
many tasks as the others where all slots are mostly free, or where a worker does the tasks of all its slots at once.
"""

from __future__ import annotations

from typing import Final

from famulus.core.clock import NS_PER_S
from famulus.core.dispatch.chooser import Candidate
from famulus.core.dispatch.lru import LRU

#: A worker is slow if it took so many times as long as is usual.
SLOW: Final = 4
#: So many answers, more or less, make up what is usual.
USUAL_OF: Final = 32
#: For how long that counts. After that it is tried again, or earlier, if the others are busy.
REST_NS: Final = 10 * NS_PER_S


class LeastBusy(LRU):
    """Among equals, the least recently used. Looks at every worker of the service until it finds an idle one."""

    __slots__ = ("_doubted", "_now_ns", "_slow", "_usual_ns")

    def __init__(self) -> None:
        super().__init__()
        #: Their last answer was slow; and if the one before was, too, until when that counts. Any task may take long.
        self._doubted: set[Candidate] = set()
        self._slow: dict[Candidate, int] = {}
        self._usual_ns = 0
        #: When the last answer came: this is as much as it knows about the time.
        self._now_ns = 0

    def take(self, key: int) -> Candidate | None:
        slow = self._slow
        if slow:
            self._forget_old()
        best: Candidate | None = None
        for candidate in self.able():
            if best is None or _is_less_busy(candidate, best, slow):
                best = candidate
                if best.free == best.slots and best not in slow:
                    break
        if best is not None:
            self.use(best)
        return best

    def leave(self, candidate: Candidate) -> None:
        super().leave(candidate)
        self._doubted.discard(candidate)
        self._slow.pop(candidate, None)

    def answered(self, candidate: Candidate, took_ns: int, now_ns: int, plain: bool = True) -> None:
        self._now_ns = now_ns
        usual_ns = self._usual_ns
        if usual_ns and took_ns > SLOW * usual_ns:
            if candidate in self._doubted:
                self._slow[candidate] = now_ns + REST_NS
            self._doubted.add(candidate)
        elif self._doubted:
            self._doubted.discard(candidate)
            self._slow.pop(candidate, None)
        # Slow answers count, too: if all take longer from now on, that is usual.
        self._usual_ns = usual_ns + (took_ns - usual_ns) // USUAL_OF if usual_ns else took_ns

    def _forget_old(self) -> None:
        for candidate in [each for each, until_ns in self._slow.items() if until_ns <= self._now_ns]:
            del self._slow[candidate]


def _is_less_busy(one: Candidate, other: Candidate, slow: dict[Candidate, int]) -> bool:
    """By the share of its slots: a worker with more of them is meant to have more to do."""
    has, others = one.slots - one.free, other.slots - other.free
    if slow:
        # One task more, and each takes it several times as long.
        has = SLOW * (has + 1) if one in slow else has
        others = SLOW * (others + 1) if other in slow else others
    return has * other.slots < others * one.slots
