"""Decides how long somebody who gave wrong passwords has to wait. Sees no passwords and reads no clock.

It depends on where the passwords came from and whose they were: guesses from elsewhere lock nobody out here. And a
place from which the right one has come is never made to wait, so that not even somebody who guesses from the same place
can lock the admin out; there, guessing is as slow as checking a password.

So a place must be no larger than it has to be: otherwise one admin's success would let all others guess without a wait.
At the frontend it is a principal on a host; those without a key are all on the broker's own machine.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Final

from famulus.core.clock import NS_PER_S

DELAY_FIRST_NS: Final = 1 * NS_PER_S
DELAY_MAX_NS: Final = 300 * NS_PER_S
#: To push an entry out of a list, this many others have to fail: with the checks, that takes longer than the longest
#: delay.
ACCOUNTS_MAX: Final = 10_000

#: Of an IPv6 address: whoever has one of these has all with the same beginning.
NETWORK_BITS: Final = 64

Place = tuple[str, str]


def frontend_source(principal: str, host: str) -> str:
    """Where a request comes from that came to the frontend: over the connection of this principal, if it has a key."""
    return f"frontend, {principal} at {_own_part(host)}" if principal else "frontend"


def _own_part(host: str) -> str:
    """Of an address, what nobody can have thousands of."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if address.is_loopback:
        return "this machine"
    return str(IPv6Network((address, NETWORK_BITS), strict=False)) if isinstance(address, IPv6Address) else host


class Lockouts:
    """Each failure doubles the wait until the next try, up to a bound; a success ends it.

    The lists are bounded: when one is full, its oldest entry makes room.
    """

    def __init__(self, good: Iterable[Place] = ()) -> None:
        """`good`: places from which right passwords came before, as the property `good` returned them."""
        #: How many failures in a row, and when the next try is allowed.
        self._failures: OrderedDict[Place, tuple[int, int]] = OrderedDict()
        self._good: OrderedDict[Place, None] = OrderedDict.fromkeys(list(good)[-ACCOUNTS_MAX:])

    @property
    def good(self) -> list[Place]:
        """To be kept across a restart: otherwise anybody who guesses after that could lock the admin out."""
        return list(self._good)

    def failed(self, source: str, account: str, now_ns: int) -> int:
        """Note a wrong password. Returns how long the next try has to wait."""
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
        # Not moved to the end: then the saved list need not be rewritten whenever an admin asks for something.
        self._good[place] = None
        if len(self._good) > ACCOUNTS_MAX:
            self._good.popitem(last=False)

    def wait_ns(self, source: str, account: str, now_ns: int) -> int:
        """How much longer no password is checked; 0 if one may be tried."""
        _, until_ns = self._failures.get((source, account), (0, 0))
        return max(0, until_ns - now_ns)
