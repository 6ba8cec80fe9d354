"""What changes over time: how fast the counters of one broker or service grow, and how long its tasks took recently."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from famulus.core.clock import NS_PER_S
from famulus.web.status.durations import difference, quantile_ms
from famulus.web.status.history import History
from famulus.web.status.views import Point

RATE_NS = 5 * NS_PER_S
#: Quantiles are those of the last minute, in steps of ten seconds.
RECENT_NS = 60 * NS_PER_S
RECENT_STEP_NS = 10 * NS_PER_S


class Rates:
    """How fast two counters grow: tasks that ended, and those of them that did not end well; or any other two."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int, int]] = deque()

    def count(self, at_ns: int, ended: int, failed: int) -> None:
        if self._seen and (at_ns < (last := self._seen[-1])[0] or ended < last[1] or failed < last[2]):
            self._seen.clear()  # a new dispatcher counts from zero
        self._seen.append((at_ns, ended, failed))
        # The last one that is old enough stays, to compare with.
        while len(self._seen) > 2 and self._seen[1][0] <= at_ns - RATE_NS:
            self._seen.popleft()

    @property
    def counts(self) -> tuple[int, int]:
        """As they were counted last."""
        return self._seen[-1][1:] if self._seen else (0, 0)

    @property
    def smooth(self) -> tuple[float, float]:
        """Per second, over the last five."""
        return _rates(self._seen[0], self._seen[-1]) if self._seen else (0.0, 0.0)

    @property
    def last(self) -> tuple[float, float] | None:
        """Since the snapshot before; None if there is none to compare with."""
        return _rates(self._seen[-2], self._seen[-1]) if len(self._seen) > 1 else None


def _rates(first: tuple[int, int, int], last: tuple[int, int, int]) -> tuple[float, float]:
    seconds = (last[0] - first[0]) / NS_PER_S
    if seconds <= 0:
        return 0.0, 0.0
    return round((last[1] - first[1]) / seconds, 2), round((last[2] - first[2]) / seconds, 2)


class Recent:
    """Of counts that only grow: those of the last minute."""

    def __init__(self) -> None:
        self.counts: Sequence[int] = ()
        self.sum_ns = 0
        self._source = ""
        self._marks: deque[tuple[int, Sequence[int]]] = deque()
        self._quantiles: tuple[float | None, float | None] = (None, None)
        self._computed_ns = -RECENT_STEP_NS

    def take(self, source: str, at_ns: int, sum_ns: int, counts: Sequence[int]) -> None:
        if source != self._source:
            self._source = source
            self._marks.clear()
            self._marks.append((at_ns, [0] * len(counts)))
        elif at_ns >= self._marks[-1][0] + RECENT_STEP_NS:
            self._marks.append((at_ns, self.counts))
        self.counts, self.sum_ns = counts, sum_ns
        self._computed_ns = -RECENT_STEP_NS
        self._forget(at_ns)

    def quantiles(self, now_ns: int) -> tuple[float | None, float | None]:
        """p50 and p99; nothing while there were no tasks."""
        if self._marks and now_ns - self._computed_ns >= NS_PER_S:
            self._computed_ns = now_ns
            self._forget(now_ns)
            counts = self.of_late()
            self._quantiles = (quantile_ms(counts, 0.5), quantile_ms(counts, 0.99))
        return self._quantiles

    def of_late(self) -> list[int]:
        return difference(self.counts, self._marks[0][1]) if self._marks else []

    def _forget(self, now_ns: int) -> None:
        while len(self._marks) > 1 and self._marks[1][0] <= now_ns - RECENT_NS:
            self._marks.popleft()
        if len(self._marks) == 1 and self._marks[0][0] <= now_ns - RECENT_NS - RECENT_STEP_NS:
            # Nobody told us anything for a minute: what was counted last is not recent any more.
            self._marks[0] = (now_ns, self.counts)


class Track:
    """All of this for one service, or for the whole broker."""

    def __init__(self, seconds_max: int, minutes_max: int) -> None:
        self.rates = Rates()
        self.recent = Recent()
        self.history = History(seconds_max, minutes_max)

    def count(self, at_ns: int, now_ms: int, ended: int, failed: int, backlog: int, busy: int) -> None:
        """What a snapshot says: one more point of the past."""
        self.rates.count(at_ns, ended, failed)
        if (rates := self.rates.last) is not None:
            self.history.add(Point(now_ms, *rates, backlog, busy))
