"""Decides when to ask whether the other side of a connection is there, and when it is lost. Uses no socket or clock.

Whoever has the connection checks it from time to time: has anything been heard since the last check? Each check asks
again, with a PING, so that there is something to hear. After `SILENT_MAX` checks in vain, the other side is lost.

Nobody is to blame for a silence while we could not listen: a check that comes late, because we were stopped or the
machine has too much to do, is not one in vain. But only some of them are excused, since we may never get any faster.
"""

from __future__ import annotations

from typing import Final

from famulus.core.clock import NS_PER_MS, NS_PER_S

#: Between two checks, while we are waiting for something.
SOON_NS: Final = 500 * NS_PER_MS
#: The same while we are not: thousands of idle clients should not cost a broker much.
SELDOM_NS: Final = 2 * NS_PER_S
SILENT_MAX: Final = 3
#: A check that is later than this was late because of us.
LATE_NS: Final = 200 * NS_PER_MS
EXCUSES_MAX: Final = 6


class Silence:
    def __init__(self, now_ns: int, every_ns: int) -> None:
        self.due_ns = now_ns + every_ns
        self._silent = self._excused = 0

    def is_lost(self, now_ns: int, heard: bool, every_ns: int) -> bool:
        """Check once, and set when the next check is due. True if the other side is lost; otherwise ask it."""
        late = now_ns - self.due_ns > LATE_NS
        self.due_ns = now_ns + every_ns
        if heard:
            self._silent = self._excused = 0
        elif late and self._excused < EXCUSES_MAX:
            self._excused += 1
        else:
            self._silent += 1
        return self._silent >= SILENT_MAX

    def hurry(self, now_ns: int, every_ns: int) -> None:
        """From now on we are waiting for something."""
        self.due_ns = min(self.due_ns, now_ns + every_ns)
