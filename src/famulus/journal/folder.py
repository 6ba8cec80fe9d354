"""What is in a journal's folder, and keeping it in order: leftovers of crashes, small files, old files.

Several brokers may share a folder, and so may several lives of one; each takes care of its own files only.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from famulus.journal import files, schema
from famulus.journal.arrow import with_all_columns
from famulus.journal.files import JournalFile
from famulus.journal.footers import UNREADABLE, Footer, Told
from famulus.journal.parquet import TMP, OpenFile, is_being_written, shown, sync_folder

US_PER_HOUR: Final = 3_600_000_000
US_PER_DAY: Final = 24 * US_PER_HOUR
#: An hour is over when nobody can still have rows for it.
GRACE_US: Final = 300_000_000
#: Compacted files grow no further than this.
COMPACTED_BYTES_MAX: Final = 512 * 1024 * 1024


class JournalFolder:
    def __init__(self, path: Path, broker: str | None = None) -> None:
        """The files of all brokers, or of this one only."""
        self.path = path
        self._broker = broker

    # -- looking ------------------------------------------------------------------------------------------------

    def files(self) -> list[JournalFile]:
        """All files, including those that do not count because another one covers them."""
        return [file for file, _ in self._walk() if file is not None and self._is_ours(file)]

    def visible(self) -> list[JournalFile]:
        return files.visible(self.files())

    def foreign(self) -> list[str]:
        """Paths of files that do not belong to the journal, except hidden ones, which belong to whoever writes them."""
        return [
            str(path.relative_to(self.path))
            for file, path in self._walk()
            if file is None and not path.name.startswith((".", "_"))
        ]

    def unfinished(self) -> list[tuple[JournalFile, Path]]:
        found = []
        for _, path in self._walk():
            if path.name.startswith(".") and path.name.endswith(TMP):
                file = files.parse(shown(path).relative_to(self.path).as_posix())
                if file is not None and self._is_ours(file):
                    found.append((file, path))
        return found

    def size_of(self, file: JournalFile) -> int:
        with suppress(OSError):
            return (self.path / file.path).stat().st_size
        return 0

    def _walk(self) -> Iterator[tuple[JournalFile | None, Path]]:
        for table in schema.TABLES:
            for root, _, names in os.walk(self.path / table):
                for name in names:
                    path = Path(root, name)
                    yield files.parse(path.relative_to(self.path).as_posix()), path

    def _is_ours(self, file: JournalFile) -> bool:
        return self._broker is None or file.broker == self._broker

    # -- what a life has written --------------------------------------------------------------------------------

    def last_number(self, table: str, boot: str) -> int:
        """The highest number that this life has used for the table, finished or not; 0 if none."""
        used = [*self.files(), *(file for file, _ in self.unfinished())]
        return max((file.last for file in used if (file.table, file.boot) == (table, boot)), default=0)

    def told(self, boot: str) -> dict[tuple[str, str], int]:
        """By source and table, how many of the reported rows are in a file, or in a gap that is in a file."""
        by_number = sorted(self.visible(), key=lambda file: file.last)
        newest = {file.table: file for file in by_number if file.boot == boot}
        told: dict[tuple[str, str], int] = {}
        for file in newest.values():
            for source, counts in self._told_in(file).items():
                for table, count in counts.items():
                    told[source, table] = max(count, told.get((source, table), 0))
        return told

    def _told_in(self, file: JournalFile) -> Told:
        try:
            return Footer(pq.read_metadata(self.path / file.path)).told
        except UNREADABLE:
            return {}

    # -- after a crash ------------------------------------------------------------------------------------------

    def recover(self) -> dict[JournalFile, bool]:
        """A complete file that only lacks its name gets it; one without its end cannot be read, and is removed.

        Returns, for each file that a crash left unfinished, whether it was kept.
        """
        recovered = {}
        for file, path in self.unfinished():
            with suppress(OSError):
                if is_being_written(path):
                    continue
                finished = _is_whole(path) and not shown(path).exists()
                if finished:
                    os.rename(path, shown(path))
                    sync_folder(path.parent)
                else:
                    path.unlink()
                recovered[file] = finished
        return recovered

    # -- compaction ---------------------------------------------------------------------------------------------

    def compaction(self, now_us: int) -> Iterator[JournalFile | None]:
        """Merges small files of past hours into one per broker, life and hour. Yields often: a merged file, or None."""
        self._remove_covered()
        for group in self._groups(now_us):
            yield from self._merge(group)

    def _remove_covered(self) -> None:
        """A crash may have come after the merged file was finished and before its parts were removed."""
        everything = self.files()
        for file in set(everything) - set(files.visible(everything)):
            (self.path / file.path).unlink(missing_ok=True)

    def _groups(self, now_us: int) -> list[list[JournalFile]]:
        past = files.hour_of(now_us - GRACE_US)
        by_origin: dict[tuple[str, ...], list[JournalFile]] = defaultdict(list)
        for file in self.visible():
            if (file.date, file.hour) < past:
                by_origin[file.origin].append(file)
        return [run for candidates in by_origin.values() for run in self._runs(candidates) if len(run) > 1]

    def _runs(self, candidates: list[JournalFile]) -> Iterator[list[JournalFile]]:
        """Runs of files without a missing number between them: a merged file must not hide that something was lost."""
        run = candidates[:1]
        size = self.size_of(candidates[0])
        for former, file in pairwise(candidates):
            size += self.size_of(file)
            if file.first == former.last + 1 and size <= COMPACTED_BYTES_MAX:
                run.append(file)
            else:
                yield run
                run, size = [file], self.size_of(file)
        yield run

    def _merge(self, group: list[JournalFile]) -> Iterator[JournalFile | None]:
        first, last = group[0], group[-1]
        whole = replace(first, last=last.last)
        texts = schema.REPEATED_TEXTS[first.table]
        merged: OpenFile | None = None
        try:
            for file in group:
                with pq.ParquetFile(self.path / file.path, read_dictionary=texts) as source:
                    for index in range(source.num_row_groups):
                        rows = with_all_columns(source.read_row_group(index), first.table)
                        rows = rows.replace_schema_metadata(None)
                        merged = merged or OpenFile(self.path, whole, rows.schema)
                        merged.write(rows.cast(rows.schema))
                        yield None
            if merged is None:
                return
            merged.finish(self._told_in(last))
        except (OSError, pa.ArrowException, GeneratorExit):
            # The parts are still there; one that cannot be read is a matter for `verify`.
            if merged is not None:
                merged.abandon()
            return
        for file in group:
            (self.path / file.path).unlink(missing_ok=True)
        yield whole

    # -- retention ----------------------------------------------------------------------------------------------

    def expire(self, now_us: int, days_max: int, bytes_max: int) -> list[JournalFile]:
        """Remove files that are too old, then the oldest ones until the rest is small enough; 0 means no limit."""
        oldest_first = sorted(self.files(), key=lambda file: (file.date, file.hour, file.first))
        sizes = {file: self.size_of(file) for file in oldest_first}
        total = sum(sizes.values())
        oldest_kept = files.hour_of(now_us - days_max * US_PER_DAY) if days_max else ("", "")
        gone = []
        for file in oldest_first:
            if (file.date, file.hour) >= oldest_kept and not (bytes_max and total > bytes_max):
                continue
            total -= sizes[file]
            (self.path / file.path).unlink(missing_ok=True)
            gone.append(file)
        self._remove_empty_folders(gone)
        return gone

    def _remove_empty_folders(self, gone: Iterable[JournalFile]) -> None:
        for folder in {(self.path / file.path).parent for file in gone}:
            with suppress(OSError):
                folder.rmdir()
                folder.parent.rmdir()


def _is_whole(path: Path) -> bool:
    try:
        footer = Footer(pq.read_metadata(path))
        # Arrow also completes a file when an exception interrupts its writing, but without our metadata.
        return footer.metadata.num_rows > 0 and footer.version > 0
    except UNREADABLE:
        return False
