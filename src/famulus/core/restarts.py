"""Decides when a process that died is started again, and when to give up. Touches no process and reads no clock."""

from __future__ import annotations

from collections import deque

from famulus.core.clock import NS_PER_MS, NS_PER_S

#: This many deaths within this time are too many: the next start would not help either.
STORM_DEATHS = 6
STORM_NS = 20 * NS_PER_S

DELAY_FIRST_NS = 100 * NS_PER_MS
DELAY_MAX_NS = 2 * NS_PER_S


class Restarts:
    """The deaths of one process. The first restart is immediate: most deaths are isolated ones."""

    def __init__(self) -> None:
        self._deaths: deque[int] = deque(maxlen=STORM_DEATHS)

    def delay_ns(self, now_ns: int) -> int | None:
        """How long to wait before the next start; None means give up."""
        self._deaths.append(now_ns)
        recent = [death for death in self._deaths if death > now_ns - STORM_NS]
        if len(recent) >= STORM_DEATHS:
            return None
        if len(recent) == 1:
            return 0
        return min(DELAY_FIRST_NS << (len(recent) - 2), DELAY_MAX_NS)
