"""What changes over time: how fast the counters of one broker or service grow, how long its tasks took recently, and
its past: seconds of the last minutes, minutes of the last day; and how busy each worker was. Bounded."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from famulus.core.clock import NS_PER_S
from famulus.web.status.durations import difference, quantile_ms
from famulus.web.status.views import Point, WorkerPoint
from famulus.wire import status as snapshots

RATE_NS = 5 * NS_PER_S
#: Quantiles are those of the last minute, in steps of ten seconds.
RECENT_NS = 60 * NS_PER_S
RECENT_STEP_NS = 10 * NS_PER_S
#: How much of a broker's past is kept.
SECONDS_MAX = 900
MINUTES_MAX = 1440
MINUTE_MS = 60_000


class Rates:
    """How fast two counters grow: tasks that ended, and those of them that did not end well; or any other two."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int, int]] = deque()

    def count(self, at_ns: int, ended: int, failed: int) -> None:
        if self._seen and (at_ns < (last := self._seen[-1])[0] or ended < last[1] or failed < last[2]):
            self._seen.clear()  # a new dispatcher counts from zero
        self._seen.append((at_ns, ended, failed))
        # Keep the last one that is old enough, to compare with.
        while len(self._seen) > 2 and self._seen[1][0] <= at_ns - RATE_NS:
            self._seen.popleft()

    @property
    def counts(self) -> tuple[int, int]:
        """The latest counts."""
        return self._seen[-1][1:] if self._seen else (0, 0)

    @property
    def smooth(self) -> tuple[float, float]:
        """Per second, over the last five seconds."""
        return _rates(self._seen[0], self._seen[-1]) if self._seen else (0.0, 0.0)

    @property
    def last(self) -> tuple[float, float] | None:
        """Per second, since the previous snapshot; None if there is none to compare with."""
        return _rates(self._seen[-2], self._seen[-1]) if len(self._seen) > 1 else None


def _rates(first: tuple[int, int, int], last: tuple[int, int, int]) -> tuple[float, float]:
    seconds = (last[0] - first[0]) / NS_PER_S
    if seconds <= 0:
        return 0.0, 0.0
    return round((last[1] - first[1]) / seconds, 2), round((last[2] - first[2]) / seconds, 2)


class Recent:
    """The last minute of counts that only grow."""

    def __init__(self) -> None:
        self.counts: Sequence[int] = ()
        self.sum_ns = 0
        self._source = ""
        self._marks: deque[tuple[int, Sequence[int]]] = deque()
        self._quantiles: tuple[float | None, float | None] = (None, None)
        self._computed_ns = -RECENT_STEP_NS

    def take(self, source: str, at_ns: int, sum_ns: int, counts: Sequence[int]) -> list[int]:
        """Returns what was counted since the last time, or since the source began."""
        fresh = difference(counts, self.counts if source == self._source else ())
        if source != self._source:
            self._source = source
            self._marks.clear()
            self._marks.append((at_ns, [0] * len(counts)))
        elif at_ns >= self._marks[-1][0] + RECENT_STEP_NS:
            self._marks.append((at_ns, self.counts))
        self.counts, self.sum_ns = counts, sum_ns
        self._computed_ns = -RECENT_STEP_NS
        self._forget(at_ns)
        return fresh

    def quantiles(self, now_ns: int) -> tuple[float | None, float | None]:
        """p50 and p99; None if there were no tasks."""
        if self._marks and now_ns - self._computed_ns >= NS_PER_S:
            self._computed_ns = now_ns
            self._forget(now_ns)
            counts = self.last_minute()
            self._quantiles = (quantile_ms(counts, 0.5), quantile_ms(counts, 0.99))
        return self._quantiles

    def last_minute(self) -> list[int]:
        return difference(self.counts, self._marks[0][1]) if self._marks else []

    def _forget(self, now_ns: int) -> None:
        while len(self._marks) > 1 and self._marks[1][0] <= now_ns - RECENT_NS:
            self._marks.popleft()
        if len(self._marks) == 1 and self._marks[0][0] <= now_ns - RECENT_NS - RECENT_STEP_NS:
            # Nothing was reported for a minute: the last counts are no longer recent.
            self._marks[0] = (now_ns, self.counts)


class History:
    def __init__(self, seconds_max: int = SECONDS_MAX, minutes_max: int = MINUTES_MAX) -> None:
        self.seconds: deque[Point] = deque(maxlen=seconds_max)
        self.minutes: deque[Point] = deque(maxlen=minutes_max)
        self._minute: list[Point] = []

    def add(self, point: Point) -> None:
        if self._minute and point.at_ms // MINUTE_MS != self._minute[0].at_ms // MINUTE_MS:
            self.minutes.append(_mean(self._minute))
            self._minute = []
        self.seconds.append(point)
        # A clock that was set back must not make this grow.
        if len(self._minute) < 120:
            self._minute.append(point)


def _mean(points: list[Point]) -> Point:
    count = len(points)
    halves = [point.p50_ms for point in points if point.p50_ms is not None]
    return Point(
        points[-1].at_ms,
        round(sum(point.rate_s for point in points) / count, 2),
        round(sum(point.failed_rate_s for point in points) / count, 2),
        max(point.backlog for point in points),
        max(point.busy for point in points),
        round(sum(halves) / len(halves), 3) if halves else None,
        max((point.p99_ms for point in points if point.p99_ms is not None), default=None),
    )


class Track:
    """All of this for one service, or for the whole broker."""

    def __init__(self, seconds_max: int, minutes_max: int) -> None:
        self.rates = Rates()
        self.recent = Recent()
        self.history = History(seconds_max, minutes_max)
        #: p50 and p99 of the tasks since the last point but one.
        self.now_ms: tuple[float | None, float | None] = (None, None)
        self._fresh: list[int] = []

    def took(self, fresh: list[int]) -> None:
        """So many tasks took so long since the last time."""
        self._fresh = [before + more for before, more in zip(self._fresh, fresh, strict=True)] if self._fresh else fresh

    def count(self, at_ns: int, now_ms: int, ended: int, failed: int, backlog: int, busy: int) -> None:
        """Add what a snapshot says: one more point of the past."""
        self.rates.count(at_ns, ended, failed)
        self.now_ms = (quantile_ms(self._fresh, 0.5), quantile_ms(self._fresh, 0.99))
        self._fresh = []
        if (rates := self.rates.last) is not None:
            self.history.add(Point(now_ms, *rates, backlog, busy, *self.now_ms))


# -- tasks between this broker and others ---------------------------------------------------------------------------


class Traffic(NamedTuple):
    """Tasks handed over, and tasks taken; since the dispatcher started, and per second."""

    given: int = 0
    taken: int = 0
    given_rate_s: float = 0.0
    taken_rate_s: float = 0.0


class Exchanges:
    """As many as the dispatcher reports."""

    def __init__(self) -> None:
        #: By peer, how fast the tasks given and taken grow.
        self._rates: dict[str, Rates] = {}
        self._told_ns: int | None = None

    def take(self, told: snapshots.Dispatcher) -> None:
        self._rates = {each.identity: self._rates.get(each.identity) or self._new(told) for each in told.exchanges}
        for each in told.exchanges:
            self._rates[each.identity].count(told.at_ns, each.given, each.taken)
        self._told_ns = told.at_ns

    def _new(self, told: snapshots.Dispatcher) -> Rates:
        """For a peer that was not reported before: until then its counts were zero."""
        rates = Rates()
        if self._told_ns is not None and self._told_ns < told.at_ns:
            rates.count(self._told_ns, 0, 0)
        return rates

    def with_all(self, alive: bool) -> Traffic:
        """`alive`: whether the dispatcher that counts them is alive."""
        found = [self.with_peer(identity, alive) for identity in self._rates]
        given, taken, *rates = (sum(column) for column in zip(*found, strict=True)) if found else Traffic()
        return Traffic(int(given), int(taken), *(round(rate, 2) for rate in rates))

    def with_peer(self, identity: str, alive: bool) -> Traffic:
        rates = self._rates.get(identity)
        return Traffic(*rates.counts, *(rates.smooth if alive else (0.0, 0.0))) if rates is not None else Traffic()


# -- workers ----------------------------------------------------------------------------------------------------------

WORKERS_MAX = 1000
#: Five minutes of each worker.
WORKER_SECONDS_MAX = 300
KEPT_MS = WORKER_SECONDS_MAX * 1000


class _Past:
    """Two columns of numbers, since there are many of these: a tenth of the memory that points would take."""

    __slots__ = ("at_ms", "busy")

    def __init__(self) -> None:
        self.at_ms = array("q")
        self.busy = array("q")

    def add(self, at_ms: int, busy: int) -> None:
        if self.at_ms and at_ms < self.at_ms[-1]:
            self.at_ms, self.busy = array("q"), array("q")  # the clock was set back
        self.at_ms.append(at_ms)
        self.busy.append(busy)
        if len(self.at_ms) > WORKER_SECONDS_MAX:
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
        """For a worker that is not there: one that comes back still has its past, if there is room for it."""
        return len(self._pasts) >= WORKERS_MAX or self._pasts[identity].at_ms[-1] < now_ms - KEPT_MS

    def of(self, identity: str, now_ms: int) -> list[WorkerPoint]:
        """The last five minutes; empty for a worker that was never here."""
        past = self._pasts.get(identity)
        if past is None:
            return []
        points = zip(past.at_ms, past.busy, strict=True)
        return [WorkerPoint(at_ms, busy) for at_ms, busy in points if at_ms >= now_ms - KEPT_MS]
