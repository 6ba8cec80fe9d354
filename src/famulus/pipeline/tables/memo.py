"""What two tables are made from is made once: a memo of what was made from which rows, and rows that Spark caches.

A run gives all tables that read the same hours of the journal the very same rows. So a function that makes something
costly from them can be called twice and runs once, by the identity of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from famulus.pipeline.tables.scale import Scale, scale_of

_cached: list[DataFrame] = []

More = ParamSpec("More")
Made = TypeVar("Made")


def memo(make: Callable[Concatenate[DataFrame, More], Made]) -> Callable[Concatenate[DataFrame, More], Made]:
    """Remembers what was made from some rows for as long as these are in use."""
    known: WeakKeyDictionary[DataFrame, dict[tuple[int, ...], tuple[object, Made]]] = WeakKeyDictionary()
    # Two tables may be made at the same time: then the second one waits for what the first one makes.
    one_at_a_time = Lock()

    @wraps(make)
    def remembered(rows: DataFrame, /, *more: More.args, **named: More.kwargs) -> Made:
        assert not named, "all that matters must be among the others"
        with one_at_a_time:
            before = known.setdefault(rows, {})
            identity = tuple(map(id, more))
            if identity not in before:
                # Kept with the other arguments, so that nothing new gets the identity of one that is gone.
                before[identity] = (more, make(rows, *more, **named))
            return before[identity][1]

    return remembered


def cached(rows: DataFrame) -> DataFrame:
    """Rows that several others are made from: they are made once, and Spark keeps them until `release_cached`.

    Few rows are made right away, and their plan is forgotten: otherwise whatever is made from them would have all of it
    in its own plan, once for each use, and with few rows the planning takes longest.
    """
    if scale_of(rows.sparkSession) is Scale.SMALL:
        return rows.localCheckpoint()
    _cached.append(rows.persist())
    return rows


def release_cached() -> None:
    while _cached:
        _cached.pop().unpersist()
