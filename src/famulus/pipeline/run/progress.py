"""What a run reports while it works, and what it has to say at the end. Knows no terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from famulus.pipeline.io.source import Bad


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """Something begins, or has been done."""

    #: arrange, renew, look, stage, publish, remember
    what: str
    #: The table, where there is one.
    table: str = ""
    done: bool = False
    rows: int = 0
    hours: int = 0
    seconds: float = 0.0


Tell = Callable[[ProgressStep], None]


def silent(_: ProgressStep) -> None:
    pass


class TableDone(msgspec.Struct, frozen=True):
    table: str
    #: Hours that were made; 0 for a whole table.
    hours: int
    rows: int
    seconds: float


class RunSummary(msgspec.Struct, frozen=True):
    """What a run has done."""

    journal: str
    tables_folder: str
    #: Files of the journal that count.
    files: int
    files_new: int
    rows_new: int
    #: Compacted files with rows that were known.
    files_same: int
    files_expired: int
    #: Files for hours of which the journal has lost a part; they are not counted.
    late: tuple[str, ...]
    bad: tuple[Bad, ...]
    hours: int
    tables: tuple[TableDone, ...]
    seconds: float
    #: Number of the state; the same as before if there was nothing to do.
    state: int
    #: Whether an older pipeline had made the tables, so that all of them were made again.
    renewed: bool = False
    #: Whether there were more new files than a run was to take in one go.
    more: bool = False
    #: Whether whole tables were left to a later run.
    stale: bool = False

    def facts(self) -> dict[str, Any]:
        return dict(msgspec.to_builtins(self))
