"""Erlang C: how long tasks wait for a slot, by formula. Knows only numbers.

`pipeline.tables.erlang` has the same formulas as columns of Spark; a test compares them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErlangQueue:
    """Tasks that come at random, take `service_s` on average, and wait in one line for one of the slots."""

    #: Busy slots that the tasks ask for.
    erlangs: float
    service_s: float
    slots: int

    @property
    def keeps_up(self) -> bool:
        """Otherwise the line grows for as long as the load lasts."""
        return self.erlangs < self.slots

    @property
    def busy_share(self) -> float:
        """Of the slots; above 1 if more is asked for than they can do."""
        return self.erlangs / self.slots if self.slots else math.inf

    @property
    def wait_share(self) -> float:
        """The share of tasks that find no slot free."""
        return _c(self.erlangs, self.slots)

    def longer_than(self, wait_s: float) -> float:
        """The share of tasks that wait longer."""
        if not self.keeps_up:
            return 1.0
        return self.wait_share * math.exp(-wait_s / self._mean_of_those_s)

    @property
    def mean_wait_s(self) -> float:
        return self.wait_share * self._mean_of_those_s if self.keeps_up else math.inf

    def wait_s(self, share: float) -> float:
        """What this share of the tasks does not exceed."""
        if not self.keeps_up:
            return math.inf
        above = self.wait_share / (1 - share)
        return self._mean_of_those_s * math.log(above) if above > 1 else 0.0

    @property
    def _mean_of_those_s(self) -> float:
        """The mean wait of those that wait at all."""
        return self.service_s / (self.slots - self.erlangs)


def slots_needed(erlangs: float, service_s: float, *, wait_s: float, share: float) -> int:
    """The fewest with which at most this share of the tasks waits longer than `wait_s`; 0 without load."""
    if erlangs <= 0 or service_s <= 0:
        return 0
    least = math.floor(erlangs) + 1
    # This far above the load, C is far below one in a thousand, whatever the load is.
    most = math.ceil(erlangs + 6 * math.sqrt(erlangs) + 20)
    inverse = _inverse(erlangs, least - 1)
    for slots in range(least, most):
        inverse = 1 + slots / erlangs * inverse
        c = _c_of_inverse(inverse, erlangs, slots)
        if c * math.exp(-(slots - erlangs) * wait_s / service_s) <= share:
            return slots
    return most


def _c(erlangs: float, slots: int) -> float:
    if erlangs <= 0:
        return 0.0
    if erlangs >= slots:
        return 1.0
    return _c_of_inverse(_inverse(erlangs, slots), erlangs, slots)


def _inverse(erlangs: float, slots: int) -> float:
    """Of Erlang B. It grows by positive terms only, so nothing is lost to rounding; where it is infinite, B is 0."""
    inverse = 1.0
    for each in range(1, slots + 1):
        inverse = 1 + each / erlangs * inverse
    return inverse


def _c_of_inverse(inverse: float, erlangs: float, slots: int) -> float:
    b = 1 / inverse
    return b / (1 - (1 - b) * erlangs / slots)
