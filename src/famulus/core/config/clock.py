"""A hybrid logical clock: wall-clock time that also advances with what was seen. The wall-clock time is passed in.

An instant is one number: milliseconds, and below them a count for what happens within one. It breaks ties between
concurrent edits and is shown to people. Which edit replaces which is given by its parents, so a wrong clock can be
unfair, but cannot lose anything.
"""

from __future__ import annotations

from typing import Final

from famulus.wire import limits

#: Leaves room for milliseconds up to the year 2248 in the integers that every JSON reader holds exactly.
COUNT_BITS: Final = 10
#: A clock that is further ahead than this is wrong, and is not followed.
AHEAD_MS_MAX: Final = 60_000


class HybridClock:
    def __init__(self) -> None:
        self.last = 0

    def next(self, now_ms: int) -> int:
        """The instant of an edit that is made now: later than everything seen so far, unless that was absurd."""
        # Our own clock may have been wrong, too: once it is corrected, its earlier times are forgotten.
        seen = self.last if self.last <= _horizon(now_ms) else 0
        self.last = max(min(now_ms << COUNT_BITS, limits.INTEGER_MAX), min(seen + 1, limits.INTEGER_MAX))
        return self.last

    def observe(self, hlc: int, now_ms: int) -> None:
        """Somebody else's edit was seen."""
        if hlc <= _horizon(now_ms):
            self.last = max(self.last, hlc)


def time_ms(hlc: int) -> int:
    """The wall-clock time in an instant, for people."""
    return hlc >> COUNT_BITS


def _horizon(now_ms: int) -> int:
    return (now_ms + AHEAD_MS_MAX) << COUNT_BITS
