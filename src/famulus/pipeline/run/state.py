"""What was done: which files of the journal are in the tables. Written last, so a run that died is simply done again.

    <tables>/_state/state-00000012.json     about the tables; each run that changes something writes the next one
    <tables>/_state/days/2026-11-15.json    the files of a day; read only by a run that looks into that day

Each is written whole or not at all. Of the first ones the highest number counts, and older ones are removed. It is
written before the days are: a run that dies between does the files of these days again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from famulus.errors import StateError
from famulus.pipeline.io import hours
from famulus.pipeline.io.place import Place

FOLDER: Final = "_state"
DAYS: Final = f"{FOLDER}/days"
#: Of the files below, and of how the tables are filed; a newer one is not ours to read. Tables of format 1 and before
#: are made again, as rows could be in the folder of another hour. Those of format 2 have a file for each hour.
FORMAT: Final = 3
MISFILED: Final = 1
BY_HOUR: Final = 2
_NAME: Final = re.compile(r"state-(\d{8})\.json")
_DAY: Final = re.compile(r"(\d{4}-\d\d-\d\d)\.json")
_Said = TypeVar("_Said")


class ProcessedFile(msgspec.Struct, frozen=True, array_like=True):
    """A file whose rows are in the tables."""

    path: str
    bytes: int
    rows: int

    @property
    def day(self) -> str:
        return day_in(self.path)


class RunState(msgspec.Struct, frozen=True):
    format: int = FORMAT
    #: One more with each run that changed something.
    number: int = 0
    #: Files that could not be read, or that such a file was compacted from: they are tried again.
    bad: tuple[str, ...] = ()
    #: Every table with a digest of its columns: a table that is new or has different columns is made for all hours.
    tables: dict[str, str] = {}
    #: The first hour whose rows are in hourly tables, but not yet in the whole ones.
    stale: int | None = None
    #: The day that was looked into last, of those that are complete: the next run looks into the one after it.
    looked: str = ""
    #: Of the days that were asked for. Until format 2, of all.
    files: tuple[ProcessedFile, ...] = ()
    #: Hours of which the journal no longer has all files, of the same days: their tables stay as they are.
    frozen: tuple[int, ...] = ()

    @property
    def is_misfiled(self) -> bool:
        """Whether the tables were made by a pipeline that filed rows under wrong hours."""
        return self.format <= MISFILED

    @property
    def is_by_hour(self) -> bool:
        """Whether the tables have a file for each hour, and all that was done is in one file."""
        return self.format <= BY_HOUR


class DayState(msgspec.Struct, frozen=True):
    files: tuple[ProcessedFile, ...] = ()
    frozen: tuple[int, ...] = ()


def load(tables: Place) -> RunState:
    """Without what is known of days; but all of it, if an older pipeline has written it."""
    number = max(_numbers(tables), default=0)
    if number == 0:
        return RunState()
    state = _read(tables, _path(number), RunState)
    if state.format > FORMAT:
        written = f"{tables.full(_path(number))} was written by a newer pipeline"
        raise StateError(f"{written}; use that one, or {_remedy(tables)}")
    return state


def days(tables: Place, state: RunState) -> set[str]:
    """Those of which something is known."""
    if state.is_by_hour:
        return set(_by_day(state))
    found = map(_DAY.fullmatch, tables.names(DAYS))
    return {each[1] for each in found if each is not None} if state.number else set()


def with_days(tables: Place, state: RunState, wanted: Collection[str]) -> RunState:
    """With what is known of these days."""
    if state.is_by_hour:
        return state
    found = [_read(tables, f"{DAYS}/{day}.json", DayState) for day in sorted(days(tables, state) & set(wanted))]
    files = tuple(file for each in found for file in each.files)
    return replace(state, files=files, frozen=tuple(hour for each in found for hour in each.frozen))


def save(tables: Place, state: RunState, before: RunState) -> None:
    """`before`: what was known of the same days. Days of which that is still true are not written again."""
    older = _numbers(tables)
    if before.is_by_hour:
        # Nobody looks at these before the new state is there; and without them it would not know what has expired.
        _save_days(tables, _by_day(state))
    tables.write(_path(state.number), msgspec.json.encode(replace(state, files=(), frozen=())))
    if not before.is_by_hour:
        old = _by_day(before)
        _save_days(tables, {day: own for day, own in _by_day(state).items() if old.get(day) != own})
    for number in older:
        if number < state.number:
            tables.remove(_path(number))


def _save_days(tables: Place, found: Mapping[str, DayState]) -> None:
    for day, own in found.items():
        tables.write(f"{DAYS}/{day}.json", msgspec.json.encode(own))


def day_in(path: str) -> str:
    """The day of a file of the journal."""
    return path.split("/", 2)[1].removeprefix("date=")


def _by_day(state: RunState) -> dict[str, DayState]:
    files: defaultdict[str, list[ProcessedFile]] = defaultdict(list)
    frozen: defaultdict[str, list[int]] = defaultdict(list)
    for file in state.files:
        files[file.day].append(file)
    for hour in state.frozen:
        frozen[hours.day_of(hour)].append(hour)
    return {day: DayState(tuple(files[day]), tuple(frozen[day])) for day in {*files, *frozen}}


def _read(tables: Place, path: str, kind: type[_Said]) -> _Said:
    try:
        return msgspec.json.decode(tables.read(path), type=kind)
    except (msgspec.MsgspecError, OSError) as error:
        raise StateError(f"{tables.full(path)} cannot be read ({error}); {_remedy(tables)}") from None


def _remedy(tables: Place) -> str:
    return f"remove {tables.uri(FOLDER)} to make all tables anew"


def _numbers(tables: Place) -> list[int]:
    found = (_NAME.fullmatch(name) for name in tables.names(FOLDER))
    return sorted(int(each[1]) for each in found if each is not None)


def _path(number: int) -> str:
    return f"{FOLDER}/state-{number:08d}.json"
