"""Decides which free slot of a service is used next: one of the worker that has least to do for its slots."""

from __future__ import annotations

from famulus.core.dispatch.chooser import Candidate
from famulus.core.dispatch.lru import LRU


class LeastBusy(LRU):
    """Among equals, the least recently used. Looks at every worker of the service until it finds an idle one."""

    __slots__ = ()

    def take(self, key: int) -> Candidate | None:
        best: Candidate | None = None
        for candidate in self.able():
            if best is None or _is_less_busy(candidate, best):
                best = candidate
                if best.free == best.slots:
                    break
        if best is not None:
            self.use(best)
        return best


def _is_less_busy(one: Candidate, other: Candidate) -> bool:
    """By the share of its slots: a worker with more of them is meant to have more to do."""
    return (one.slots - one.free) * other.slots < (other.slots - other.free) * one.slots
