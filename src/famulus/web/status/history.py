"""The past of one number of a broker or a service: seconds of the last minutes, minutes of the last day. Bounded."""

from __future__ import annotations

from collections import deque

from famulus.web.status.views import Point

SECONDS_MAX = 900
MINUTES_MAX = 1440
MINUTE_MS = 60_000


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
    return Point(
        points[-1].at_ms,
        round(sum(point.rate_s for point in points) / count, 2),
        round(sum(point.failed_rate_s for point in points) / count, 2),
        max(point.backlog for point in points),
        max(point.busy for point in points),
    )
