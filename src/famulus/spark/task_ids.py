"""The ids of tasks, from the keys of their rows: the same each time that Spark computes a row.

An id begins with the name of the run, so that whoever reads a journal sees which application asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from famulus.errors import SettingsError

_DIGEST_BYTES: Final = 16
#: What is left of an id for the name of its run: the rest is a dot and a digest.
RUN_CHARS_MAX: Final = 128 - 1 - 2 * _DIGEST_BYTES

_NAMING: Final = (
    kinds.is_string,
    kinds.is_large_string,
    kinds.is_binary,
    kinds.is_large_binary,
    kinds.is_integer,
    kinds.is_boolean,
    kinds.is_date,
    kinds.is_timestamp,
    kinds.is_decimal,
)


def check_key(name: str, kind: pa.DataType) -> None:
    if not any(is_it(kind) for is_it in _NAMING):
        raise SettingsError(f"key: {name} is {kind}, and a row is named by text, binary, integers, dates or decimals")


def row_names(columns: Sequence[pa.Array]) -> pa.Array:
    """One binary name for each row, null if a part of it is; different rows have different ones."""
    names = [_as_binary(column) for column in columns]
    if len(names) == 1:
        return names[0]
    # With their lengths, or ("a", "bc") and ("ab", "c") would be the same.
    parts = [part for name in names for part in (pc.binary_length(name).cast(pa.string()).cast(pa.binary()), name)]
    return pc.binary_join_element_wise(*parts, pa.scalar(b":", pa.binary()))


def _as_binary(column: pa.Array) -> pa.Array:
    if kinds.is_binary(column.type):
        return column
    if kinds.is_large_binary(column.type):
        return column.cast(pa.binary())
    return column.cast(pa.string()).cast(pa.binary())


class TaskIds:
    """`run` names the run, `parts` tell its tasks from others of the same run with the same keys."""

    def __init__(self, run: str, *parts: str) -> None:
        self._head = f"{run}."
        self._hash = blake2b(b"\0".join(part.encode() for part in parts), digest_size=_DIGEST_BYTES)

    def of_rows(self, names: pa.Array) -> list[str | None]:
        """An id for each row; None where a row has no name."""
        head = self._head
        begun = self._hash.copy()
        begun.update(b"\0")
        begin = begun.copy
        ids: list[str | None] = []
        for name in names.to_pylist():
            if name is None:
                ids.append(None)
                continue
            digest = begin()
            digest.update(name)
            ids.append(head + digest.hexdigest())
        return ids

    def of_all(self, names: pa.Array) -> str | None:
        """One id for a task of all these rows, in this order."""
        if names.null_count:
            return None
        digest = self._hash.copy()
        lengths = pc.binary_length(names)
        digest.update(b"\1")
        digest.update(memoryview(lengths.buffers()[1])[: 4 * len(lengths)])
        offsets = memoryview(names.buffers()[1]).cast("i")
        data = names.buffers()[2]
        if data is not None:
            digest.update(memoryview(data)[offsets[names.offset] : offsets[names.offset + len(names)]])
        return self._head + digest.hexdigest()
