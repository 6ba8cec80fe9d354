"""How many slots each service needs, by the hour of the day."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.erlang import slots_needed, wait_share

WAIT_S: Final = 0.1
WAIT_SHARE: Final = 0.05
_HOUR_US: Final = 3_600_000_000
_KEYS: Final = ("service", "family", "date", "hour")
#: Columns of what it is made of.
WANTED: Final = {
    "service_hours": (*_KEYS, "runs", "overloaded", "busy_ns"),
    "service_loads": (*_KEYS, "samples", "slots_sum"),
}


def capacity(service_hours: DataFrame, service_loads: DataFrame) -> DataFrame:
    return (
        _offered(service_hours)
        .join(_slots(service_loads), on=list(_KEYS), how="left")
        .transform(_by_hour_of_day)
        .transform(_with_needs)
    )


def _offered(service_hours: DataFrame) -> DataFrame:
    """`offered_us`: slot time that was asked for. What was refused for lack of a slot would have taken as long as any.

    In whole microseconds, which add up to the same in any order.
    """
    each_us = F.coalesce(F.try_divide(F.col("busy_us"), F.col("runs")).cast("long"), F.lit(0).cast("long"))
    busy_us = F.floor(F.sum("busy_ns") / 1000).alias("busy_us")
    return (
        service_hours.groupBy(*_KEYS)
        .agg(F.sum("runs").alias("runs"), F.sum("overloaded").alias("overloaded"), busy_us)
        .where(F.col("runs") > 0)
        .withColumn("offered_us", F.col("busy_us") + F.col("overloaded") * each_us)
    )


def _slots(service_loads: DataFrame) -> DataFrame:
    """Thousandths of slots, for the same reason."""
    milli = F.try_divide(F.col("slots_sum") * 1000, F.col("samples")).cast("long")
    return service_loads.groupBy(*_KEYS).agg(F.sum(milli).alias("slots_milli"))


def _by_hour_of_day(hours: DataFrame) -> DataFrame:
    days = F.count("*")
    return hours.groupBy("service", "family", F.col("hour").alias("hour_of_day")).agg(
        days.cast("int").alias("days"),
        F.sum("runs").alias("runs"),
        ((F.sum("runs") + F.sum("overloaded")) / days / 3600).alias("rate"),
        (F.sum("busy_us") / F.sum("runs") / 1e6).alias("service_s"),
        (F.sum("offered_us") / days / _HOUR_US).alias("erlangs"),
        (F.max("offered_us") / _HOUR_US).alias("erlangs_peak"),
        (F.try_divide(F.sum("slots_milli"), F.count("slots_milli")) / 1000).alias("slots"),
    )


def _with_needs(rows: DataFrame) -> DataFrame:
    needed = slots_needed("erlangs_peak", "service_s", wait_s=WAIT_S, share=WAIT_SHARE)
    whole = F.floor("slots").cast("int")
    return rows.withColumns(
        {
            "busy_share": F.try_divide("erlangs", "slots"),
            "wait_share": wait_share("erlangs_peak", "floor(slots)"),
            "slots_needed": needed,
        }
    ).withColumn("slots_missing", F.when(whole.isNotNull(), F.greatest(F.lit(0), F.col("slots_needed") - whole)))
