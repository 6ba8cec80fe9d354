"""How the journal's files are named and laid out, and which of them count. Knows only names, not the file system.

    <journal>/<table>/date=2026-11-15/hour=08/<broker>-<boot>-<first>.parquet
    <journal>/<table>/date=2026-11-15/hour=08/<broker>-<boot>-<first>_<last>.parquet

The second is compacted: it has all rows of the files <first> to <last> of that broker and boot in that hour. It exists
before those are removed, so for a moment, or after a crash, both may be there. Files that it covers do not count.
Names that begin with a dot or an underscore belong to the writer alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from urllib.parse import quote, unquote

_PATH = re.compile(
    r"(?P<table>\w+)/date=(?P<date>\d{4}-\d\d-\d\d)/hour=(?P<hour>\d\d)/"
    r"(?P<broker>[^/]+)-(?P<boot>[0-9a-f]+)-(?P<first>\d{8})(_(?P<last>\d{8}))?\.parquet"
)


@dataclass(frozen=True, slots=True, order=True)
class JournalFile:
    table: str
    #: As in the path, in UTC.
    date: str
    hour: str
    broker: str
    boot: str
    first: int
    last: int

    @property
    def origin(self) -> tuple[str, ...]:
        """What files must have in common to be merged."""
        return self.table, self.date, self.hour, self.broker, self.boot

    @property
    def path(self) -> str:
        """Below the journal's folder."""
        # A broker may have any name; a dash in it does no harm, since file names are parsed from their end.
        broker = quote(self.broker, safe=" ").replace(".", "%2E").replace("_", "%5F")
        last = f"_{self.last:08d}" if self.last != self.first else ""
        name = f"{broker}-{self.boot}-{self.first:08d}{last}.parquet"
        return f"{self.table}/date={self.date}/hour={self.hour}/{name}"


def hour_of(at_us: int) -> tuple[str, str]:
    """Date and hour of an instant, as in the paths."""
    at = datetime.fromtimestamp(at_us // 1_000_000, UTC)
    return f"{at:%Y-%m-%d}", f"{at:%H}"


def parse(path: str | PurePosixPath) -> JournalFile | None:
    """From the path below the journal's folder; None if it is not a file of the journal."""
    found = _PATH.fullmatch(str(path))
    if found is None:
        return None
    first = int(found["first"])
    last = int(found["last"]) if found["last"] else first
    if last < first:
        return None
    broker = unquote(found["broker"])
    return JournalFile(found["table"], found["date"], found["hour"], broker, found["boot"], first, last)


def visible(files: Iterable[JournalFile]) -> list[JournalFile]:
    """Those that count, in order: each row is in one of them."""
    by_origin: dict[tuple[str, ...], list[JournalFile]] = defaultdict(list)
    for file in files:
        by_origin[file.origin].append(file)
    counted: list[JournalFile] = []
    for candidates in by_origin.values():
        # Of those with the same beginning, the widest comes first: a covered file comes after the one that covers it.
        candidates.sort(key=lambda file: (file.first, -file.last))
        last = -1
        for file in candidates:
            if file.last > last:
                counted.append(file)
                last = file.last
    return sorted(counted)
