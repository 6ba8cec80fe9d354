"""What is known of each life of a broker: sums over the rows of its tasks, its events, and its last signs of life.

Not a table: rules of the audit and other tables share it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.columnar import sums
from famulus.pipeline.tables.columns import hour_number, hours_around, is_dispatcher_death
from famulus.pipeline.tables.hourly import computed
from famulus.pipeline.tables.memo import cached, memo


@memo
def lives(tasks: DataFrame) -> DataFrame:
    """`at`: the last end; `longest_ns`: the longest time of tasks that ended; of numbered rows the `low` and `high`
    number, their `count` and `first` end. All in one pass over the tasks."""
    return computed(tasks, sums.LIFE_COLUMNS, sums.of_lives, sums.LIVES)


@memo
def broker_events(brokers: DataFrame) -> DataFrame:
    """All rows but those of the load, which are written every second: what is left is little, and used often."""
    return cached(brokers.where(F.col("event") != "load"))


@memo
def signs(tasks: DataFrame, brokers: DataFrame) -> DataFrame:
    """`at`: the last row of any kind that a life wrote in an hour; `ended`: whether it reported its end there."""
    ended = (F.col("event") == "stop") | is_dispatcher_death()
    rows = lives(tasks).select("broker", "boot", "at", F.lit(False).alias("ended"))
    rows = rows.unionByName(brokers.select("broker", "boot", "at", ended.alias("ended")))
    last = rows.groupBy("broker", "boot", hour_number("at").alias("own_hour")).agg(
        F.max("at").alias("at"), F.max("ended").alias("ended")
    )
    return cached(last.drop("own_hour"))


def last_signs(tasks: DataFrame, brokers: DataFrame, keys: list[str], hour: str, *, after: int = 1) -> DataFrame:
    """`alive_at`: the last row of any kind in an hour and those next to it, by `keys`; `hour` names the column of that
    hour."""
    return (
        signs(tasks, brokers)
        .select(*keys, "at", hours_around("at", after=after).alias(hour))
        .groupBy(*keys, hour)
        .agg(F.max("at").alias("alive_at"))
    )
