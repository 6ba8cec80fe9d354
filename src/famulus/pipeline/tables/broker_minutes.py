"""How loaded each broker was, minute by minute, and what befell it."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.tables.columns import hour_number, hour_of, is_dispatcher_death, minute_of, sum_if, total
from famulus.pipeline.tables.spark_types import union_all
from famulus.pipeline.tables.table import Grain, Table

_KEYS: Final = ("broker", "family", "minute")
_COUNTS: Final = (
    "load_samples", "saturated_s", "delegated", "peers_lost", "process_deaths", "dispatcher_deaths", "overloads",
    "gaps", "gap_rows",
)  # fmt: skip


def broker_minutes(brokers: DataFrame, peers: DataFrame) -> DataFrame:
    parts = [_loads(brokers), _events(brokers), _overloads(brokers), _peers(peers)]
    # One under the other and then summed, and not side by side: a minute may be in any of them.
    sums = (
        union_all(parts)
        .groupBy(*_KEYS)
        .agg(
            *[total(F.col(name)).alias(name) for name in (*_COUNTS, "slots_sum", "busy_sum", "backlog_sum")],
            F.max("backlog_max").alias("backlog_max"),
        )
    )
    samples = F.col("load_samples")
    return sums.select(
        *hour_of(F.col("minute")),
        *_KEYS,
        *_COUNTS,
        "backlog_max",
        F.try_divide("slots_sum", samples).alias("slots"),
        F.try_divide("busy_sum", samples).alias("slots_busy"),
        F.try_divide("busy_sum", "slots_sum").alias("busy_share"),
        F.try_divide("backlog_sum", samples).alias("backlog"),
    )


def _loads(brokers: DataFrame) -> DataFrame:
    free, busy = F.coalesce("slots_free", F.lit(0)), F.coalesce("slots_busy", F.lit(0))
    backlog = F.coalesce("backlog", F.lit(0))
    seconds = (
        brokers.where(F.col("event") == "load")
        .groupBy("broker", "family", F.date_trunc("second", "at").alias("second"))
        .agg(
            total(free + busy).alias("slots"),
            total(busy).alias("busy"),
            total(backlog).alias("backlog"),
            F.max(((free == 0) & (backlog > 0)).cast("long")).alias("saturated"),
        )
    )
    return seconds.groupBy("broker", "family", minute_of(F.col("second")).alias("minute")).agg(
        F.count("*").alias("load_samples"),
        total(F.col("slots")).alias("slots_sum"),
        total(F.col("busy")).alias("busy_sum"),
        total(F.col("backlog")).alias("backlog_sum"),
        F.max("backlog").alias("backlog_max"),
        total(F.col("saturated")).alias("saturated_s"),
    )


def _events(brokers: DataFrame) -> DataFrame:
    event = F.col("event")
    died, gap = event == "process_died", event == "gap"
    return (
        brokers.where(died | gap)
        .groupBy("broker", "family", minute_of(F.col("at")).alias("minute"))
        .agg(
            F.count_if(died).alias("process_deaths"),
            F.count_if(is_dispatcher_death()).alias("dispatcher_deaths"),
            F.count_if(gap).alias("gaps"),
            sum_if(F.col("rows"), gap).alias("gap_rows"),
        )
    )


def _overloads(brokers: DataFrame) -> DataFrame:
    """One row per minute with the number of services that are between overload_on and overload_off.

    Without an end it lasts until the broker's last sign of life. None of this is looked for beyond the next hour: the
    hour after that would not see the begin.
    """
    order = Window.partitionBy("broker", "service").orderBy("at", "event")
    lives = (
        brokers.groupBy("broker", hour_number(F.col("at")).alias("life_hour"))
        .agg(F.max("at").alias("life_at"))
        .select("broker", F.explode(F.array(F.col("life_hour"), F.col("life_hour") - 1)).alias("on_hour"), "life_at")
        .groupBy("broker", "on_hour")
        .agg(F.max("life_at").alias("life_at"))
    )
    return (
        brokers.where(F.col("event").isin("overload_on", "overload_off") & F.col("service").isNotNull())
        .select("broker", "family", "service", "event", "at", hour_number(F.col("at")).alias("on_hour"))
        .withColumn("off_at", F.lead("at").over(order))
        .where(F.col("event") == "overload_on")
        .join(lives, on=["broker", "on_hour"], how="inner")
        .withColumn("until", F.least("off_at", "life_at"))
        .select("broker", "family", "service", F.explode(_minutes("at", "until")).alias("minute"))
        .groupBy("broker", "family", "minute")
        .agg(F.count_distinct("service").alias("overloads"))
    )


def _minutes(first: str, last: str) -> Column:
    return F.sequence(minute_of(F.col(first)), minute_of(F.col(last)), F.expr("interval 1 minute"))


def _peers(peers: DataFrame) -> DataFrame:
    event = F.col("event")
    return (
        peers.where(event.isin("lost", "delegated"))
        .groupBy("broker", "family", minute_of(F.col("at")).alias("minute"))
        .agg(
            F.count_if(event == "lost").alias("peers_lost"),
            sum_if(F.col("tasks"), event == "delegated").alias("delegated"),
        )
    )


TABLE: Final = Table("broker_minutes", Grain.HOURLY, ("brokers", "peers"), broker_minutes, neighbours=True)
