"""What decides which free slot of a service is used next; each policy has its own. Knows nothing about tasks."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

#: 31 bits: twice as many still fit into a number that compiled code handles by itself.
MASK: Final = 0x7FFFFFFF


class Candidate:
    """A worker that may be given tasks."""

    __slots__ = ("free", "mark", "slots", "unlisted")

    def __init__(self, free: int, unlisted: list[Chooser], mark: int = 0) -> None:
        self.slots = self.free = free
        #: The choosers of its services that it is not in.
        self.unlisted = unlisted
        #: Always the same for workers of the same name: see `mark_of`.
        self.mark = mark


class Chooser:
    """The workers of one service with a free slot.

    A worker is listed once, however many slots it has free. A worker of several services may have given its last slot
    to another of them: it is skipped when its turn comes (and this chooser noted in its `unlisted`), since removing it
    everywhere at every use would cost each task.
    """

    __slots__ = ()

    def offer(self, candidate: Candidate) -> None:
        """It has a free slot."""
        raise NotImplementedError

    def take(self, key: int) -> Candidate | None:
        """Take one slot, or None if no slot is free. `key` is what a router made of the task's key; 0: it has none."""
        raise NotImplementedError

    def withdraw(self, candidate: Candidate) -> None:
        """It has no free slot any more."""
        raise NotImplementedError

    def leave(self, candidate: Candidate) -> None:
        """It gets no more tasks."""
        self.withdraw(candidate)

    def answered(self, candidate: Candidate, took_ns: int, now_ns: int, plain: bool = True) -> None:
        """How long it took for a task; of all answers, or of some, as the service samples them.

        `plain`: it is an OK and nothing else; others may be errors.
        """

    def listed(self) -> list[Candidate]:
        raise NotImplementedError


def mark_of(name: bytes) -> int:
    """A number for a name; different ones mostly have different numbers, and equal ones the same, wherever it is."""
    return int.from_bytes(blake2b(name, digest_size=4).digest(), "big") & MASK
