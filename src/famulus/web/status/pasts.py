"""The past of each worker: how many of its slots were busy, second by second. Bounded. Knows no clock."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from famulus.web.status.views import WorkerPoint
from famulus.wire import status as snapshots

WORKERS_MAX = 1000
#: Of each worker: five minutes.
SECONDS_MAX = 300
KEPT_MS = SECONDS_MAX * 1000


class _Past:
    """Two columns of numbers, since there are many of these: a tenth of the room that points would take."""

    __slots__ = ("at_ms", "busy")

    def __init__(self) -> None:
        self.at_ms = array("q")
        self.busy = array("q")

    def add(self, at_ms: int, busy: int) -> None:
        if self.at_ms and at_ms < self.at_ms[-1]:
            self.at_ms, self.busy = array("q"), array("q")  # the clock was set back
        self.at_ms.append(at_ms)
        self.busy.append(busy)
        if len(self.at_ms) > SECONDS_MAX:
            del self.at_ms[0], self.busy[0]


class Pasts:
    def __init__(self) -> None:
        self._pasts: dict[str, _Past] = {}

    def __len__(self) -> int:
        return len(self._pasts)

    def take(self, workers: Sequence[snapshots.Worker], now_ms: int) -> None:
        there = {worker.identity for worker in workers}
        for identity in [each for each in self._pasts if each not in there and self._is_over(each, now_ms)]:
            del self._pasts[identity]
        for worker in workers:
            past = self._pasts.get(worker.identity)
            if past is None and len(self._pasts) < WORKERS_MAX:
                past = self._pasts[worker.identity] = _Past()
            if past is not None:
                past.add(now_ms, worker.slots - worker.free)

    def _is_over(self, identity: str, now_ms: int) -> bool:
        """Of a worker that is not there: one that comes back finds its past, if there is room for it."""
        return len(self._pasts) >= WORKERS_MAX or self._pasts[identity].at_ms[-1] < now_ms - KEPT_MS

    def of(self, identity: str, now_ms: int) -> list[WorkerPoint]:
        """The last five minutes; nothing of a worker that was never here."""
        past = self._pasts.get(identity)
        if past is None:
            return []
        points = zip(past.at_ms, past.busy, strict=True)
        return [WorkerPoint(at_ms, busy) for at_ms, busy in points if at_ms >= now_ms - KEPT_MS]
