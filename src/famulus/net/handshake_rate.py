"""How often those at one address may begin a connection with keys. Each beginning costs us four multiplications.

Whoever comes more often waits for its turn, which costs us nothing; so a thousand that come back at once are let in one
after another, and nobody else notices. Whoever would wait too long is sent away.
"""

from __future__ import annotations

from typing import Final

from famulus.core.clock import NS_PER_S

#: So many need not wait, if none has come for a while.
AT_ONCE: Final = 50
PER_SECOND: Final = 220
#: A line that was greeted waits longer than that, and so does libzmq.
WAIT_NS: Final = 18 * NS_PER_S
#: Whoever has this many addresses gets this many times as much; those who came first are forgotten first.
ADDRESSES_MAX: Final = 10_000

_EVERY_NS: Final = NS_PER_S // PER_SECOND
_AHEAD_NS: Final = AT_ONCE * _EVERY_NS


class HandshakeRate:
    def __init__(self) -> None:
        #: By address: when all who have come so far would have had their turns, had none begun ahead of time.
        self._all_done_ns: dict[str, int] = {}

    def turn_ns(self, host: str, now_ns: int) -> int | None:
        """When one more from this host may begin; None if too many wait there already."""
        network = _network(host)
        done_ns = max(now_ns, self._all_done_ns.pop(network, 0))
        turn_ns = max(now_ns, done_ns + _EVERY_NS - _AHEAD_NS)
        if len(self._all_done_ns) >= ADDRESSES_MAX:
            del self._all_done_ns[next(iter(self._all_done_ns))]
        # Whoever is sent away takes nothing: otherwise nobody there would get in while somebody tries all the time.
        waits_too_long = turn_ns - now_ns > WAIT_NS
        self._all_done_ns[network] = done_ns if waits_too_long else done_ns + _EVERY_NS
        return None if waits_too_long else turn_ns


def _network(host: str) -> str:
    """One machine has a whole /64 of IPv6 addresses."""
    return ":".join(host.split(":")[:4]) if host.count(":") > 1 else host
