"""Decides how long somebody who gave wrong passwords has to wait. Knows no passwords and no clock.

By where the passwords came from and whose they were: guesses from elsewhere keep nobody out here. And a place from
which the right one has come is never made to wait, so that not even somebody who guesses at the same place keeps the
admin out; there, guessing is as slow as checking a password is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from famulus.core.clock import NS_PER_S

DELAY_FIRST_NS: Final = 1 * NS_PER_S
DELAY_MAX_NS: Final = 300 * NS_PER_S
#: To push somebody out of a list, this many others have to fail: with their checks, longer than the longest delay.
ACCOUNTS_MAX: Final = 10_000

Place = tuple[str, str]


class Lockouts:
    """Each failure doubles the wait until the next try, up to a bound; a success ends it.

    The lists are bounded: when one is full, the entry that was used longest ago makes room.
    """

    def __init__(self, good: Iterable[Place] = ()) -> None:
        """`good`: places from which right passwords came before, as `good` told."""
        #: How many in a row, and when the next one may be tried.
        self._failures: OrderedDict[Place, tuple[int, int]] = OrderedDict()
        self._good: OrderedDict[Place, None] = OrderedDict.fromkeys(list(good)[-ACCOUNTS_MAX:])

    @property
    def good(self) -> list[Place]:
        """To be kept over a restart: otherwise whoever guesses from then on would keep the admin out."""
        return list(self._good)

    def failed(self, source: str, account: str, now_ns: int) -> int:
        """Note a wrong password; how long the next one has to wait now."""
        place = (source, account)
        if place in self._good:
            return 0
        count, _ = self._failures.get(place, (0, 0))
        delay_ns = min(DELAY_FIRST_NS << min(count, 20), DELAY_MAX_NS)
        self._failures[place] = (count + 1, now_ns + delay_ns)
        self._failures.move_to_end(place)
        if len(self._failures) > ACCOUNTS_MAX:
            self._failures.popitem(last=False)
        return delay_ns

    def succeeded(self, source: str, account: str) -> None:
        place = (source, account)
        self._failures.pop(place, None)
        # Not moved to the end: what is kept need not be written again whenever an admin asks for something.
        self._good[place] = None
        if len(self._good) > ACCOUNTS_MAX:
            self._good.popitem(last=False)

    def wait_ns(self, source: str, account: str, now_ns: int) -> int:
        """How much longer no password is looked at; 0 if one may be tried."""
        _, until_ns = self._failures.get((source, account), (0, 0))
        return max(0, until_ns - now_ns)
