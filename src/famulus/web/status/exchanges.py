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


class _Line:
    def __init__(self) -> None:
        self._rates = Rates()
        self._given = self._taken = 0

    def count(self, at_ns: int, given: int, taken: int) -> None:
        self._given, self._taken = given, taken
        self._rates.count(at_ns, given, taken)

    def traffic(self, alive: bool) -> Traffic:
        return Traffic(self._given, self._taken, *(self._rates.smooth if alive else (0.0, 0.0)))


class Exchanges:
    """As many as the dispatcher tells of."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._told_ns: int | None = None

    def take(self, told: snapshots.Dispatcher) -> None:
        self._lines = {each.identity: self._lines.get(each.identity) or self._new(told) for each in told.exchanges}
        for each in told.exchanges:
            self._lines[each.identity].count(told.at_ns, each.given, each.taken)
        self._told_ns = told.at_ns

    def _new(self, told: snapshots.Dispatcher) -> _Line:
        """A peer that was not told of before: until then there was nothing to tell."""
        line = _Line()
        if self._told_ns is not None and self._told_ns < told.at_ns:
            line.count(self._told_ns, 0, 0)
        return line

    def with_all(self, alive: bool) -> Traffic:
        """`alive`: whether the dispatcher that counts is."""
        lines = [line.traffic(alive) for line in self._lines.values()]
        given, taken = sum(each.given for each in lines), sum(each.taken for each in lines)
        rates = sum(each.given_rate_s for each in lines), sum(each.taken_rate_s for each in lines)
        return Traffic(given, taken, round(rates[0], 2), round(rates[1], 2))

    def with_peer(self, identity: str, alive: bool) -> Traffic:
        line = self._lines.get(identity)
        return line.traffic(alive) if line is not None else Traffic()
