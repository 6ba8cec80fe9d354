"""Notices, within bounds, that two rows of a partition have the same key: they would have one answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from famulus.errors import AskFailed

#: So many rows before it, at least, a row is compared with.
COMPARED: Final = 100_000


class SeenKeys:
    def __init__(self) -> None:
        self._batches: deque[set[str | None]] = deque()
        self._count = 0

    def add(self, ids: Sequence[str | None], keys: pa.RecordBatch) -> None:
        """The ids of a batch, which are equal if the keys are. Raises AskFailed if one was there before."""
        new = set(ids) - {None}
        if len(new) + ids.count(None) < len(ids) or not all(new.isdisjoint(before) for before in self._batches):
            raise AskFailed(_sentence(self._first_twice(ids), keys))
        self._batches.append(new)
        self._count += len(new)
        while self._count - len(self._batches[0]) >= COMPARED:
            self._count -= len(self._batches.popleft())

    def _first_twice(self, ids: Sequence[str | None]) -> int:
        seen = set().union(*self._batches)
        for place, each in enumerate(ids):
            if each is not None and each in seen:
                return place
            seen.add(each)
        raise AssertionError("none is there twice")


def _sentence(place: int, keys: pa.RecordBatch) -> str:
    told = ", ".join(f"{name}={column[place].as_py()!r}" for name, column in zip(keys.schema.names, keys, strict=True))
    return f"two rows have the same key, {told}: the second would get the answer of the first, and run nothing"
