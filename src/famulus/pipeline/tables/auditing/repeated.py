"""Rows of one task that do not go together: a second outcome, a second worker, the same row twice.

All of them are about tasks with several rows, so only those are looked at.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.tables.auditing.entry import entries
from famulus.pipeline.tables.columns import hour_number, is_run, is_settled
from famulus.pipeline.tables.crowds import parted
from famulus.pipeline.tables.once import kept, once

_ORDER: Final = ("ended_hour", "ended", "broker", "boot", "ticket")
_BEFORE: Final = ("ended_hour", "ended", "outcome", "broker", "boot", "worker", "arrived")


def repeated(tasks: DataFrame) -> list[DataFrame]:
    counted = _counted(tasks)
    rows = counted.drop("copies").withColumn("ended_hour", hour_number(F.col("ended")))
    return [
        _duplicates(copies(tasks)),
        _two_outcomes(rows),
        _at_most_once(rows),
        _rejected_but_ran(rows),
    ]


def copies(tasks: DataFrame) -> DataFrame:
    """Rows that are there more than once, the same in all columns: each once, with the number of its `copies`."""
    return _counted(tasks).where(F.col("copies") > 1)


@once
def _counted(tasks: DataFrame) -> DataFrame:
    """Kept, since all rules here ask for it."""
    several = parted(tasks, "message_id")[1]
    return kept(several.groupBy(*several.columns).agg(F.count("*").alias("copies")))


def _duplicates(counted: DataFrame) -> DataFrame:
    return entries(
        counted.withColumn("at", F.col("ended")),
        "duplicate_row",
        severity=F.lit("error"),
        explained=F.lit(False),
        about=F.col("copies"),
        words=F.format_string("the same row is there %s times, to the letter", F.col("copies").cast("string")),
    )


def _is_started() -> Column:
    """A worker may have begun with it. One that was not connected provably did not."""
    return is_run() & (F.coalesce("reason", F.lit("")) != "not_connected")


def _again(rows: DataFrame) -> DataFrame:
    """Those that came after another one of the same task within the hour before: with `before_...` of that one.

    `asked_again`: a client's message with this id was accepted after that one had ended.
    """
    order = Window.partitionBy("message_id").orderBy(*_ORDER)
    return (
        rows.select("*", *[F.lag(name).over(order).alias(f"before_{name}") for name in _BEFORE])
        .where(F.col("before_ended_hour") >= F.col("ended_hour") - 1)
        .withColumn("asked_again", F.coalesce(F.col("last_accepted") >= F.col("before_ended"), F.lit(False)))
        .withColumn("at", F.col("ended"))
    )


def _with_last_accepted(rows: DataFrame) -> DataFrame:
    near = Window.partitionBy("message_id").orderBy("ended_hour").rangeBetween(-1, 1)
    accepted = F.max(F.when(F.col("delegated_from").isNull(), F.col("arrived"))).over(near)
    return rows.withColumn("last_accepted", accepted)


def _two_outcomes(rows: DataFrame) -> DataFrame:
    again = rows.transform(_with_last_accepted).where(is_settled()).transform(_again)
    asked = F.col("asked_again")
    words = F.when(asked, "its client asked again after the first").otherwise("one task was ended twice")
    return entries(
        again,
        "two_outcomes",
        severity=F.when(asked, "info").otherwise("error"),
        explained=asked,
        about=F.lit(2),
        words=F.format_string(
            "%s at %s after %s at %s: %s", "outcome", "broker", "before_outcome", "before_broker", words
        ),
    )


def _at_most_once(rows: DataFrame) -> DataFrame:
    once = F.col("at_most_once") & _is_started()
    again = rows.transform(_with_last_accepted).where(once).transform(_again)
    asked = F.col("asked_again")
    words = F.when(asked, "its client asked again after the first").otherwise("it may have run twice")
    return entries(
        again,
        "at_most_once",
        severity=F.when(asked, "info").otherwise("error"),
        explained=asked,
        about=F.lit(2),
        words=F.format_string("worker %s had it after worker %s: %s", "worker", "before_worker", words),
    )


def _rejected_but_ran(rows: DataFrame) -> DataFrame:
    """Where its client asked once: then whoever ran it did so for the broker that says REJECTED."""
    near = Window.partitionBy("message_id").orderBy("ended_hour").rangeBetween(-1, 1)
    accepted = F.when(F.col("delegated_from").isNull(), F.struct("broker", "boot", "arrived"))
    ran = F.min(F.when(_is_started(), F.struct("broker", "worker"))).over(near)
    found = (
        rows.select("*", F.size(F.collect_set(accepted).over(near)).alias("asked"), ran.alias("ran"))
        .where(is_settled() & (F.col("outcome") == "REJECTED") & (F.col("asked") == 1) & F.col("ran").isNotNull())
        .withColumn("at", F.col("ended"))
        .withColumn("worker", F.col("ran.worker"))
    )
    return entries(
        found,
        "rejected_but_ran",
        severity=F.lit("error"),
        explained=F.lit(False),
        about=F.lit(1),
        words=F.format_string("REJECTED at %s, but worker %s had it at %s", "broker", "worker", "ran.broker"),
    )
