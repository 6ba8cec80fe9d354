"""Batches in, files out: what a scribe does, without its sockets and its clock.

Each table, life and hour has a file that grows by row groups and is finished by size, by age, or with its hour. Rows
that are lost (they never arrived, or could not be written) are counted, and become a row of event `gap` in the table of
brokers as soon as one can be written. Memory is bounded: a row group for each open file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from famulus.journal import files, schema
from famulus.journal.columns import Columns, Stack, picked, span_us, unpacked, wall_us
from famulus.journal.files import JournalFile
from famulus.journal.folder import US_PER_HOUR, JournalFolder
from famulus.journal.footers import Told
from famulus.journal.ledger import LAST_WORDS_US, NOT_WRITTEN, Counts, Gap, RowLedger
from famulus.journal.parquet import OpenFile
from famulus.journal.records import Batch, BatchWriter, read
from famulus.wire.rows import BrokerRow

GROUP_ROWS: Final = 65_536
#: How long to wait after a failed write before trying the disk again.
PAUSE_US: Final = 2_000_000
#: Files of an hour are finished this long after it, since batches take a moment to arrive.
HOUR_GRACE_US: Final = 3_000_000


@dataclass(frozen=True, slots=True)
class Roll:
    """When a file is finished."""

    seconds: float = 60.0
    bytes: int = 64 * 1024 * 1024


@dataclass(slots=True)
class _Sheet:
    """One file that is being written."""

    stack: Stack
    since_us: int
    file: OpenFile | None = None
    #: How many rows arrived, by source, over all row groups.
    came: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    table: str
    boot: str
    #: Hours since 1970.
    hour: int


class Writing:
    def __init__(self, folder: Path, broker: str, family: str, roll: Roll, warn: Callable[[str], None]) -> None:
        self.folder = JournalFolder(folder, broker)
        self.counts = Counts()
        self.ledger = RowLedger(self.folder, self.counts)
        #: The current boot of the dispatcher and the current config version, as the supervisor reports them.
        self.boot = ""
        self.config_version = 0
        self._broker = broker
        self._family = family
        self._roll = roll
        self._warn = warn
        self._sheets: dict[_Place, _Sheet] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        #: For tasks: the highest row number in each hour whose total was not written yet.
        self._highest: dict[_Place, int] = {}
        self._blocked_until_us = 0
        self._blocked = False

    # -- rows arrive --------------------------------------------------------------------------------------------

    def take(self, frame: bytes, now_us: int) -> None:
        try:
            batch = read(frame)
        except msgspec.DecodeError as error:
            self._blame(str(error))
            return
        boot = batch.boot or self.boot
        if not boot:
            return
        self.ledger.hear(batch, boot)
        for table, (rows, _) in batch.tables.items():
            columns = unpacked(batch, table) if table in schema.TABLES else None
            if columns is None:
                self._blame(f"its records of {table} make no sense")
                continue
            before = self.ledger.add(batch, table, rows)
            if table == "tasks":
                # The numbers show readers of the journal whether a row is missing.
                columns["row"] = np.arange(before + 1, before + rows + 1)
            self._put(batch, table, boot, columns, rows, now_us)

    def note(self, rows: list[BrokerRow], now_us: int, monotonic_ns: int, boot: str = "") -> None:
        """Rows for the table of brokers, from the supervisor or from ourselves."""
        boot = boot or self.boot
        if boot:
            # It does not leave this process, so nothing gets lost on the way and nothing is counted.
            pen = BatchWriter("", boot)
            for row in rows:
                pen.note(row)
            batch = read(pen.write(now_us, monotonic_ns))
            columns = unpacked(batch, "brokers")
            assert columns is not None
            self._put(batch, "brokers", boot, columns, len(rows), now_us)

    def _blame(self, why: str) -> None:
        """Mostly it was sent by another version of us. Warns only once, since there may be many."""
        if self.counts.faults == 0:
            self._warn(f"what came for the journal cannot be read ({why}); after an upgrade, restart the whole broker")
        self.counts.faults += 1

    def _put(self, batch: Batch, table: str, boot: str, columns: Columns, rows: int, now_us: int) -> None:
        if self._blocked:
            self.ledger.miss(Gap(table, boot, NOT_WRITTEN, batch.source), rows)
            return
        instants = columns[schema.TIME_COLUMN[table]]
        first, last = (us // US_PER_HOUR for us in span_us(instants, batch))
        if first == last:
            self._add(_Place(table, boot, first), batch, columns, rows, now_us)
            return
        hours = wall_us(instants, batch) // US_PER_HOUR
        for hour in np.unique(hours).tolist():
            these = hours == hour
            self._add(_Place(table, boot, hour), batch, picked(columns, these), int(these.sum()), now_us)

    def _add(self, place: _Place, batch: Batch, columns: Columns, rows: int, now_us: int) -> None:
        sheet = self._sheets.get(place)
        if sheet is None:
            stack = Stack(place.table, self._broker, place.boot, self._family)
            sheet = self._sheets[place] = _Sheet(stack, now_us)
        if place.table == "tasks":
            self._highest[place] = max(int(np.max(columns["row"])), self._highest.get(place, 0))
        sheet.stack.add(batch, columns, rows, self.config_version)
        sheet.came[batch.source] = sheet.came.get(batch.source, 0) + rows
        if sheet.stack.rows >= GROUP_ROWS:
            self._write_group(place, sheet, now_us)

    # -- files are finished -------------------------------------------------------------------------------------

    def tick(self, now_us: int, monotonic_ns: int) -> None:
        """Finish what is due; record what is missing."""
        self._miss_the_last(now_us, monotonic_ns)
        if self._blocked:
            self._try_again(now_us)
        if self.ledger.gaps and not self._blocked:
            self._note_gaps(now_us, monotonic_ns)
        for place, sheet in list(self._sheets.items()):
            hour_over = now_us > (place.hour + 1) * US_PER_HOUR + HOUR_GRACE_US
            too_old = now_us - sheet.since_us >= self._roll.seconds * 1e6
            if too_old or (hour_over and now_us - sheet.since_us > HOUR_GRACE_US):
                self._finish(place, now_us)
        self._note_hours(now_us, monotonic_ns)

    def close(self, now_us: int, monotonic_ns: int) -> None:
        self._blocked_until_us = 0
        self._miss_the_last(now_us + LAST_WORDS_US, monotonic_ns)
        self.tick(now_us, monotonic_ns)
        for place in list(self._sheets):
            self._finish(place, now_us)

    @property
    def open_rows(self) -> int:
        return sum(sheet.stack.rows for sheet in self._sheets.values())

    def _write_group(self, place: _Place, sheet: _Sheet, now_us: int) -> None:
        try:
            rows = sheet.stack.take()
            if sheet.file is None:
                date, hour = files.hour_of(place.hour * US_PER_HOUR)
                number = self._next_number(place.table, place.boot)
                journal_file = JournalFile(place.table, date, hour, self._broker, place.boot, number, number)
                sheet.file = OpenFile(self.folder.path, journal_file, rows.schema)
            sheet.file.write(rows)
        except OSError as error:
            self._block(place, error, now_us)
            return
        if sheet.file.bytes >= self._roll.bytes:
            self._finish(place, now_us)

    def _finish(self, place: _Place, now_us: int, *, with_gaps: bool = False) -> None:
        """`with_gaps`: the file has a row for each gap of its life."""
        sheet = self._sheets.get(place)
        if sheet is None:
            # A failed write to another file has ended this one too.
            return
        if sheet.stack.rows:
            self._write_group(place, sheet, now_us)
        if self._sheets.pop(place, None) is None or sheet.file is None:
            return
        size = sheet.file.bytes
        try:
            sheet.file.finish(self._settled(place.boot, with_gaps=with_gaps))
        except OSError as error:
            self._sheets[place] = sheet
            self._block(place, error, now_us)
            return
        self.counts.rows += sum(sheet.came.values())
        self.counts.files += 1
        self.counts.bytes += size

    def _settled(self, boot: str, *, with_gaps: bool) -> Told:
        pending: Counter[tuple[str, str]] = Counter()
        for place, sheet in self._sheets.items():
            if place.boot == boot:
                for source, rows in sheet.came.items():
                    pending[source, place.table] += rows
        return self.ledger.settled(boot, pending, with_gaps=with_gaps)

    def _next_number(self, table: str, boot: str) -> int:
        key = (table, boot)
        if key not in self._numbers:
            self._numbers[key] = self.folder.last_number(table, boot)
        self._numbers[key] += 1
        return self._numbers[key]

    # -- what is missing ----------------------------------------------------------------------------------------

    def _miss_the_last(self, now_us: int, monotonic_ns: int) -> None:
        for due_us, boot, tasks in self.ledger.close_lives(now_us):
            # So that readers notice if the last rows are missing because somebody removed their file.
            self._note_told(boot, tasks, min(now_us, due_us), monotonic_ns)

    def _note_hours(self, now_us: int, monotonic_ns: int) -> None:
        """At the end of an hour with tasks, record how many there were so far: so even a whole missing hour is noticed.

        Only once they are on the disk: rows that are lost because we crash were not removed by anybody.
        """
        for place in [place for place in self._highest if now_us > (place.hour + 1) * US_PER_HOUR + 2 * HOUR_GRACE_US]:
            if place not in self._sheets:
                end_us = (place.hour + 1) * US_PER_HOUR - 1
                self._note_told(place.boot, self._highest.pop(place), end_us, monotonic_ns)

    def _note_told(self, boot: str, rows: int, now_us: int, monotonic_ns: int) -> None:
        if rows and not self._blocked:
            row = BrokerRow(monotonic_ns, b"told", table=b"tasks", rows=rows)
            self.note([row], now_us, monotonic_ns, boot)

    def _note_gaps(self, now_us: int, monotonic_ns: int) -> None:
        """Writes them to the disk at once, life by life; where that fails, they are kept for later."""
        for boot in sorted({gap.boot for gap in self.ledger.gaps}):
            rows: list[BrokerRow] = []
            for (table, why), count in self.ledger.missing_in(boot).items():
                self._warn(f"the journal lacks {count} {'row' if count == 1 else 'rows'} of {table}: {why}")
                rows.append(BrokerRow(monotonic_ns, b"gap", table=table.encode(), rows=count, detail=why.encode()))
            self.note(rows, now_us, monotonic_ns, boot)
            place = _Place("brokers", boot, now_us // US_PER_HOUR)
            self._finish(place, now_us, with_gaps=True)
            if self._blocked:
                return
            self.ledger.forget_gaps(boot)

    def _block(self, place: _Place, error: OSError, now_us: int) -> None:
        """Writing failed. Files that can be finished are finished; the rest is counted."""
        if not self._blocked:
            self._warn(f"the journal cannot be written ({error}); the broker goes on without it")
        already, self._blocked = self._blocked, True
        self._blocked_until_us = now_us + PAUSE_US
        self._give_up(place)
        if already:
            return
        for other in list(self._sheets):
            if other in self._sheets:
                self._finish(other, now_us)

    def _give_up(self, place: _Place) -> None:
        sheet = self._sheets.pop(place, None)
        if sheet is None:
            return
        if sheet.file is not None:
            sheet.file.abandon()
            # Nobody ever saw its number; if it was the last one, it can be used again.
            if self._numbers[place.table, place.boot] == sheet.file.file.first:
                self._numbers[place.table, place.boot] -= 1
        for source, rows in sheet.came.items():
            self.ledger.miss(Gap(place.table, place.boot, NOT_WRITTEN, source), rows)

    def _try_again(self, now_us: int) -> None:
        """Write where the next file would be written, to see whether that works."""
        if now_us < self._blocked_until_us:
            return
        self._blocked_until_us = now_us + PAUSE_US
        probe = self.folder.path / f".{self.boot or 'probe'}.probe"
        try:
            self.folder.path.mkdir(0o700, parents=True, exist_ok=True)
            with probe.open("wb") as file:
                file.write(bytes(65_536))
            probe.unlink()
        except OSError:
            with suppress(OSError):
                probe.unlink(missing_ok=True)
            return
        self._blocked = False
        self._warn("the journal can be written again")
