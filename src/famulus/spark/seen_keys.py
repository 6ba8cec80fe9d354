"""Notices, within bounds, that two rows of a partition have the same key: they would have one answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from famulus.errors import AskFailed

#: So many rows before it, at least, a row is compared with.
COMPARED: Final = 100_000


class SeenKeys:
    def __init__(self) -> None:
        self._recent: set[str | None] = set()
        self._former: set[str | None] = set()

    def add(self, ids: Sequence[str | None], keys: pa.RecordBatch) -> None:
        """The ids of a batch, which are equal if the keys are. Raises AskFailed if one was there before."""
        new = set(ids) - {None}
        is_new = new.isdisjoint(self._recent) and new.isdisjoint(self._former)
        if len(new) + ids.count(None) < len(ids) or not is_new:
            raise AskFailed(_sentence(self._first_twice(ids), keys))
        self._recent |= new
        if len(self._recent) >= COMPARED:
            self._former, self._recent = self._recent, set()

    def _first_twice(self, ids: Sequence[str | None]) -> int:
        seen = self._recent | self._former
        for place, each in enumerate(ids):
            if each is not None and each in seen:
                return place
            seen.add(each)
        raise AssertionError("none is there twice")


def _sentence(place: int, keys: pa.RecordBatch) -> str:
    told = ", ".join(f"{name}={column[place].as_py()!r}" for name, column in zip(keys.schema.names, keys, strict=True))
    return f"two rows have the same key, {told}: the second would get the answer of the first, and run nothing"
