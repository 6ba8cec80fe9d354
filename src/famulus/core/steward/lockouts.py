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


class _Failures:
    __slots__ = ("count", "until_ns")

    def __init__(self) -> None:
        self.count = 0
        self.until_ns = 0


class Lockouts:
    """Each failure doubles the wait until the next try, up to a bound; a success ends it.

    The lists are bounded: when one is full, the entry that was used longest ago makes room.
    """

    def __init__(self, good: Iterable[Place] = ()) -> None:
        """`good`: places from which right passwords came before, as `good` told."""
        self._failures: OrderedDict[Place, _Failures] = OrderedDict()
        self._good: OrderedDict[Place, None] = OrderedDict.fromkeys(list(good)[-ACCOUNTS_MAX:])

    def __len__(self) -> int:
        return len(self._failures) + len(self._good)

    @property
    def good(self) -> list[Place]:
        """To be kept over a restart: otherwise whoever guesses from then on would keep the admin out."""
        return list(self._good)

    def failed(self, source: str, account: str, now_ns: int) -> int:
        """Note a wrong password; how long the next one has to wait now."""
        place = (source, account)
        if place in self._good:
            return 0
        failures = self._failures.setdefault(place, _Failures())
        self._failures.move_to_end(place)
        if len(self._failures) > ACCOUNTS_MAX:
            self._failures.popitem(last=False)
        delay_ns = min(DELAY_FIRST_NS << min(failures.count, 20), DELAY_MAX_NS)
        failures.count += 1
        failures.until_ns = now_ns + delay_ns
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
        failures = self._failures.get((source, account))
        return max(0, failures.until_ns - now_ns) if failures is not None else 0
