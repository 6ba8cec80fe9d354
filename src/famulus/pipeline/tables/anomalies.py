"""Minutes of a service that are not as usual: beside the same hour of the day in the last two weeks.

Median and median distance (MAD) instead of mean and deviation: a few bad minutes must not make themselves normal. The
distance has a floor for each measure, since what is small jumps about without meaning anything. For errors that is not
enough, since of few tasks the share jumps further than any floor: see `error_bursts`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.tables import schemas
from famulus.pipeline.tables.error_bursts import error_bursts
from famulus.pipeline.tables.table import Grain, Table

DAYS: Final = 14
#: How many times the usual distance is too far.
SCORE_MIN: Final = 6.0
#: What a normal distribution's deviation is of its MAD.
MAD_TO_DEVIATION: Final = 1.4826
#: Minutes that an hour of the day must have had, and tasks that a minute must have for percentiles.
_COLUMNS: Final = [column.name for column in schemas.TABLES["anomalies"]]
MINUTES_MIN: Final = 20
TASKS_MIN: Final = 20


def anomalies(service_minutes: DataFrame) -> DataFrame:
    minutes = service_minutes.transform(_recent).transform(_over_brokers).transform(_with_silent_minutes)
    far = (
        minutes.transform(_by_measure)
        .transform(_with_baseline)
        .transform(_with_score)
        .where(F.abs("score") >= SCORE_MIN)
        .select(*_COLUMNS)
    )
    return far.unionByName(minutes.transform(_failing))


def _failing(minutes: DataFrame) -> DataFrame:
    return (
        error_bursts(minutes, SCORE_MIN, MAD_TO_DEVIATION)
        .withColumns(
            {
                "measure": F.lit("error_share"),
                "direction": F.lit("high"),
                "baseline": F.round("usual", 6),
                "spread": F.round("distance", 6),
                "score": F.round("score", 3),
            }
        )
        .select(*_COLUMNS)
    )


def _recent(service_minutes: DataFrame) -> DataFrame:
    newest = service_minutes.agg(F.max("date").alias("newest"))
    recent = F.col("date") > F.date_sub("newest", DAYS)
    return service_minutes.join(F.broadcast(newest), on=recent, how="inner")


def _over_brokers(rows: DataFrame) -> DataFrame:
    steady = F.when(F.col("tasks") >= TASKS_MIN, F.col("total_p99_ns"))
    return rows.groupBy("service", "minute").agg(
        F.sum("tasks").alias("tasks"),
        F.sum(F.col("errors") + F.col("unknown")).alias("bad"),
        F.max(steady).alias("p99"),
    )


def _with_silent_minutes(rows: DataFrame) -> DataFrame:
    """A minute without a task has no row, and may be the most telling of all."""
    spans = rows.groupBy("service").agg(F.min("minute").alias("first"))
    last = rows.agg(F.max("minute").alias("last"))
    every = F.sequence("first", "last", F.expr("interval 1 minute"))
    return (
        spans.crossJoin(F.broadcast(last))
        .where(F.col("last").isNotNull())
        .select("service", F.explode(every).alias("minute"))
        .join(rows, on=["service", "minute"], how="left")
        .fillna(0, ["tasks", "bad"])
    )


def _by_measure(rows: DataFrame) -> DataFrame:
    """One row per minute and measure. `scaled` is what is compared: times by their logarithm."""
    tasks, p99 = F.col("tasks").cast("double"), F.col("p99").cast("double")
    measures = F.array(_measure("rate", tasks, tasks), _measure("p99_ns", p99, F.ln(p99 + 1)))
    return (
        rows.select(
            "service", "minute", "tasks", F.hour("minute").alias("hour_of_day"), F.explode(measures).alias("each")
        )
        .select("service", "minute", "tasks", "hour_of_day", "each.*")
        .where(F.col("value").isNotNull())
    )


def _measure(name: str, value: Column, scaled: Column) -> Column:
    return F.struct(F.lit(name).alias("measure"), value.alias("value"), scaled.alias("scaled"))


def _with_baseline(rows: DataFrame) -> DataFrame:
    """Two passes: the median, then the median of the distances from it."""
    alike = Window.partitionBy("service", "hour_of_day", "measure")
    return (
        rows.select("*", F.median("scaled").over(alike).alias("middle"), F.count("*").over(alike).alias("minutes"))
        .where(F.col("minutes") >= MINUTES_MIN)
        .withColumn("mad", F.median(F.abs(F.col("scaled") - F.col("middle"))).over(alike))
    )


def _with_score(rows: DataFrame) -> DataFrame:
    measure, middle = F.col("measure"), F.col("middle")
    # Of n tasks that come by chance, the square root of n is noise; and a handful is never news.
    floor = F.when(measure == "rate", F.greatest(F.lit(2.0), F.sqrt(F.greatest(middle, F.lit(0.0))))).otherwise(
        F.lit(0.1)
    )
    distance = F.greatest(F.col("mad") * MAD_TO_DEVIATION, floor)
    score = (F.col("scaled") - middle) / distance
    # A service that answers faster than it used to is nobody's trouble.
    counted = F.when((measure == "rate") | (score > 0), score).otherwise(F.lit(0.0))
    is_time = measure == "p99_ns"
    baseline = F.when(is_time, F.exp(middle) - 1).otherwise(middle)
    return rows.withColumns(
        {
            "score": F.round(counted, 3),
            "baseline": F.round(baseline, 6),
            "spread": F.round(F.when(is_time, (baseline + 1) * (F.exp(distance) - 1)).otherwise(distance), 6),
            "direction": F.when(score > 0, "high").otherwise("low"),
        }
    )


_WANTED: Final = ("date", "service", "minute", "tasks", "errors", "unknown", "total_p99_ns")
TABLE: Final = Table("anomalies", Grain.WHOLE, ("service_minutes",), anomalies, wants={"service_minutes": _WANTED})
