"""Decides which free slot of a service is used next: the one that has been free longest."""

from __future__ import annotations

from collections import OrderedDict

from famulus.core.dispatch.chooser import Candidate, Chooser


class LRU(Chooser):
    """The workers with a free slot, least recently used first; each use puts one at the end, so that all have turns."""

    __slots__ = ("_first", "_line")

    def __init__(self) -> None:
        self._line: OrderedDict[Candidate, None] = OrderedDict()
        #: The first in line, if known: a worker that is alone there need not be looked up each time.
        self._first: Candidate | None = None

    def offer(self, candidate: Candidate) -> None:
        assert candidate.free
        self._line[candidate] = None

    def take(self, key: int) -> Candidate | None:
        """Take one slot of the least recently used worker, or None if no slot is free."""
        line = self._line
        while line:
            candidate = self._first
            if candidate is None:
                candidate = self._first = next(iter(line))
            if not candidate.free:
                self.withdraw(candidate)
                continue
            candidate.free -= 1
            if not candidate.free:
                self.withdraw(candidate)
            elif len(line) > 1:
                line.move_to_end(candidate)
                self._first = None
            return candidate
        return None

    def withdraw(self, candidate: Candidate) -> None:
        if candidate in self._line:
            del self._line[candidate]
            self._first = None
            candidate.unlisted.append(self)

    def listed(self) -> list[Candidate]:
        return list(self._line)

    def use(self, candidate: Candidate) -> None:
        """Take a slot of this one, for those who choose otherwise."""
        candidate.free -= 1
        if not candidate.free:
            self.withdraw(candidate)
        else:
            self._line.move_to_end(candidate)
            self._first = None

    def able(self) -> list[Candidate]:
        """Those with a free slot, least recently used first; the others are withdrawn."""
        able = [candidate for candidate in self._line if candidate.free]
        if len(able) < len(self._line):
            for candidate in [each for each in self._line if not each.free]:
                self.withdraw(candidate)
        return able
