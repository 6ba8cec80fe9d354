"""Decides where a worker goes: which broker next, when to look for the preferred one, when to go back to it.

Uses no socket and no clock; time and random numbers are passed in.

A *round* tries each known broker once: the preferred one, those that were given, those of its family, those that a
broker told it about, those of its fallback families. Between two rounds there is a pause, which grows. A worker that
lost its broker begins a round:

link cut        the same broker first; it may be back in a moment, and whoever leaves it comes back slowly
silence         the same broker last; it had its time
refused         likewise

Away from its preferred broker, a worker looks for it again after a long, random time: a broker that comes back gets its
workers one by one, and those who have a broker lose nothing by waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from famulus.core.backoff import Backoff
from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.session.worker_config import WorkerConfig
from famulus.errors import ProtocolError
from famulus.wire import headers, reasons

#: If there is more than one broker to try: how long a connection may take before it is the next one's turn.
LINK_NS: Final = NS_PER_S
#: How long the preferred broker may take to show that it is there.
PROBE_NS: Final = 2 * NS_PER_S
RETURN_AFTER_NS: Final = (30 * NS_PER_S, 90 * NS_PER_S)
#: Each failed return doubles the time until the next one, up to this many times.
DOUBLINGS_MAX: Final = 4
#: How many families' brokers are remembered: those of our own, and of those that took us in.
FAMILIES_MAX: Final = 8


class Homes:
    def __init__(
        self,
        given: Sequence[str],
        chance: Callable[[], float],
        *,
        chosen: bool = True,
        stays: bool = False,
        return_after_ns: tuple[int, int] = RETURN_AFTER_NS,
    ) -> None:
        """`given` are addresses, the preferred one first. Unless somebody chose them, a config may prefer another.

        A worker that `stays` goes nowhere else, whatever a broker says.
        """
        self._given = tuple(dict.fromkeys(given))
        self._chosen = chosen
        self.stays = stays
        self._chance = chance
        self._return_after_ns = return_after_ns
        self._backoff = Backoff(NS_PER_S // 10, 8 * NS_PER_S, chance)
        self.preferred = self._given[0]
        #: Where we are, or are trying to be.
        self.address = self.preferred
        #: How many rounds ended without a broker.
        self.rounds = 0
        #: Brokers by the name of their family, the family of the newest config first.
        self._families: dict[str, tuple[str, ...]] = {}
        self._own_family = ""
        #: Brokers of the families that our own falls back on.
        self._fallback: tuple[str, ...] = ()
        self._told: tuple[str, ...] = ()
        self._useless: set[str] = set()
        # In this round: which were tried, and which one comes before or after all others.
        self._tried: set[str] = set()
        self._first = self._last = ""
        self._settled = False
        self._return_at_ns = NEVER_NS
        #: We are on our way to the preferred broker, which answered.
        self.returning = False
        self._failed_returns = 0
        #: Until when we are looking for the preferred broker.
        self.probe_by_ns = NEVER_NS

    # -- what we know -------------------------------------------------------------------------------------------

    @property
    def known(self) -> list[str]:
        """All brokers that a round tries, in order."""
        families = [address for brokers in self._families.values() for address in brokers]
        learned = [*families, *self._told, *self._fallback]
        # A default that nobody chose is better than nothing, but worse than what a broker says.
        known = [*self._given, *learned] if self._chosen else [*learned, *self._given]
        last = [self._last] if self._last else []
        order = [self._first, self.preferred, *known]
        unique = dict.fromkeys([each for each in order if each and each != self._last] + last)
        return [each for each in unique if each not in self._useless] or list(self._given)

    @property
    def alone(self) -> bool:
        """Whether there is nowhere else to go."""
        return len(self.known) == 1

    def on_config(self, now_ns: int, config: WorkerConfig) -> None:
        if self.stays:
            return
        if not self._families:
            self._own_family = config.family
        # Each worker has an order of its own: otherwise all who lose one broker would go to the same next one.
        brokers = self._shuffled(config.brokers)
        if config.family == self._own_family:
            self._fallback = tuple(each for family in config.fallback for each in self._shuffled(family))
        others = [(name, known) for name, known in self._families.items() if name != config.family]
        # A family that took us in must not make us forget our own.
        kept = sorted(others, key=lambda each: each[0] != self._own_family)
        self._families = {config.family: brokers, **dict(kept[: FAMILIES_MAX - 1])}
        if config.family == self._own_family:
            self._prefer(config.preferred, config.by_admin)
        if self._settled:
            self._look_back(now_ns)

    def _prefer(self, wish: str, by_admin: bool) -> None:
        """What an admin prefers counts more than the address that we were given, and that more than who answered."""
        if wish and (by_admin or not self._chosen) and wish not in self._useless:
            self.preferred = wish
        elif self._chosen and self._given[0] not in self._useless:
            self.preferred = self._given[0]

    def _shuffled(self, brokers: Sequence[str]) -> tuple[str, ...]:
        return tuple(sorted(brokers, key=lambda _: self._chance()))

    def on_told(self, brokers: Sequence[str]) -> None:
        """What a broker answered to NEEDBROKER, best first. If it knows nobody, not all need be gone."""
        self._told = () if self.stays else tuple(brokers) or self._told

    def forget(self, address: str) -> None:
        """This address is unusable."""
        self._useless.add(address)
        if address == self.preferred:
            self.preferred = self.known[0]

    # -- from broker to broker ----------------------------------------------------------------------------------

    @property
    def link_within_ns(self) -> int:
        """How long the connection may take; for ever if there is nobody else to try."""
        return NEVER_NS if self.alone else LINK_NS

    def on_ready(self, now_ns: int) -> None:
        """This broker has accepted us."""
        self._settled = True
        self._new_round()
        self._backoff.reset()
        if self.address == self.preferred:
            self._failed_returns = 0
        elif self.returning:
            self._failed_returns += 1
        self.returning = False
        self._look_back(now_ns)

    def on_lost(self, *, cut: bool) -> int:
        """This broker has dropped us, or will not take us. Returns how long to wait before trying `next`."""
        self.probe_by_ns = NEVER_NS
        if self._settled:
            self._settled = False
            self._new_round(first=self.address if cut else "", last="" if cut else self.address)
            return self._backoff.next_ns()
        self._tried.add(self.address)
        if self._untried():
            return 0
        self.rounds += 1
        self._new_round()
        return self._backoff.next_ns()

    def on_left(self) -> None:
        """We said goodbye, and were let go: on to the others, the preferred one first."""
        self.probe_by_ns = NEVER_NS
        self._settled = False
        self._new_round(last=self.address)

    def next(self) -> str:
        """The address to try now."""
        self.address = (self._untried() or self.known)[0]
        return self.address

    def _untried(self) -> list[str]:
        return [each for each in self.known if each not in self._tried]

    def _new_round(self, *, first: str = "", last: str = "") -> None:
        self._tried.clear()
        self._first, self._last = first, last

    # -- back to the preferred one ------------------------------------------------------------------------------

    @property
    def probe_at_ns(self) -> int:
        """When to look for the preferred broker."""
        looks = self._settled and not self.returning and self.probe_by_ns == NEVER_NS
        return self._return_at_ns if looks else NEVER_NS

    @property
    def next_due_ns(self) -> int:
        return min(self.probe_at_ns, self.probe_by_ns)

    def on_probe(self, now_ns: int) -> None:
        """The shell is looking now."""
        self.probe_by_ns = now_ns + PROBE_NS

    def on_probe_failed(self, now_ns: int) -> None:
        self.probe_by_ns = NEVER_NS
        self._return_at_ns = now_ns + self._wait_ns()

    def on_probe_answered(self) -> None:
        """It is there. From now on we are on our way, until the next `on_ready` at whichever broker."""
        self.probe_by_ns = self._return_at_ns = NEVER_NS
        self.returning = True

    def _look_back(self, now_ns: int) -> None:
        if self.address == self.preferred:
            self._return_at_ns = NEVER_NS
        elif self._return_at_ns == NEVER_NS and not self.returning:
            self._return_at_ns = now_ns + self._wait_ns()

    def _wait_ns(self) -> int:
        least, most = self._return_after_ns
        return (least + int(self._chance() * (most - least))) << min(self._failed_returns, DOUBLINGS_MAX)


#: If the sender is unknown to a broker, this changes nothing there, and is answered.
PROBE: Final = [b"", headers.write("PING", "REQUEST"), b""]


def proves_life(message: list[bytes]) -> bool:
    """Whether this answer to a probe comes from a broker that would take workers: it says "connect again"."""
    if len(message) != 3:
        return False
    try:
        told = headers.read(message[1])
    except ProtocolError:
        return False
    return isinstance(told, headers.ErrorResponse) and reasons.code_of(told.reason) == reasons.NOT_CONNECTED
