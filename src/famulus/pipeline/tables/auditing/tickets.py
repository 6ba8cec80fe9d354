"""A ticket stands for one attempt in the life of a dispatcher: two tasks, or two attempts, must not have the same."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.tables.auditing.entry import entries
from famulus.pipeline.tables.columns import hour_number
from famulus.pipeline.tables.hash_join import broadcast_if_few

_LIFE: Final = ("broker", "boot")
_COLUMNS: Final = (*_LIFE, "ticket", "message_id", "attempt", "service", "worker", "outcome", "ended")


def tickets_used_twice(tasks: DataFrame) -> DataFrame:
    """A late answer brings its ticket back, so its row repeats it."""
    attempts = tasks.where(F.col("outcome") != "LATE").select(*_COLUMNS).withColumn("word", F.shiftright("ticket", 6))
    several = attempts.join(broadcast_if_few(_words_with_repeats(attempts)), on=[*_LIFE, "word"], how="left_semi")
    order = Window.partitionBy(*_LIFE, "ticket").orderBy("ended_hour", "ended", "message_id", "outcome")
    again = (
        several.distinct()
        .withColumn("ended_hour", hour_number(F.col("ended")))
        .select(
            "*",
            F.lag("message_id").over(order).alias("before_id"),
            F.lag("ended_hour").over(order).alias("before_hour"),
        )
        .where(F.col("before_hour") >= F.col("ended_hour") - 1)
    )
    return entries(again, "ticket_twice", "ticket {ticket} was used before, by task {before_id}", about=2, at="ended")


def _words_with_repeats(attempts: DataFrame) -> DataFrame:
    """Tickets are consecutive numbers: 64 of them are the bits of one word, and few words have more rows than bits.

    So the rows of all others need not be moved in order to find that nobody has the same ticket.
    """
    bit = F.expr("shiftleft(1L, CAST(ticket & 63 AS INT))")
    return (
        attempts.groupBy(*_LIFE, "word")
        .agg(F.bit_or(bit).alias("bits"), F.count("*").alias("rows"))
        .where(F.bit_count("bits") < F.col("rows"))
        .select(*_LIFE, "word")
    )
