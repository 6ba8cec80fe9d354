"""Decides which free slot of a service is used next: of two workers drawn at random, that of the one which promises to
answer sooner.

What a worker promises is the decaying peak of its answer times, multiplied by how much it has to do. The peak rises at
once to a longer time and comes down slowly (an exponentially weighted moving average), and comes down by itself while
no answers come: so a slow worker is tried again now and then, and is found out with one task.
"""

from __future__ import annotations

from math import exp
from typing import Final

from famulus.core.clock import NS_PER_S
from famulus.core.dispatch.chooser import MASK, Candidate, Chooser

#: After this long, about a third of a peak is left.
DECAY_NS: Final = 10 * NS_PER_S
#: So many answers, more or less, make up what is usual.
USUAL_OF: Final = 8
#: What a worker promises that has something to do and has never answered.
NO_PROMISE: Final = 1e30


class Peak:
    """Of one worker's answer times."""

    __slots__ = ("at_ns", "ns")

    def __init__(self) -> None:
        self.ns = 0.0
        #: -1: it has never answered.
        self.at_ns = -1

    def left_ns(self, now_ns: int) -> float:
        return self.ns * exp(-(now_ns - self.at_ns) / DECAY_NS)

    def add(self, took_ns: int, now_ns: int) -> None:
        share = exp(-(now_ns - self.at_ns) / DECAY_NS)
        self.ns = max(float(took_ns), self.ns * share + took_ns * (1.0 - share))
        self.at_ns = now_ns


class Ewma(Chooser):
    __slots__ = ("_listed", "_now_ns", "_peaks", "_places", "_random", "_usual_ns")

    def __init__(self) -> None:
        self._listed: list[Candidate] = []
        #: Where each of them is in the list.
        self._places: dict[Candidate, int] = {}
        self._peaks: dict[Candidate, Peak] = {}
        #: When the last answer came: this is as much as it knows about the time.
        self._now_ns = 0
        self._random = 1
        #: How long those take that end well, lately and whoever does them.
        self._usual_ns = 0.0

    def offer(self, candidate: Candidate) -> None:
        assert candidate.free
        if candidate not in self._places:
            self._places[candidate] = len(self._listed)
            self._listed.append(candidate)
        if candidate not in self._peaks:
            self._peaks[candidate] = Peak()

    def take(self, key: int) -> Candidate | None:
        listed = self._listed
        while listed:
            place = self._draw(len(listed))
            candidate = listed[place]
            # Another one, or the same if it is alone.
            other = listed[(place + 1 + self._draw(len(listed) - 1)) % len(listed)] if len(listed) > 1 else candidate
            if not candidate.free:
                self.withdraw(candidate)
                continue
            if not other.free:
                self.withdraw(other)
                continue
            if self._cost(other) < self._cost(candidate):
                candidate = other
            candidate.free -= 1
            if not candidate.free:
                self.withdraw(candidate)
            return candidate
        return None

    def withdraw(self, candidate: Candidate) -> None:
        place = self._places.pop(candidate, -1)
        if place < 0:
            return
        last = self._listed.pop()
        if last is not candidate:
            self._listed[place] = last
            self._places[last] = place
        candidate.unlisted.append(self)

    def leave(self, candidate: Candidate) -> None:
        self.withdraw(candidate)
        self._peaks.pop(candidate, None)

    def answered(self, candidate: Candidate, took_ns: int, now_ns: int, plain: bool = True) -> None:
        self._now_ns = now_ns
        if plain:
            self._usual_ns += (took_ns - self._usual_ns) / USUAL_OF if self._usual_ns else took_ns
        else:
            # Whoever fails at once must not look like the one that works fastest.
            took_ns = max(took_ns, int(self._usual_ns))
        peak = self._peaks.get(candidate)
        # One that has left may still answer.
        if peak is not None:
            peak.add(took_ns, now_ns)

    def listed(self) -> list[Candidate]:
        return list(self._listed)

    def _cost(self, candidate: Candidate) -> float:
        peak, busy = self._peaks[candidate], candidate.slots - candidate.free
        if peak.at_ns < 0:
            # It gets one task, and has to answer before it gets more.
            return NO_PROMISE if busy else 0.0
        return peak.left_ns(self._now_ns) * (busy + 1) / candidate.slots

    def _draw(self, count: int) -> int:
        """A number below `count`. No more random than it has to be, and the same in every run."""
        self._random = (self._random * 1103515245 + 12345) & MASK
        return (self._random >> 8) % count
