"""Decides which free slot of a service is used next: tasks with the same key go to the same worker.

By rendezvous hashing: key and worker together make a number, and the worker with the highest one has the key. So a
worker that leaves gives up its own keys and no others, one that comes takes its share from all, and nothing has to be
remembered, not even across a restart: names and keys are all it takes.

A worker without a free slot is passed over: the task goes to the one with the next highest number, which is always the
same one too, and the key comes back with the first free slot.
"""

from __future__ import annotations

from famulus.core.dispatch.chooser import MASK, Candidate
from famulus.core.dispatch.lru import LRU


class ByKey(LRU):
    """Tasks without a key go to the least recently used. Looks at every worker of the service."""

    __slots__ = ()

    def take(self, key: int) -> Candidate | None:
        if not key:
            return super().take(key)
        best: Candidate | None = None
        highest = -1
        for candidate in self.able():
            weight = weight_of(key, candidate.mark)
            if weight > highest:
                best, highest = candidate, weight
        if best is not None:
            self.use(best)
        return best


def weight_of(key: int, mark: int) -> int:
    """How strongly the worker with this mark draws this key: as good as random, and always the same."""
    mixed = (key ^ mark) & MASK
    # Each step spreads every bit over more of the others; a product has no more bits than 62.
    mixed = (mixed ^ mixed >> 16) * 0x2C1B3C6D & MASK
    mixed = (mixed ^ mixed >> 12) * 0x297A2D39 & MASK
    return mixed ^ mixed >> 15
