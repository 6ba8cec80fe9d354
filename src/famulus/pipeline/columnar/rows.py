"""Rows of the journal as columns of numpy, each made when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from famulus.journal.arrow import TYPES
from famulus.journal.schema import Kind

Array = np.ndarray[Any, Any]
#: Outcomes that end a task.
FINAL: Final = ("OK", "ERROR", "REJECTED", "UNKNOWN")
US_PER_S: Final = 1_000_000
US_PER_MINUTE: Final = 60 * US_PER_S
US_PER_HOUR: Final = 60 * US_PER_MINUTE
Made = TypeVar("Made")


class Rows:
    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._known: dict[tuple[str, str], Any] = {}

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def codes(self, name: str) -> tuple[Array, pa.Array]:
        """A column of texts as numbers of texts, -1 for null; and those texts."""
        return self._once("codes", name, lambda: coded(self.table[name]))

    def texts(self, name: str, where: Array) -> pa.Array:
        """Those of some rows, by their numbers."""
        codes, values = self.codes(name)
        chosen = codes[where]
        return values.take(pa.array(chosen, mask=chosen < 0)).cast(pa.string())

    def numbers(self, name: str) -> Array:
        """Numbers, or instants in microseconds; 0 for null."""
        return self._once("numbers", name, lambda: _numbers(self.table[name]))

    def has(self, name: str) -> Array:
        """Where it is not null."""
        return self._once("has", name, lambda: _flags(self.table[name].is_valid()))

    def is_any(self, name: str, *texts: str) -> Array:
        """Where it is one of these texts."""
        codes, values = self.codes(name)
        # The last one is for null, whose code is -1.
        wanted = np.array([*(text in texts for text in values.to_pylist()), False])
        return wanted[codes]

    @property
    def is_final(self) -> Array:
        """The task ended with this attempt, at this broker."""
        return self._once("is", "final", lambda: self.is_any("outcome", *FINAL))

    @property
    def is_settled(self) -> Array:
        """Final, and at the accountable broker: so the client heard it."""
        return self._once("is", "settled", lambda: self.is_final & ~self.has("delegated_from"))

    @property
    def is_run(self) -> Array:
        """A worker had this attempt. A late answer belongs to an attempt that has its own row."""
        return self._once(
            "is", "run", lambda: self.has("worker") & self.has("assigned") & ~self.is_any("outcome", "LATE")
        )

    def _once(self, what: str, name: str, make: Callable[[], Made]) -> Made:
        if (what, name) not in self._known:
            self._known[what, name] = make()
        made: Made = self._known[what, name]
        return made


def instants(numbers: Array | pa.Array | Sequence[int | None]) -> pa.Array:
    """Of microseconds."""
    return pa.array(numbers, pa.int64()).cast(TYPES[Kind.INSTANT])


def hour_of(at: Array | pa.ChunkedArray) -> dict[str, pa.Array]:
    """The columns `date` and `hour` of an hourly table, for instants in microseconds."""
    if isinstance(at, pa.ChunkedArray):
        at = pc.cast(at, pa.int64()).to_numpy()
    hours = at // US_PER_HOUR
    return {
        "date": pa.array((hours // 24).astype(np.int32)).cast(pa.date32()),
        "hour": pa.array((hours % 24).astype(np.int32)),
    }


def coded(column: pa.ChunkedArray) -> tuple[Array, pa.Array]:
    if not len(column):
        return np.empty(0, np.int32), pa.array([], pa.string())
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0)
    return pc.fill_null(whole.indices, -1).to_numpy(zero_copy_only=False), whole.dictionary


def _numbers(column: pa.ChunkedArray) -> Array:
    numbers: Array = pc.fill_null(pc.cast(column, pa.int64()), 0).to_numpy()
    return numbers


def _flags(column: pa.ChunkedArray) -> Array:
    flags: Array = column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
    return flags
