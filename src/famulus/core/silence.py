"""Decides when to ask whether the other side of a connection is there, and when it is not. Knows no sockets, no clock.

Whoever has the connection looks at it from time to time: has anything been heard since the last look? Each look asks
again, with a PING, so that there is something to be heard. This many looks in vain, and the other side is lost.

Nobody is to blame for a silence that we could not have heard: a look that comes late, because we were stopped or the
machine has too much to do, is no look in vain. But only some of them are excused, since we may never be quicker.
"""

from __future__ import annotations

from typing import Final

from famulus.core.clock import NS_PER_MS, NS_PER_S

#: Between two looks, while something is waited for.
SOON_NS: Final = 500 * NS_PER_MS
#: The same while nothing is: thousands of idle clients are not to cost a broker much.
SELDOM_NS: Final = 2 * NS_PER_S
SILENT_MAX: Final = 3
#: A look that is later than this was late because of us.
LATE_NS: Final = 200 * NS_PER_MS
EXCUSES_MAX: Final = 6


class Silence:
    def __init__(self, now_ns: int, every_ns: int) -> None:
        self.due_ns = now_ns + every_ns
        self._silent = self._excused = 0

    def is_lost(self, now_ns: int, heard: bool, every_ns: int) -> bool:
        """A look, and when to have the next one. True if the other side is not there; else it is to be asked."""
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
        """Something is waited for from now on."""
        self.due_ns = min(self.due_ns, now_ns + every_ns)
