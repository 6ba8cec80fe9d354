"""Tasks between this broker and others: how many went there and came from there, and how fast. Knows no clock."""

from __future__ import annotations

from typing import NamedTuple

from famulus.web.status.tracks import Rates
from famulus.wire import status as snapshots


class Traffic(NamedTuple):
    """Tasks handed over, and tasks that came; since the dispatcher started, and per second."""

    given: int = 0
    taken: int = 0
    given_rate_s: float = 0.0
    taken_rate_s: float = 0.0


class Exchanges:
    """As many as the dispatcher tells of."""

    def __init__(self) -> None:
        #: By peer, how fast the tasks given and taken grow.
        self._rates: dict[str, Rates] = {}
        self._told_ns: int | None = None

    def take(self, told: snapshots.Dispatcher) -> None:
        self._rates = {each.identity: self._rates.get(each.identity) or self._new(told) for each in told.exchanges}
        for each in told.exchanges:
            self._rates[each.identity].count(told.at_ns, each.given, each.taken)
        self._told_ns = told.at_ns

    def _new(self, told: snapshots.Dispatcher) -> Rates:
        """A peer that was not told of before: until then there was nothing to tell."""
        rates = Rates()
        if self._told_ns is not None and self._told_ns < told.at_ns:
            rates.count(self._told_ns, 0, 0)
        return rates

    def with_all(self, alive: bool) -> Traffic:
        """`alive`: whether the dispatcher that counts is."""
        found = [self.with_peer(identity, alive) for identity in self._rates]
        given, taken, *rates = (sum(column) for column in zip(*found, strict=True)) if found else Traffic()
        return Traffic(int(given), int(taken), *(round(rate, 2) for rate in rates))

    def with_peer(self, identity: str, alive: bool) -> Traffic:
        rates = self._rates.get(identity)
        return Traffic(*rates.counts, *(rates.smooth if alive else (0.0, 0.0))) if rates is not None else Traffic()
