"""Decides whether a process hangs, from when it was last heard and what the system says about it. Touches no process.

A process that has a lot to do, or that gets no processor because others have it, is silent too. But it runs, or wants
to; one that is stopped, or waits for something that does not come, does neither. So a process that says nothing and
does nothing is given up early, and any other late.
"""

from __future__ import annotations

from typing import Final

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S

#: How often a process that must not hang unnoticed says that it is alive.
ALIVE_NS: Final = 500 * NS_PER_MS
#: After this long without a word, the system is asked what it is doing,
DOUBT_NS: Final = 800 * NS_PER_MS
#: and again at this interval;
LOOK_NS: Final = 200 * NS_PER_MS
#: if it was doing nothing at this many looks in a row, the last of them this long after its last word, it hangs.
STILL_LOOKS: Final = 3
STILL_NS: Final = 1200 * NS_PER_MS
#: After this long without a word it hangs, whatever it is doing.
HANG_NS: Final = 5 * NS_PER_S
#: When it stops: how long its last outcomes may take to reach clients that read slowly.
LINGER_NS: Final = 10 * NS_PER_S
#: Later than planned by more than this: we were stopped or starved, and could not hear anybody.
LATE_NS: Final = 100 * NS_PER_MS

#: The system's letters for a process that neither runs nor wants to: asleep, stopped, or stopped by a debugger.
_STILL: Final = frozenset("STt")


class Doubts:
    """Doubts about one process."""

    def __init__(self) -> None:
        self._worked = self._still_looks = 0
        self._look_ns = 0

    def look_ns(self, heard_ns: int) -> int:
        """When to ask the system next."""
        return max(heard_ns + DOUBT_NS, self._look_ns)

    def hangs(self, now_ns: int, heard_ns: int, state: str, worked: int) -> bool:
        """`state` is the system's letter for what it is doing, `worked` how much it has worked so far, in any unit."""
        if now_ns - heard_ns < DOUBT_NS:
            self._still_looks = 0
            return False
        self._look_ns = now_ns + LOOK_NS
        if state not in _STILL:
            self._still_looks = 0
        else:
            self._still_looks = self._still_looks + 1 if worked == self._worked else 1
        self._worked = worked
        return self._still_looks >= STILL_LOOKS and now_ns - heard_ns >= STILL_NS


def pause_ns(now_ns: int, planned_ns: int) -> int:
    """How much later than planned we are, if it matters: nobody is to blame for that part of a silence."""
    late_ns = now_ns - planned_ns
    return late_ns if planned_ns < NEVER_NS and late_ns > LATE_NS else 0
