"""Sums over the tasks' rows of each life of a broker, by hour and service. No table: rules of the audit share it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.columns import hour_number, hours_around, is_final
from famulus.pipeline.tables.hash_join import in_one_partition
from famulus.pipeline.tables.memo import cached, memo


@memo
def lives(tasks: DataFrame) -> DataFrame:
    """`at`: the last end; `longest_ns`: of tasks that ended; of numbered rows the `low` and `high` number, `count` and
    `first` end. All in one reading of the tasks."""
    row = F.col("row")
    sums = tasks.groupBy("broker", "boot", "service", hour_number("ended").alias("hour_number")).agg(
        F.max("ended").alias("at"),
        F.max(F.when(is_final(), F.col("total_ns"))).alias("longest_ns"),
        F.min(row).alias("low"),
        F.max(row).alias("high"),
        F.count(row).alias("count"),
        F.min(F.when(row.isNotNull(), F.col("ended"))).alias("first"),
    )
    return cached(in_one_partition(sums))


def last_signs(tasks: DataFrame, brokers: DataFrame, keys: list[str], hour: str, *, after: int = 1) -> DataFrame:
    """`alive_at`: the last row of whatever kind in an hour and those next to it, by `keys`; `hour` is that of the row
    that asks."""
    signs = lives(tasks).select("broker", "boot", "at").unionByName(brokers.select("broker", "boot", "at"))
    return (
        signs.groupBy(*keys, hour_number("at").alias("own_hour"))
        .agg(F.max("at").alias("at"))
        .select(*keys, "at", hours_around("at", after=after).alias(hour))
        .groupBy(*keys, hour)
        .agg(F.max("at").alias("alive_at"))
    )
