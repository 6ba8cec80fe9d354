"""Decides which free slot of a service is used next: the one that has been free longest. Knows nothing about tasks."""

from __future__ import annotations

from collections import OrderedDict


class Candidate:
    """A worker that may be given tasks."""

    __slots__ = ("free", "unlisted")

    def __init__(self, free: int, unlisted: list[LRU]) -> None:
        self.free = free
        #: The LRUs of its services that it is not in.
        self.unlisted = unlisted


class LRU:
    """The workers with a free slot, least recently used first.

    A worker is listed once, however many slots it has free, and goes to the end with each use, so that all workers get
    their share. A worker of several services may have given its last slot to another of them: it is skipped when its
    turn comes (and this LRU noted in its `unlisted`), since removing it from every LRU at every use would cost each
    task.
    """

    __slots__ = ("_first", "_line")

    def __init__(self) -> None:
        self._line: OrderedDict[Candidate, None] = OrderedDict()
        #: The first in line, if known: a worker that is alone there need not be looked up each time.
        self._first: Candidate | None = None

    def offer(self, candidate: Candidate) -> None:
        assert candidate.free
        self._line[candidate] = None

    def take(self) -> Candidate | None:
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
