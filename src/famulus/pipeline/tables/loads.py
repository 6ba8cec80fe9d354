"""How loaded each service was at each broker, hour by hour; and each broker, minute by minute, with its events."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.tables.column_types import union_all
from famulus.pipeline.tables.columns import hour_number, hour_of, is_dispatcher_death, minute_of, minutes_between, total
from famulus.pipeline.tables.lives import broker_events

_KEYS: Final = ("broker", "family", "minute")
_COUNTS: Final = (
    "load_samples", "saturated_s", "delegated", "peers_lost", "process_deaths", "dispatcher_deaths", "overloads",
    "gaps", "gap_rows",
)  # fmt: skip


def service_loads(brokers: DataFrame) -> DataFrame:
    """How many slots each service had at each broker, hour by hour, how busy they were, and its objective."""
    free, busy, backlog = _slots()
    objective = F.col("event") == "objective"
    # Rows of objectives have no slots and no backlog, so they add nothing to the sums.
    rows = brokers.where(F.col("event").isin("load", "objective") & F.col("service").isNotNull())
    return (
        rows.groupBy(*hour_of("at"), "service", "family", "broker")
        .agg(
            F.count_if(~objective).alias("samples"),
            total(free + busy).alias("slots_sum"),
            total(busy).alias("busy_sum"),
            total(backlog).alias("backlog_sum"),
            F.max(free + busy).alias("slots_max"),
            F.max(backlog).alias("backlog_max"),
            F.count_if((free == 0) & (backlog > 0)).alias("saturated_s"),
            F.max(F.when(objective, F.struct("at", "detail"))).alias("told"),
        )
        .withColumns({"objective": F.col("told.detail"), "objective_told": F.col("told.at")})
    )


def _slots() -> tuple[Column, Column, Column]:
    """Free slots, busy slots and tasks that wait for one."""
    free, busy, backlog = (F.coalesce(name, F.lit(0)) for name in ("slots_free", "slots_busy", "backlog"))
    return free, busy, backlog


def broker_minutes(brokers: DataFrame, peers: DataFrame) -> DataFrame:
    events = broker_events(brokers)
    parts = [_loads(brokers), _events(events), _overloads(events, brokers), _peers(peers)]
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


def _loads(brokers: DataFrame) -> DataFrame:
    free, busy, backlog = _slots()
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
    return seconds.groupBy("broker", "family", minute_of("second").alias("minute")).agg(
        F.count("*").alias("load_samples"),
        *[total(name).alias(f"{name}_sum") for name in ("slots", "busy", "backlog")],
        F.max("backlog").alias("backlog_max"),
        total("saturated").alias("saturated_s"),
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
        brokers.groupBy("broker", hour_number("at").alias("life_hour"))
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
