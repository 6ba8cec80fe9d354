"""A ticket stands for one attempt in the life of a dispatcher: two tasks, or two attempts, must not have the same."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.tables.auditing.entry import entries
from famulus.pipeline.tables.columns import hour_number
from famulus.pipeline.tables.crowds import parted

_COLUMNS: Final = ("broker", "boot", "ticket", "message_id", "attempt", "service", "worker", "outcome", "ended")


def tickets_used_twice(tasks: DataFrame) -> DataFrame:
    """A late answer brings its ticket back, so its row repeats it."""
    attempts = tasks.where(F.col("outcome") != "LATE").select(*_COLUMNS)
    named = attempts.withColumn("name", F.xxhash64("broker", "boot", "ticket"))
    several = parted(named, "name")[1].drop("name").distinct().withColumn("ended_hour", hour_number(F.col("ended")))
    order = Window.partitionBy("broker", "boot", "ticket").orderBy("ended_hour", "ended", "message_id", "outcome")
    again = (
        several.select(
            "*",
            F.lag("message_id").over(order).alias("before_id"),
            F.lag("ended_hour").over(order).alias("before_hour"),
        )
        .where(F.col("before_hour") >= F.col("ended_hour") - 1)
        .withColumn("at", F.col("ended"))
    )
    return entries(
        again,
        "ticket_twice",
        severity=F.lit("error"),
        explained=F.lit(False),
        about=F.lit(2),
        words=F.format_string("ticket %s was used before, by task %s", F.col("ticket").cast("string"), "before_id"),
    )
