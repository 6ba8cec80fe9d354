"""Reads what a comparison needs from the tables, and says what is not there."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from famulus.errors import PlaceError, QueryError
from famulus.pipeline.compare.comparison import Comparison, compare
from famulus.pipeline.compare.counting import TIMES, WORKERS, Counted, Read, Source, count
from famulus.pipeline.compare.sides import TimeRange, matching, workers_side
from famulus.pipeline.report.reading import Tables

_DAY_ZERO = datetime(1970, 1, 1, tzinfo=UTC)
#: A message names no more.
NAMES_MAX = 12


def compare_times(
    tables: Tables, before: TimeRange, after: TimeRange, services: Sequence[str] | None
) -> list[Comparison]:
    hours = _hours(tables, TIMES)
    read = _reader(tables, TIMES, {hour for hour in hours if hour in before.hours or hour in after.hours})
    counted = count(TIMES, read, [before.side(), after.side()])
    for each, counts in zip((before, after), counted.sides, strict=True):
        if not counts.tasks.any():
            raise QueryError(f"no tasks ended from {each}; the tables have those from {_extent(hours)}")
    return compare(_chosen(counted, services))


def compare_workers(
    tables: Tables, before: str, after: str, during: TimeRange | None, services: Sequence[str] | None
) -> list[Comparison]:
    hours = _hours(tables, WORKERS)
    wanted = [hour for hour in hours if during is None or hour in during.hours]
    read = _reader(tables, WORKERS, set(wanted))
    names: set[str] = set()
    for _, batch in read([WORKERS.of]):
        names.update(batch.column(WORKERS.of).unique().to_pylist())
    if not names:
        raise QueryError(f"no worker had tasks from {during}; the tables have those from {_extent(hours)}")
    for pattern in (before, after):
        if not matching(pattern, sorted(names)):
            raise QueryError(f"no worker has a name like {pattern!r}; there are {named(names)}")
    if both := matching(before, sorted(names)) & matching(after, sorted(names)):
        raise QueryError(f"{named(both)} would be on both sides")
    sides = [workers_side(pattern, sorted(names), wanted) for pattern in (before, after)]
    return compare(_chosen(count(WORKERS, read, sides), services))


def named(names: Collection[str]) -> str:
    shown = ", ".join(sorted(names)[:NAMES_MAX])
    return f"{shown} and {len(names) - NAMES_MAX:,} more" if len(names) > NAMES_MAX else shown


def _hours(tables: Tables, source: Source) -> list[int]:
    if not (hours := tables.hours(source.table)):
        raise PlaceError(f"there is no table {source.table} there: make it with famulus pipeline run")
    return hours


def _reader(tables: Tables, source: Source, wanted: Container[int]) -> Read:
    def read(columns: list[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        return tables.hourly(source.table, columns, wanted)

    return read


def _extent(hours: Sequence[int]) -> TimeRange:
    begin, end = (_DAY_ZERO + timedelta(hours=each) for each in (hours[0], hours[-1] + 1))
    return TimeRange(begin, end)


def _chosen(counted: Counted, services: Sequence[str] | None) -> Counted:
    """Only these: what is not asked about should not make the tests of the others stricter."""
    for each in services or ():
        if each not in counted.services:
            raise QueryError(f"there is no service {each!r} among these tasks; there are {named(counted.services)}")
    return counted if services is None else counted.only(services)
