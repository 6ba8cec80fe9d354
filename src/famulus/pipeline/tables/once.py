"""What two tables are made of is made once, and not once for each of them.

A run gives all tables that read the same hours of the journal the very same rows. So whoever makes something costly of
them can be asked twice and work once: what he is given tells, by its identity. Rows that are `kept` stay with Spark,
once somebody has asked for them, until the run lets them go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from famulus.pipeline.tables.pace import Pace, pace_of

_kept: list[DataFrame] = []

More = ParamSpec("More")
Made = TypeVar("Made")


def once(make: Callable[Concatenate[DataFrame, More], Made]) -> Callable[Concatenate[DataFrame, More], Made]:
    """Remembers what was made of some rows for as long as these are in use."""
    known: WeakKeyDictionary[DataFrame, dict[tuple[int, ...], tuple[object, Made]]] = WeakKeyDictionary()
    # Two tables may be made at the same time: then the second one waits for what the first one makes.
    one_at_a_time = Lock()

    @wraps(make)
    def made_once(rows: DataFrame, /, *more: More.args, **named: More.kwargs) -> Made:
        assert not named, "all that matters must be among the others"
        with one_at_a_time:
            before = known.setdefault(rows, {})
            identity = tuple(map(id, more))
            if identity not in before:
                # With the others, so that nobody gets the identity of one that is gone.
                before[identity] = (more, make(rows, *more, **named))
            return before[identity][1]

    return made_once


def kept(rows: DataFrame) -> DataFrame:
    """Few rows may be made twice: to keep them takes longer."""
    if pace_of(rows.sparkSession) is not Pace.FEW:
        _kept.append(rows.persist())
    return rows


def let_go() -> None:
    while _kept:
        _kept.pop().unpersist()
