"""What the jobs must know about a table in order to make it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from famulus.journal.schema import Column
from famulus.pipeline.columnar.hours import HourlyMade
from famulus.pipeline.tables import schemas
from famulus.pipeline.tables.column_types import arrow_schema, contract


class Grain(Enum):
    #: Its rows carry `date` and `hour`, and those of an hour follow from that hour of its inputs (and its neighbours).
    HOURLY = "hourly"
    #: Made anew as a whole, from tables that are small compared with the journal's tasks.
    WHOLE = "whole"


def _all(old: DataFrame, *_inputs: DataFrame) -> DataFrame | None:
    return old


def _as_they_are(rows: DataFrame) -> DataFrame:
    return rows


@dataclass(frozen=True, slots=True)
class KeptRows:
    """How a whole table is brought up to date without a look at all of history: older rows stay as they are."""

    #: The day or the instant of a row.
    column: str
    #: Rows of so many days before the first hour that has changed may be different.
    days: int = 0
    #: To make a row, so many days before it are looked at.
    days_before: int = 0
    #: From older rows and the inputs: those that still hold; None if all have to be made again.
    still_hold: Callable[..., DataFrame | None] = _all
    #: From older and new rows: what depends on all of them.
    finish: Callable[[DataFrame], DataFrame] = _as_they_are


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    grain: Grain
    #: Names of tables, in the order in which `rows` wants them: tables of the journal, or other outputs, which come
    #: before it in `ALL`. An hourly table is made of hourly ones.
    inputs: tuple[str, ...]
    rows: Callable[..., pa.Table | DataFrame]
    #: Hourly: `rows` wants the hour before and the hour after as well. Its result then has rows of those hours too,
    #: which must not be kept: an hour's rows are right only if both its neighbours were seen. For the same reason a
    #: change in an hour is a change in its neighbours.
    neighbours: bool = False
    #: Hourly, with neighbours: an hour's rows depend on the hour after it only by rows of its own tasks, and by what
    #: became of those that it left open (see `run.unaffected`). Where a broker died, they say how many tasks of
    #: the hour before died with it: that hour has neighbours, too.
    by_task: bool = False
    #: Hourly: inputs from the journal whose rows `rows` only sees by way of `tables.hourly`. Spark does not read them.
    by_arrow: tuple[str, ...] = ()
    #: Hourly: more of its rows, which are computed without Spark, from the same inputs.
    beside: Callable[..., HourlyMade] | None = None
    #: Whole: of an input with many columns, those that `rows` looks at.
    wants: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    #: Whole: of these inputs `rows` looks at no more than so many days before the newest one that has rows, or before
    #: that of the first of them if it is earlier. What it wants of the journal begins with the first, too.
    last_days: Mapping[str, int] = field(default_factory=dict, hash=False)
    #: Whole: which rows need not be made again.
    keeps: KeptRows | None = None
    #: Whole: another output among its inputs, and a column. If that has no value anywhere, there are no rows, and Spark
    #: need not be asked.
    needs: tuple[str, str] | None = None

    @classmethod
    def of(cls, rows: Callable[..., pa.Table | DataFrame], grain: Grain, **more: Any) -> Table:
        """Made by a function that is named like the table, and whose parameters are named like its inputs."""
        return cls(rows.__name__, grain, tuple(signature(rows).parameters), rows, **more)

    @property
    def columns(self) -> tuple[Column, ...]:
        return schemas.TABLES[self.name]

    def make(self, *inputs: DataFrame) -> pa.Table | DataFrame:
        """Its columns in their order and types, without whatever else there is; and without what is `beside`."""
        rows = self.rows(*inputs)
        if isinstance(rows, DataFrame):
            return contract(rows, self.columns)
        wanted = arrow_schema(self.columns)
        return rows.select(wanted.names).cast(wanted)

    def make_whole(self, *inputs: DataFrame) -> DataFrame:
        rows = self.make(*inputs)
        assert isinstance(rows, DataFrame), "whole tables are made by Spark"
        return rows
