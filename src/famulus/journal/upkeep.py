"""Decides when a journal is tidied: merges small files of past hours and removes old ones, a little at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from famulus.journal.files import JournalFile
from famulus.journal.folder import JournalFolder

EVERY_US: Final = 60_000_000


class Upkeep:
    def __init__(self, folder: JournalFolder, days_max: int, bytes_max: int) -> None:
        self._folder = folder
        self._days_max = days_max
        self._bytes_max = bytes_max
        self._next_us = 0
        self._compaction: Iterator[JournalFile | None] | None = None
        #: Whether there is time for it.
        self.quiet = True

    def step(self, now_us: int) -> bool:
        """Do a little, if it is time and quiet; returns whether there is more to do."""
        if self._compaction is not None:
            if not self.quiet:
                return False
            try:
                next(self._compaction)
            except (StopIteration, OSError):
                self._compaction = None
            return self._compaction is not None
        if now_us < self._next_us:
            return False
        self._next_us = now_us + EVERY_US
        # Space is needed most when there is much to do, so this does not wait for a quiet moment.
        try:
            self._folder.expire(now_us, self._days_max, self._bytes_max)
        except OSError:
            return False
        self._compaction = self._folder.compaction(now_us)
        return True
