"""What is known of each life of a broker: sums over the rows of its tasks, its events, and its last signs of life.

Not a table: rules of the audit and other tables share it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.columnar import brokers as of_brokers
from famulus.pipeline.columnar import sums
from famulus.pipeline.tables.columns import hour_number, hours_around
from famulus.pipeline.tables.frames import to_spark
from famulus.pipeline.tables.hourly import computed
from famulus.pipeline.tables.memo import cached, memo


@memo
def lives(tasks: DataFrame) -> DataFrame:
    """`at`: the last end; `longest_ns`: the longest time of tasks that ended; of numbered rows the `low` and `high`
    number, their `count` and `first` end. All in one pass over the tasks."""
    return to_spark(tasks.sparkSession, computed(tasks, sums.LIFE_COLUMNS, sums.of_lives, sums.LIVES))


@memo
def broker_events(brokers: DataFrame) -> DataFrame:
    """All rows but those of the load, which are written every second: what is left is little, and used often."""
    return to_spark(
        brokers.sparkSession, computed(brokers, of_brokers.EVENTS.names, of_brokers.events, of_brokers.EVENTS)
    )


@memo
def broker_signs(brokers: DataFrame) -> DataFrame:
    """`at`: the last row that a life wrote about itself in an hour; `ended`: whether it reported its end there."""
    return to_spark(
        brokers.sparkSession, computed(brokers, of_brokers.SIGN_COLUMNS, of_brokers.of_signs, of_brokers.SIGNS)
    )


@memo
def signs(tasks: DataFrame, brokers: DataFrame) -> DataFrame:
    """The same, with its rows of tasks."""
    rows = lives(tasks).select("broker", "boot", "at", F.lit(False).alias("ended")).unionByName(broker_signs(brokers))
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
