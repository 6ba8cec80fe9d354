"""Decides when a broker that drains has done its part. Reads no clock."""

from __future__ import annotations

from typing import Final

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S

#: A drained broker stays until nobody has asked it for this long. Whoever is refused goes elsewhere; but a task that is
#: on its way when the broker ends may have run, as far as its client knows.
QUIET_NS: Final = 250 * NS_PER_MS
#: Some clients know no other broker, and ask again and again.
STAYS_NS: Final = 2 * NS_PER_S


class Drain:
    __slots__ = ("_idle_ns", "asked_ns", "by_ns", "on")

    def __init__(self) -> None:
        self.on = False
        #: When tasks that are still open are ended.
        self.by_ns = NEVER_NS
        #: When somebody last asked.
        self.asked_ns = 0
        #: Since when there has been nothing to do.
        self._idle_ns = NEVER_NS

    def begin(self, within_ns: int, now_ns: int) -> None:
        self.on = True
        self.asked_ns = now_ns
        self.by_ns = min(self.by_ns, now_ns + within_ns)

    def is_done(self, open_tasks: int, questions: int, now_ns: int) -> bool:
        """Everybody has been told, and has left; once the time is up, undecided questions do not keep us."""
        if not self.on or open_tasks:
            self._idle_ns = NEVER_NS
            return False
        if now_ns >= self.by_ns:
            return True
        self._idle_ns = min(self._idle_ns, now_ns)
        return not questions and now_ns >= min(self.asked_ns + QUIET_NS, self._idle_ns + STAYS_NS)
