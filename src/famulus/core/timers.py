"""Decides what is due. Reads no clock: `now_ns` is passed in.

A wheel of buckets, one per tick, each a dict of what is due in it: setting and cancelling cost O(1), and a cancelled
item leaves nothing behind (a heap with lazy deletion would hold every answered task until its time-out). The heap holds
only ticks, so it grows with time and not with tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final, Generic, TypeVar

from famulus.core.clock import NEVER_NS, NS_PER_MS

TICK_NS: Final = 20 * NS_PER_MS


class Timed:
    """Something that can be put on a wheel, in one bucket at a time."""

    __slots__ = ("bucket",)

    def __init__(self) -> None:
        self.bucket: dict[Timed, None] | None = None


T = TypeVar("T", bound=Timed)


class Timers(Generic[T]):
    def __init__(self) -> None:
        self._buckets: dict[int, dict[Timed, None]] = {}
        self._ticks: list[int] = []
        # Consecutive tasks mostly have the same time-out, and so the same bucket: that of this tick.
        self._last_tick_ns = -TICK_NS
        self._last_bucket: dict[Timed, None] = {}

    def set(self, item: T, due_ns: int) -> None:
        """Make `item` due at the first tick at or after `due_ns`: never early, at most one tick late."""
        assert item.bucket is None
        if self._last_tick_ns - TICK_NS < due_ns <= self._last_tick_ns:
            bucket = self._last_bucket
        else:
            bucket = self._bucket_of(due_ns)
        bucket[item] = None
        item.bucket = bucket

    def _bucket_of(self, due_ns: int) -> dict[Timed, None]:
        tick = -(-due_ns // TICK_NS)
        bucket = self._buckets.get(tick)
        if bucket is None:
            bucket = self._buckets[tick] = {}
            heappush(self._ticks, tick)
        self._last_tick_ns = tick * TICK_NS
        self._last_bucket = bucket
        return bucket

    def cancel(self, item: T) -> None:
        bucket = item.bucket
        assert bucket is not None
        del bucket[item]
        if not bucket:
            bucket.clear()  # an emptied dict keeps the memory of its fullest time; a cleared one does not
        item.bucket = None

    def __iter__(self) -> Iterator[T]:
        """Everything on the wheel."""
        for bucket in self._buckets.values():
            yield from bucket  # type: ignore[misc]

    def due(self, now_ns: int) -> list[T]:
        """What is due by now, in order; it is taken off the wheel."""
        due: list[T] = []
        self._last_tick_ns = -TICK_NS
        while self._ticks and self._ticks[0] * TICK_NS <= now_ns:
            bucket = self._buckets.pop(heappop(self._ticks))
            for item in bucket:
                item.bucket = None
            due.extend(bucket)  # type: ignore[arg-type]
        return due

    @property
    def next_due_ns(self) -> int:
        while self._ticks:
            tick = self._ticks[0]
            if self._buckets[tick]:
                return tick * TICK_NS
            if len(self._ticks) == 1:
                break  # with one task at a time, the next one mostly needs it again
            del self._buckets[tick]
            heappop(self._ticks)
            self._last_tick_ns = -TICK_NS
        return NEVER_NS
