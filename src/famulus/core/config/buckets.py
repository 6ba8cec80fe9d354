"""The ids of an edit set in 256 buckets by first byte, so that two sets can cheaply find out where they differ."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from hashlib import sha256
from itertools import chain
from typing import Final

BUCKETS: Final = 256


class Buckets:
    def __init__(self) -> None:
        self._ids: list[list[str]] = [[] for _ in range(BUCKETS)]
        self._hashes: list[bytes] = [b""] * BUCKETS
        #: Buckets that have changed since they were last hashed.
        self._stale: set[int] = set()
        self._digest = ""

    def add(self, edit_id: str) -> None:
        number = int(edit_id[:2], 16)
        insort(self._ids[number], edit_id)
        self._stale.add(number)
        self._digest = ""

    def ids(self, number: int) -> list[str]:
        return self._ids[number]

    @property
    def hashes(self) -> list[bytes]:
        """A hash over the sorted ids of each bucket; empty for an empty bucket."""
        for number in self._stale:
            self._hashes[number] = sha256("".join(self._ids[number]).encode()).digest()
        self._stale.clear()
        return self._hashes

    @property
    def digest(self) -> str:
        """SHA-256 over all ids in sorted order, which is also the order of the buckets."""
        if not self._digest:
            self._digest = sha256("".join(chain.from_iterable(self._ids)).encode()).hexdigest()
        return self._digest

    def digest_with(self, more: Iterable[str]) -> str:
        """What the digest will be once these ids are added."""
        return sha256("".join(sorted({*chain.from_iterable(self._ids), *more})).encode()).hexdigest()
