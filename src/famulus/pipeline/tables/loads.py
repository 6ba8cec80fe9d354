"""How loaded each service was at each broker, hour by hour; and each broker, minute by minute, with its events."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.columnar import brokers as of_brokers
from famulus.pipeline.tables import schemas
from famulus.pipeline.tables.column_types import arrow_schema, union_all
from famulus.pipeline.tables.columns import hour_number, hour_of, is_dispatcher_death, minute_of, minutes_between, total
from famulus.pipeline.tables.frames import to_spark
from famulus.pipeline.tables.hourly import computed
from famulus.pipeline.tables.lives import broker_events, broker_signs

_KEYS: Final = ("broker", "family", "minute")
_COUNTS: Final = (
    "load_samples", "saturated_s", "delegated", "peers_lost", "process_deaths", "dispatcher_deaths", "overloads",
    "gaps", "gap_rows",
)  # fmt: skip
_SERVICES: Final = arrow_schema(schemas.TABLES["service_loads"])


def service_loads(brokers: DataFrame) -> pa.Table | DataFrame:
    """How many slots each service had at each broker, hour by hour, how busy they were, and its objective."""
    return computed(brokers, of_brokers.SERVICE_COLUMNS, of_brokers.of_services, _SERVICES)


def broker_minutes(brokers: DataFrame, peers: DataFrame) -> DataFrame:
    events = broker_events(brokers)
    loads = computed(brokers, of_brokers.LOAD_COLUMNS, of_brokers.of_loads, of_brokers.LOADS, by_minute=True)
    parts = [to_spark(brokers.sparkSession, loads), _events(events), _overloads(events, brokers), _peers(peers)]
    # A union that is then summed, and not a join: a minute may be in any of them.
    sums = (
        union_all(parts)
        .groupBy(*_KEYS)
        .agg(
            *[total(name).alias(name) for name in (*_COUNTS, "slots_sum", "busy_sum", "backlog_sum")],
            F.max("backlog_max").alias("backlog_max"),
        )
    )
    samples = F.col("load_samples")
    return sums.select(
        *hour_of("minute"),
        *_KEYS,
        *_COUNTS,
        "backlog_max",
        F.try_divide("slots_sum", samples).alias("slots"),
        F.try_divide("busy_sum", samples).alias("slots_busy"),
        F.try_divide("busy_sum", "slots_sum").alias("busy_share"),
        F.try_divide("backlog_sum", samples).alias("backlog"),
    )


def _events(events: DataFrame) -> DataFrame:
    event = F.col("event")
    died, gap = event == "process_died", event == "gap"
    return (
        events.where(died | gap)
        .groupBy("broker", "family", minute_of("at").alias("minute"))
        .agg(
            F.count_if(died).alias("process_deaths"),
            F.count_if(is_dispatcher_death()).alias("dispatcher_deaths"),
            F.count_if(gap).alias("gaps"),
            total(F.when(gap, F.col("rows"))).alias("gap_rows"),
        )
    )


def _overloads(events: DataFrame, brokers: DataFrame) -> DataFrame:
    """One row per minute with the number of services that are between overload_on and overload_off.

    Without an end it lasts until the broker's last sign of life. None of this is looked for beyond the next hour: the
    hour after that would not see the start.
    """
    order = Window.partitionBy("broker", "service").orderBy("at", "event")
    lives = (
        broker_signs(brokers)
        .groupBy("broker", hour_number("at").alias("life_hour"))
        .agg(F.max("at").alias("life_at"))
        .select("broker", F.explode(F.array(F.col("life_hour"), F.col("life_hour") - 1)).alias("on_hour"), "life_at")
        .groupBy("broker", "on_hour")
        .agg(F.max("life_at").alias("life_at"))
    )
    return (
        events.where(F.col("event").isin("overload_on", "overload_off") & F.col("service").isNotNull())
        .select("broker", "family", "service", "event", "at", hour_number("at").alias("on_hour"))
        .withColumn("off_at", F.lead("at").over(order))
        .where(F.col("event") == "overload_on")
        .join(lives, on=["broker", "on_hour"], how="inner")
        .withColumn("until", F.least("off_at", "life_at"))
        .select("broker", "family", "service", F.explode(minutes_between("at", "until")).alias("minute"))
        .groupBy("broker", "family", "minute")
        .agg(F.count_distinct("service").alias("overloads"))
    )


def _peers(peers: DataFrame) -> DataFrame:
    event = F.col("event")
    return (
        peers.where(event.isin("lost", "delegated"))
        .groupBy("broker", "family", minute_of("at").alias("minute"))
        .agg(
            F.count_if(event == "lost").alias("peers_lost"),
            total(F.when(event == "delegated", F.col("tasks"))).alias("delegated"),
        )
    )
