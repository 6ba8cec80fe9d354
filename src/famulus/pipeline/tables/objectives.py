"""How each service that has an objective meets it, hour by hour, and what is left of its budget for bad tasks.

Made of minutes and their histograms, not of tasks. The histogram of all tasks does not say which of them were OK; but
there is one of those that were not, and without these it is that of the OK ones. A limit lies within a bucket, and what
is in that bucket counts as in time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F

from famulus.pipeline.histogram import BUCKETS_PER_E_FOLD
from famulus.pipeline.tables import schemas
from famulus.pipeline.tables.column_types import struct_of
from famulus.pipeline.tables.error_budget import BAD_MIN, FAST, SLOW, BurnAlarm, Objective, ToldObjective, in_force
from famulus.pipeline.tables.frames import newest_us

#: Columns of `service_minutes`.
WANTED: Final = ("date", "service", "minute", "tasks", "ok", "total_hist", "not_ok_hist")
#: Brokers tell their objectives once a day.
TOLD_DAYS: Final = 3
_KEYS: Final = ("service", "share", "within_ms", "days")


def objectives(service_loads: DataFrame, service_minutes: DataFrame) -> DataFrame:
    spark = service_minutes.sparkSession
    found, end_us = _in_force(service_loads, service_minutes)
    if not found:
        # Most services have none, and what is not planned takes no time.
        return spark.createDataFrame([], struct_of(schemas.TABLES["objectives"]))
    return (
        service_minutes.join(F.broadcast(_frame(spark, found)), on="service", how="inner")
        .where((F.col("minute") > _before_the_days(end_us, SLOW.long_minutes)) & (F.col("tasks") > 0))
        .transform(_minutes)
        .transform(_with_alarms)
        .transform(_hours)
        .where(F.col("at") > _before_the_days(end_us))
        .transform(with_budget)
    )


def still_hold(old: DataFrame, service_loads: DataFrame, service_minutes: DataFrame) -> DataFrame | None:
    """Of older rows those of the days up to now; None if there is an objective that they know nothing of."""
    found, end_us = _in_force(service_loads, service_minutes)
    wanted = {(service, each.share, each.within_ms, each.days) for service, each in found.items()}
    if wanted - {tuple(row) for row in old.select(*_KEYS).distinct().collect()}:
        return None
    return old.where(F.col("service").isin(*found) & (F.col("at") > _before_the_days(end_us)))


def _in_force(service_loads: DataFrame, service_minutes: DataFrame) -> tuple[dict[str, Objective], int]:
    """And the newest minute."""
    told = _told(service_loads)
    end_us = newest_us(service_minutes, "minute") if told else None
    return ({}, 0) if end_us is None else (in_force(told, end_us), end_us)


def _told(service_loads: DataFrame) -> list[ToldObjective]:
    """The latest of each service."""
    at_us = F.unix_micros("objective_told").alias("at_us")
    latest = F.max(F.struct(at_us, "objective")).alias("latest")
    rows = service_loads.where("objective IS NOT NULL").groupBy("service").agg(latest).collect()
    return [ToldObjective(row.service, row.latest.objective, row.latest.at_us) for row in rows]


def _frame(spark: SparkSession, found: Mapping[str, Objective]) -> DataFrame:
    columns = {
        "service": pa.array(found, pa.string()),
        "share": pa.array([each.share for each in found.values()], pa.float64()),
        "within_ms": pa.array([each.within_ms for each in found.values()], pa.int64()),
        "days": pa.array([each.days for each in found.values()], pa.int32()),
        "last_good": pa.array([each.last_good_bucket(BUCKETS_PER_E_FOLD) for each in found.values()], pa.int32()),
    }
    return spark.createDataFrame(pa.table(columns))


def _before_the_days(end_us: int, minutes: int = 0) -> Column:
    """The last instant before the days of an objective, which begin with a full hour; or so many minutes before it."""
    end = F.date_trunc("hour", F.timestamp_micros(F.lit(end_us)))
    return end - F.make_dt_interval(days=F.col("days"), mins=F.lit(minutes))


def _minutes(rows: DataFrame) -> DataFrame:
    """Over all brokers. A histogram of an older pipeline is missing: then what was late and not OK counts for an OK
    one, too, but no more tasks are bad than there are."""
    late_but_ok = _beyond("total_hist") - _beyond("not_ok_hist")
    bad = F.col("tasks") - F.col("ok") + F.least(F.col("ok"), late_but_ok)
    return rows.groupBy(*_KEYS, "minute").agg(F.sum("tasks").alias("tasks"), F.sum(bad).alias("bad"))


def _beyond(histogram: str) -> Column:
    """How many of its values took longer than is good; where any time is good, none did."""
    late = f"coalesce(filter({histogram}, entry -> entry.bucket > last_good), array())"
    return F.expr(f"aggregate({late}, 0L, (seen, entry) -> seen + entry.count)")


def _with_alarms(minutes: DataFrame) -> DataFrame:
    so_far = _until(0)
    return minutes.withColumns({f"all_{name}": F.sum(name).over(so_far) for name in ("tasks", "bad")}).withColumns(
        {"fast": _burns(FAST), "slow": _burns(SLOW)}
    )


def _burns(alarm: BurnAlarm) -> Column:
    too_many = alarm.rate * (1 - F.col("share"))
    reached = [
        _within("bad", each) >= too_many * _within("tasks", each) for each in (alarm.long_minutes, alarm.short_minutes)
    ]
    return reached[0] & reached[1] & (_within("bad", alarm.long_minutes) >= BAD_MIN)


def _within(name: str, minutes: int) -> Column:
    """Of the last minutes: what there was so far, less what there was before them. Spark would add up all of them anew
    for every minute."""
    before = F.max(f"all_{name}").over(_until(-60 * minutes))
    return F.col(f"all_{name}") - F.coalesce(before, F.lit(0))


def _until(seconds: int) -> WindowSpec:
    by_minute = Window.partitionBy("service").orderBy(F.unix_seconds("minute"))
    return by_minute.rangeBetween(Window.unboundedPreceding, seconds)


def _hours(minutes: DataFrame) -> DataFrame:
    return minutes.groupBy(*_KEYS, F.date_trunc("hour", "minute").alias("at")).agg(
        F.sum("tasks").alias("tasks"),
        F.sum("bad").alias("bad"),
        F.count_if("fast").alias("fast_minutes"),
        F.count_if("slow").alias("slow_minutes"),
    )


def with_budget(hours: DataFrame) -> DataFrame:
    so_far = Window.partitionBy("service").orderBy("at").rowsBetween(Window.unboundedPreceding, 0)
    may_be_bad = 1 - F.col("share")
    return hours.withColumns(
        {
            "good": F.col("tasks") - F.col("bad"),
            "burn_rate": F.col("bad") / F.col("tasks") / may_be_bad,
            "burnt": F.sum("bad").over(so_far) / F.sum("tasks").over(so_far) / may_be_bad,
        }
    )
