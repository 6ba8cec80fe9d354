"""How long the last tasks of a service took: what is unusually slow. Reads no clock."""

from __future__ import annotations

from typing import Final

#: So many of the last ones say what is usual.
KEPT: Final = 200
#: With fewer than this, nobody knows.
ENOUGH: Final = 40
#: It is worked out anew after so many more.
RENEWED_AFTER: Final = 20
#: So many of a hundred are not slow.
USUAL_PERCENT: Final = 95
SERVICES_MAX: Final = 256


class UsualTimes:
    """Those of one service."""

    __slots__ = ("_last_ns", "_new", "_next", "slow_ns")

    def __init__(self) -> None:
        self._last_ns: list[int] = []
        self._new = self._next = 0
        #: Nearly all of them took no longer; 0 as long as there are too few.
        self.slow_ns = 0

    def add(self, took_ns: int) -> None:
        last_ns = self._last_ns
        if len(last_ns) < KEPT:
            last_ns.append(took_ns)
        else:
            last_ns[self._next] = took_ns
            self._next = (self._next + 1) % KEPT
        self._new += 1
        if self._new >= RENEWED_AFTER and len(last_ns) >= ENOUGH:
            self._new = 0
            self.slow_ns = sorted(last_ns)[len(last_ns) * USUAL_PERCENT // 100]


class Services:
    """The usual times of each; of those that come last, if there are too many."""

    def __init__(self) -> None:
        self._by_name: dict[str, UsualTimes] = {}

    def slow_ns(self, service: str) -> int:
        times = self._by_name.get(service)
        return 0 if times is None else times.slow_ns

    def add(self, service: str, took_ns: int) -> None:
        times = self._by_name.get(service)
        if times is None:
            if len(self._by_name) >= SERVICES_MAX:
                del self._by_name[next(iter(self._by_name))]
            times = self._by_name[service] = UsualTimes()
        times.add(took_ns)
