"""SideCounts what services did on two sides: in each bin for the tests, and over all of it for people. Knows no files.

The same for ranges of time, whose bins are minutes, and for sets of workers, whose bins are the hours of each worker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from famulus.pipeline.histogram import BUCKETS, entries_of

#: What is slow: tasks that take longer than this share of the tasks of both sides, in parts per million.
SLOW_PPM: Final = 950_000


@dataclass(frozen=True, slots=True)
class Source:
    """A table of which both sides are, and what its columns are called."""

    table: str
    #: The instant of a row, or who it is about: by these a side knows its rows.
    of: str
    #: Histograms: of the times that are compared, and of waits, if it has them.
    time: str
    wait: str | None
    #: How often a worker had a task; `busy_ns` is for these.
    runs: str

    @property
    def columns(self) -> list[str]:
        found = [self.of, "service", "tasks", "ok", self.runs, "busy_ns", self.time]
        return list(dict.fromkeys(found if self.wait is None else [*found, self.wait]))


TIMES: Final = Source("service_minutes", "minute", "total_hist", "queue_hist", "runs")
WORKERS: Final = Source("worker_hours", "worker", "service_hist", None, "tasks")

#: Pieces of the table, each with the number of its hour; called once for each time that it is read.
Read = Callable[[list[str]], Iterator[tuple[int, pa.RecordBatch]]]


@dataclass(frozen=True, slots=True)
class ComparedSide:
    #: How many bins it has, and the bin of each row; -1 for those that are not of this side.
    bins: int
    bin_of: Callable[[int, pa.Array], np.ndarray]


class SideCounts:
    """Of one side. By service and bin: tasks, those that failed, those whose time is known, and of these the sum of
    their buckets (which are logarithms of their times) and how many were slow. By service alone: all else."""

    def __init__(self, services: int, bins: int) -> None:
        self.tasks, self.failed, self.timed, self.buckets, self.slow = (np.zeros((services, bins)) for _ in range(5))
        self.runs, self.busy_ns = (np.zeros(services, dtype=np.int64) for _ in range(2))
        self.times, self.waits = (np.zeros((services, BUCKETS), dtype=np.int64) for _ in range(2))

    def only(self, services: Sequence[int]) -> SideCounts:
        chosen = SideCounts(0, 0)
        for name, values in vars(self).items():
            setattr(chosen, name, values[services])
        return chosen


@dataclass(frozen=True, slots=True)
class Counted:
    services: list[str]
    sides: tuple[SideCounts, ...]
    #: By service: the last bucket that is not slow.
    limits: np.ndarray

    def only(self, services: Collection[str]) -> Counted:
        kept = [number for number, name in enumerate(self.services) if name in services]
        sides = tuple(each.only(kept) for each in self.sides)
        return Counted([self.services[number] for number in kept], sides, self.limits[kept])


def count(source: Source, read: Read, sides: Sequence[ComparedSide]) -> Counted:
    """Of all services that have rows on one of the sides.

    Reads three times: who is there, how long tasks took, and how many of them took longer than others.
    """
    names = sorted(_names(source, read, sides))
    counts = tuple(SideCounts(len(names), side.bins) for side in sides)
    for rows in _rows(source.columns, source, read, sides, names):
        _add(source, counts[rows.side], rows)
    whole = np.cumsum(np.sum([each.times for each in counts], axis=0), axis=1)
    limits = np.argmax(whole * 1_000_000 >= whole[:, -1:] * SLOW_PPM, axis=1)
    for rows in _rows([source.of, "service", source.time], source, read, sides, names):
        _add_slow(source, counts[rows.side], rows, limits)
    return Counted(names, counts, limits)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Of a piece, those of one side; with the number of the service and the bin of each."""

    side: int
    batch: pa.RecordBatch
    service: np.ndarray
    bin: np.ndarray

    def column(self, name: str) -> np.ndarray:
        values: np.ndarray = self.batch.column(name).to_numpy(zero_copy_only=False)
        return values


def _names(source: Source, read: Read, sides: Sequence[ComparedSide]) -> set[str]:
    found: set[str] = set()
    for hour, batch in read([source.of, "service"]):
        ours = np.any([side.bin_of(hour, batch.column(source.of)) >= 0 for side in sides], axis=0)
        found.update(batch.column("service").filter(pa.array(ours)).unique().to_pylist())
    return found


def _rows(
    columns: list[str], source: Source, read: Read, sides: Sequence[ComparedSide], names: Sequence[str]
) -> Iterator[_Rows]:
    numbers = {name: number for number, name in enumerate(names)}
    for hour, batch in read(columns):
        encoded = batch.column("service").dictionary_encode()
        known = np.array([numbers.get(name, -1) for name in encoded.dictionary.to_pylist()], dtype=np.int64)
        service = known[encoded.indices.to_numpy(zero_copy_only=False)]
        for side, each in enumerate(sides):
            bins = each.bin_of(hour, batch.column(source.of))
            ours = (bins >= 0) & (service >= 0)
            if ours.any():
                yield _Rows(side, batch.filter(pa.array(ours)), service[ours], bins[ours])


def _add(source: Source, counts: SideCounts, rows: _Rows) -> None:
    at = rows.service, rows.bin
    np.add.at(counts.tasks, at, rows.column("tasks"))
    np.add.at(counts.failed, at, rows.column("tasks") - rows.column("ok"))
    np.add.at(counts.runs, rows.service, rows.column(source.runs))
    np.add.at(counts.busy_ns, rows.service, rows.column("busy_ns"))
    row, bucket, many = entries_of(rows.batch.column(source.time))
    np.add.at(counts.times, (rows.service[row], bucket), many)
    np.add.at(counts.timed, (rows.service[row], rows.bin[row]), many)
    np.add.at(counts.buckets, (rows.service[row], rows.bin[row]), many * bucket)
    if source.wait is not None:
        row, bucket, many = entries_of(rows.batch.column(source.wait))
        np.add.at(counts.waits, (rows.service[row], bucket), many)


def _add_slow(source: Source, counts: SideCounts, rows: _Rows, limits: np.ndarray) -> None:
    row, bucket, many = entries_of(rows.batch.column(source.time))
    slow = bucket > limits[rows.service[row]]
    row, many = row[slow], many[slow]
    np.add.at(counts.slow, (rows.service[row], rows.bin[row]), many)
