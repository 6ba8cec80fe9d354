"""Which rows were reported to a scribe, and which of them are missing: counted by life, by source, and by table.

A row that was reported has to be in a file, or in a gap that is in a file. So nothing gets lost unnoticed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from famulus.journal import schema
from famulus.journal.folder import JournalFolder
from famulus.journal.records import Batch

#: How long rows of a life that is over may still be on their way.
LAST_WORDS_US: Final = 5_000_000

NOT_TOLD: Final = "they never reached the scribe: it was not there, or too slow"
NOT_WRITTEN: Final = "they could not be written"


@dataclass(frozen=True, slots=True)
class Gap:
    table: str
    boot: str
    why: str
    #: Who reported the rows, or would have.
    source: str


@dataclass(slots=True)
class Counts:
    """What was done, for reports."""

    rows: int = 0
    files: int = 0
    bytes: int = 0
    lost: int = 0
    faults: int = 0


class RowLedger:
    def __init__(self, folder: JournalFolder, counts: Counts) -> None:
        self._folder = folder
        self._counts = counts
        #: By life, then by source and table: the rows reported so far.
        self._told: dict[str, dict[tuple[str, str], int]] = {}
        #: Rows that are missing without any file saying so yet.
        self.gaps: Counter[Gap] = Counter()
        #: Lives that are over: when to check what has arrived, the source, the boot, and how many rows it had reported.
        self._ended: list[tuple[int, str, str, dict[str, int]]] = []

    # -- rows arrive --------------------------------------------------------------------------------------------

    def hear(self, batch: Batch, boot: str) -> None:
        """Compare how many rows its source says it has sent with how many have arrived."""
        told = self._told_by(batch.boot)
        for table, count in batch.told.items():
            # A source without a boot reported to scribes before us, too; only what goes missing from now on is noticed.
            known = count if not batch.boot else 0
            missed = count - told.get((batch.source, table), known)
            if missed > 0 and table in schema.TABLES:
                self.miss(Gap(table, boot, NOT_TOLD, batch.source), missed)
            told[batch.source, table] = count

    def add(self, batch: Batch, table: str, rows: int) -> int:
        """Count rows that have arrived; returns how many there were before them."""
        told = self._told_by(batch.boot)
        before = told.get((batch.source, table), 0)
        told[batch.source, table] = before + rows
        return before

    def miss(self, gap: Gap, rows: int) -> None:
        self.gaps[gap] += rows
        self._counts.lost += rows

    # -- lives end ----------------------------------------------------------------------------------------------

    def end(self, source: str, boot: str, told: dict[str, int], now_us: int) -> None:
        """A life is over, and `told` says how many rows of each table it had. Rows still on their way get some time."""
        self._ended.append((now_us + LAST_WORDS_US, source, boot, told))

    @property
    def awaits_rows(self) -> bool:
        """Whether a life is over and not all the rows that it reported have arrived yet."""
        return any(
            count > self._told_by(boot).get((source, table), 0)
            for _, source, boot, told in self._ended
            for table, count in told.items()
        )

    def close_lives(self, now_us: int) -> Iterator[tuple[int, str, int]]:
        """Count what has not arrived in time as missing; yields each life's due time, boot and number of tasks."""
        for entry in [entry for entry in self._ended if entry[0] <= now_us]:
            self._ended.remove(entry)
            due_us, source, boot, told = entry
            known = self._told_by(boot)
            for table, count in told.items():
                missed = count - known.get((source, table), 0)
                if missed > 0:
                    self.miss(Gap(table, boot, NOT_TOLD, source), missed)
                    known[source, table] = count
            yield due_us, boot, known.get((source, "tasks"), 0)

    # -- for the files ------------------------------------------------------------------------------------------

    def settled(self, boot: str, pending: Counter[tuple[str, str]], *, with_gaps: bool) -> dict[str, dict[str, int]]:
        """By source and table: how many of the reported rows are in a file, or in a gap that is in a file.

        `pending`: those that are in no file yet. `with_gaps`: the file has a row for each gap of its life.
        """
        for gap, rows in self.gaps.items():
            if gap.boot == boot and not with_gaps:
                pending[gap.source, gap.table] += rows
        settled: dict[str, dict[str, int]] = defaultdict(dict)
        for (source, table), count in self._told_by(boot).items():
            settled[source][table] = count - pending[source, table]
        return settled

    def missing_in(self, boot: str) -> dict[tuple[str, str], int]:
        """By table and reason: how many rows of this life are missing without any file saying so."""
        totals: Counter[tuple[str, str]] = Counter()
        for gap, rows in self.gaps.items():
            if gap.boot == boot:
                totals[gap.table, gap.why] += rows
        return totals

    def forget_gaps(self, boot: str) -> None:
        """A file records them now."""
        self.gaps = Counter({gap: rows for gap, rows in self.gaps.items() if gap.boot != boot})

    def _told_by(self, boot: str) -> dict[tuple[str, str], int]:
        told = self._told.get(boot)
        if told is None:
            # A scribe that takes over in the middle of a life sees from the files how far the previous one got.
            told = self._told[boot] = self._folder.told(boot) if boot else {}
        return told
