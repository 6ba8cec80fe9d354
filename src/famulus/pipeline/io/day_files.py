"""Decides which file of a day each hour of a table goes to. Knows names and sizes, but no file.

    <table>/date=2026-11-15/part-0000.parquet       the hours 0 to 7, say
    <table>/date=2026-11-15/part-0800.parquet       those from 8 on
    <table>/date=2026-11-15/part-0830.parquet       the second half of hour 8, which has very many rows

A file is named by the hour that it was made for. Hours that follow are added to it while it is small. An hour stays
where it is once it has rows: whoever makes it again replaces that one file, in one step, and no reader sees a row twice
or not at all. That is why hours are put together when they are made and not later: two files cannot be replaced by one
in one step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

#: No hour is added to a file that is larger, or would be. It is read and written whenever one of its hours is made.
SHARED_BYTES: Final = 8 * 1024 * 1024
_NAME: Final = re.compile(r"part-(\d\d)(\d\d)\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class DayFile:
    """One that is there."""

    #: The hour and the minute in its name.
    hour: int
    minute: int
    bytes: int
    #: Of its rows; with None it has none.
    hours: tuple[int, int] | None

    @property
    def name(self) -> str:
        return name_of(self.hour, self.minute)

    def covers(self, hour: int) -> bool:
        return self.hours is not None and self.hours[0] <= hour <= self.hours[1]


@dataclass(frozen=True, slots=True)
class NewHour:
    """An hour that was made: the sizes of its parts that have rows, and how many parts it is cut into."""

    hour: int
    bytes: Mapping[int, int]
    parts: int = 1

    def minute(self, part: int) -> int:
        return part * 60 // self.parts


@dataclass(frozen=True, slots=True)
class FileWork:
    """A file to be written anew: without what it had of these hours, and with these parts of them."""

    name: str
    #: Whether there is one of that name now.
    is_there: bool
    #: Whether nothing of what it has is kept.
    is_all_new: bool
    #: Hours and parts.
    added: tuple[tuple[int, int], ...]

    @property
    def is_gone(self) -> bool:
        return self.is_all_new and not self.added


def name_of(hour: int, minute: int = 0) -> str:
    return f"part-{hour:02d}{minute:02d}.parquet"


def parse(name: str) -> tuple[int, int] | None:
    """The hour and the minute of a name; None if it is none of ours."""
    found = _NAME.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]))


def parts_there(files: Iterable[DayFile], hour: int) -> int:
    """Into how many parts an hour is cut."""
    return 1 + sum(1 for each in files if each.hour == hour and each.minute)


def arrange(files: Iterable[DayFile], made: Mapping[int, NewHour], limit: int = SHARED_BYTES) -> list[FileWork]:
    """What to do with the files of a day for hours that were made, some of them without rows.

    In this order nothing is twice at any moment: what an hour has too much is taken away before the rest is added.
    """
    there = {each.name: each for each in files}
    sizes = {each.name: each.bytes for each in there.values() if not each.minute}
    last = {each.name: each.hours[1] if each.hours else -1 for each in there.values() if not each.minute}
    added: dict[str, list[tuple[int, int]]] = {}
    # Where the hours were until now: also if they have no rows any more.
    touched = {each.name for each in there.values() for hour in made if _may_have(each, hour)}
    for hour in sorted(made):
        new = made[hour]
        if not new.bytes:
            continue
        home = _home(there.values(), hour) or _joined(sizes, last, new, limit) or name_of(hour)
        sizes[home] = sizes.get(home, 0) + new.bytes.get(0, 0)
        last[home] = max(last.get(home, -1), hour)
        for part in sorted(new.bytes):
            added.setdefault(name_of(hour, new.minute(part)) if part else home, []).append((hour, part))
    found = [
        FileWork(name, name in there, _is_replaced(there.get(name), made), tuple(added.get(name, ())))
        for name in sorted({*touched, *added})
    ]
    return sorted(found, key=lambda work: (not work.is_there, not work.is_gone))


def _may_have(file: DayFile, hour: int) -> bool:
    return file.hour == hour if file.minute else file.covers(hour)


def _home(files: Iterable[DayFile], hour: int) -> str | None:
    """The file that has the hour already; the first part of it, if it is cut."""
    whole = [each for each in files if not each.minute]
    named = [each.name for each in whole if each.hour == hour]
    return next(iter([*named, *(each.name for each in whole if each.covers(hour))]), None)


def _joined(sizes: Mapping[str, int], last: Mapping[str, int], new: NewHour, limit: int) -> str | None:
    """The file with the hours just before this one, if there is space in it."""
    before = [name for name in sizes if last[name] < new.hour]
    if new.parts > 1 or not before:
        return None
    name = max(before, key=lambda each: (last[each], each))
    return name if sizes[name] + sum(new.bytes.values()) <= limit else None


def _is_replaced(file: DayFile | None, made: Mapping[int, NewHour]) -> bool:
    if file is None or file.hours is None or file.minute:
        return True
    return all(hour in made for hour in range(file.hours[0], file.hours[1] + 1))
