"""Ranges of time in whole minutes, and sets of workers, as sides of a comparison. Knows no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Final

import numpy as np
import pyarrow as pa

from famulus.errors import QueryError
from famulus.pipeline.compare.counting import ComparedSide

#: A range has no more bins: longer ranges have longer ones.
BINS_MAX: Final = 720
_MINUTE_US: Final = 60_000_000
_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
_DAY_ZERO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Minutes that begin in it belong to it."""

    begin: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.end - self.begin < _MINUTE:
            raise QueryError(f"a range ends a minute after its begin, or later: not so {self}")

    def __str__(self) -> str:
        end = f"{self.end:%H:%M}" if self.end.date() == self.begin.date() else f"{self.end:%Y-%m-%d %H:%M}"
        return f"{self.begin:%Y-%m-%d %H:%M} to {end} UTC"

    @property
    def hours(self) -> range:
        """Those that it touches, by their numbers."""
        return range((self.begin - _DAY_ZERO) // _HOUR, -((_DAY_ZERO - self.end) // _HOUR))

    @property
    def hours_of_day(self) -> frozenset[int]:
        return frozenset(number % 24 for number in self.hours[:24])

    def overlaps(self, other: TimeRange) -> bool:
        return self.begin < other.end and other.begin < self.end

    def side(self) -> ComparedSide:
        """In bins of equal length, whole minutes each."""
        first, end = (-((_DAY_ZERO - at) // _MINUTE) for at in (self.begin, self.end))
        step = max(1, -(-(end - first) // BINS_MAX))

        def bin_of(_hour: int, minutes: pa.Array) -> np.ndarray:
            at = minutes.cast(pa.int64()).to_numpy(zero_copy_only=False) // _MINUTE_US
            found: np.ndarray = np.where((at >= first) & (at < end), (at - first) // step, -1)
            return found

        return ComparedSide(-(-(end - first) // step), bin_of)


def around(at: datetime, length: timedelta) -> tuple[TimeRange, TimeRange]:
    """As long before an instant as after it."""
    return TimeRange(at - length, at), TimeRange(at, at + length)


def workers_side(pattern: str, workers: Sequence[str], hours: Sequence[int]) -> ComparedSide:
    """The workers whose names match: a bin for each hour of each of them, those of one beside each other."""
    numbers = {name: number for number, name in enumerate(sorted(matching(pattern, workers)))}
    places = {hour: place for place, hour in enumerate(sorted(hours))}

    def bin_of(hour: int, names: pa.Array) -> np.ndarray:
        encoded = names.dictionary_encode()
        place = places.get(hour, -1)
        known = [numbers.get(name, -1) for name in encoded.dictionary.to_pylist()]
        bins = [number * len(places) + place if min(number, place) >= 0 else -1 for number in known]
        found: np.ndarray = np.array(bins, dtype=np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]
        return found

    return ComparedSide(len(numbers) * len(places), bin_of)


def matching(pattern: str, workers: Sequence[str]) -> set[str]:
    return {name for name in workers if fnmatchcase(name, pattern)}
