"""Rows that do not go together: a second outcome of a task, a second worker, the same row or the same ticket twice.

None of them is of a plain task.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.tables.auditing.entry import entries, info_if
from famulus.pipeline.tables.columns import hour_number, is_run, is_settled
from famulus.pipeline.tables.memo import cached, memo
from famulus.pipeline.tables.words import said

_ORDER: Final = ("ended_hour", "ended", "broker", "boot", "ticket")
_LIFE: Final = ("broker", "boot")
_ATTEMPT: Final = (*_LIFE, "ticket", "message_id", "attempt", "service", "worker", "outcome", "ended")
_BEFORE: Final = ("ended_hour", "ended", "outcome", "broker", "worker")


def repeated(tasks: DataFrame) -> list[DataFrame]:
    near = Window.partitionBy("message_id").orderBy("ended_hour").rangeBetween(-1, 1)
    is_asked = F.col("delegated_from").isNull()
    rows = (
        _counted(tasks)
        .drop("copies")
        .withColumn("ended_hour", hour_number("ended"))
        .select(
            "*",
            F.max(F.when(is_asked, F.col("arrived"))).over(near).alias("last_accepted"),
            F.size(F.collect_set(F.when(is_asked, F.struct("broker", "boot", "arrived"))).over(near)).alias("asked"),
            F.min(F.when(_is_started(), F.struct("broker", "worker"))).over(near).alias("ran"),
        )
    )
    return [_duplicates(copies(tasks)), _again(rows), _rejected_but_ran(rows), _tickets_used_twice(tasks)]


def copies(tasks: DataFrame) -> DataFrame:
    """Rows that are there more than once, the same in all columns: each once, with the number of its `copies`."""
    return _counted(tasks).where(F.col("copies") > 1)


@memo
def _counted(tasks: DataFrame) -> DataFrame:
    """Cached, since all rules here use it."""
    return cached(tasks.groupBy(*tasks.columns).agg(F.count("*").alias("copies")))


def _duplicates(counted: DataFrame) -> DataFrame:
    words = "the same row is there {copies} times, to the letter"
    return entries(counted, "duplicate_row", words, about=F.col("copies"), at="ended")


def _is_started() -> Column:
    """A worker may have started it. One that was not connected provably did not."""
    return is_run() & (F.coalesce("reason", F.lit("")) != "not_connected")


def _again(rows: DataFrame) -> DataFrame:
    """A second outcome, or a second worker, after another one of the same task within the hour before.

    It is explained if a client's message with this id was accepted after that one had ended.
    """
    kinds = F.array(F.when(is_settled(), "two_outcomes"), F.when(F.col("at_most_once") & _is_started(), "at_most_once"))
    order = Window.partitionBy("message_id", "kind").orderBy(*_ORDER)
    again = (
        rows.select("*", F.explode(F.array_compact(kinds)).alias("kind"))
        .select("*", *[F.lag(name).over(order).alias(f"before_{name}") for name in _BEFORE])
        .where(F.col("before_ended_hour") >= F.col("ended_hour") - 1)
    )
    is_outcome = F.col("kind") == "two_outcomes"
    asked_again = F.coalesce(F.col("last_accepted") >= F.col("before_ended"), F.lit(False))
    why = (
        F.when(asked_again, "its client asked again after the first")
        .when(is_outcome, "one task was ended twice")
        .otherwise("it may have run twice")
    )
    outcomes = said("{outcome} at {broker} after {before_outcome} at {before_broker}: {why}", why=why)
    workers = said("worker {worker} had it after worker {before_worker}: {why}", why=why)
    return entries(
        again,
        F.col("kind"),
        F.when(is_outcome, outcomes).otherwise(workers),
        severity=info_if(asked_again),
        explained=asked_again,
        about=2,
        at="ended",
    )


def _rejected_but_ran(rows: DataFrame) -> DataFrame:
    """Only if its client asked once: then whoever ran it did so for the broker that says REJECTED."""
    refused = rows.where(is_settled() & (F.col("outcome") == "REJECTED"))
    found = refused.where("asked = 1 AND ran IS NOT NULL").withColumn("worker", F.col("ran.worker"))
    words = "REJECTED at {broker}, but worker {worker} had it at {ran.broker}"
    return entries(found, "rejected_but_ran", words, at="ended")


def _tickets_used_twice(tasks: DataFrame) -> DataFrame:
    """A ticket stands for one attempt in the life of a dispatcher: two tasks, or two attempts, must not share one.

    A late answer brings its ticket back, so its row repeats it.
    """
    attempts = tasks.where(F.col("outcome") != "LATE").select(*_ATTEMPT)
    order = Window.partitionBy(*_LIFE, "ticket").orderBy("ended_hour", "ended", "message_id", "outcome")
    again = (
        attempts.distinct()
        .withColumn("ended_hour", hour_number("ended"))
        .select(
            "*",
            F.lag("message_id").over(order).alias("before_id"),
            F.lag("ended_hour").over(order).alias("before_hour"),
        )
        .where(F.col("before_hour") >= F.col("ended_hour") - 1)
    )
    return entries(again, "ticket_twice", "ticket {ticket} was used before, by task {before_id}", about=2, at="ended")
