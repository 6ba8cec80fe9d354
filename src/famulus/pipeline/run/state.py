"""What was done: which files of the journal are in the tables. Written last, so a run that died is simply done again.

`<tables>/_state/state-00000012.json`: each run writes the next one, whole or not at all, and then removes the older
ones. The highest number counts.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from famulus.errors import StateError
from famulus.pipeline.io.place import Place

FOLDER: Final = "_state"
#: Of the file below, and of how the tables are filed; a newer one is not ours to read. Tables of an older one are made
#: again: up to 1, rows could be in the folder of another hour.
FORMAT: Final = 2
_NAME: Final = re.compile(r"state-(\d{8})\.json")


class ProcessedFile(msgspec.Struct, frozen=True, array_like=True):
    """A file whose rows are in the tables."""

    path: str
    bytes: int
    rows: int


class RunState(msgspec.Struct, frozen=True):
    format: int = FORMAT
    #: One more with each run that changed something.
    number: int = 0
    files: tuple[ProcessedFile, ...] = ()
    #: Hours of which the journal no longer has all files: their tables stay as they are.
    frozen: tuple[int, ...] = ()
    #: Files that could not be read, or that such a file was compacted from: they are tried again.
    bad: tuple[str, ...] = ()
    #: Every table with a digest of its columns: a table that is new or has different columns is made for all hours.
    tables: dict[str, str] = {}

    @property
    def is_older(self) -> bool:
        """Whether the tables were made by a pipeline that filed them in another way."""
        return self.format < FORMAT


def load(tables: Place) -> RunState:
    number = max(_numbers(tables), default=0)
    if number == 0:
        return RunState()
    path = _path(number)
    remedy = f"remove {tables.uri(FOLDER)} to make all tables anew"
    try:
        state = msgspec.json.decode(tables.read(path), type=RunState)
    except (msgspec.MsgspecError, OSError) as error:
        raise StateError(f"{tables.full(path)} cannot be read ({error}); {remedy}") from None
    if state.format > FORMAT:
        raise StateError(f"{tables.full(path)} was written by a newer pipeline; use that one, or {remedy}")
    return state


def save(tables: Place, state: RunState) -> None:
    older = _numbers(tables)
    tables.write(_path(state.number), msgspec.json.encode(state))
    for number in older:
        if number < state.number:
            tables.remove(_path(number))


def _numbers(tables: Place) -> list[int]:
    found = (_NAME.fullmatch(name) for name in tables.names(FOLDER))
    return sorted(int(each[1]) for each in found if each is not None)


def _path(number: int) -> str:
    return f"{FOLDER}/state-{number:08d}.json"
