"""What each worker did for each service, hour by hour."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.columns import hour_of, is_run, no_histogram, sum_if
from famulus.pipeline.tables.histograms import counted
from famulus.pipeline.tables.table import Grain, Table

_KEYS: Final = ("date", "hour", "worker", "service", "family", "broker")


def worker_hours(tasks: DataFrame) -> DataFrame:
    outcome = F.col("outcome")
    rows = tasks.where(F.col("worker").isNotNull()).select("*", *hour_of(F.col("ended")))
    counts = rows.groupBy(*_KEYS).agg(
        F.count_if(is_run()).alias("tasks"),
        F.count_if(is_run() & (outcome == "OK")).alias("ok"),
        F.count_if(is_run() & (outcome == "ERROR")).alias("errors"),
        F.count_if(is_run() & (outcome == "UNKNOWN")).alias("unknown"),
        F.count_if(is_run() & (outcome == "RETRY")).alias("retries"),
        F.count_if(outcome == "LATE").alias("late"),
        sum_if(F.col("service_ns"), is_run()).alias("busy_ns"),
    )
    # Only what it answered: a time-out says nothing about how long it would have taken.
    answered = F.when(is_run() & outcome.isin("OK", "ERROR"), F.col("service_ns"))
    histograms = counted(rows, _KEYS, {"service_hist": answered})
    return counts.join(histograms, on=list(_KEYS), how="left").withColumn(
        "service_hist", F.coalesce(F.col("service_hist"), no_histogram())
    )


TABLE: Final = Table("worker_hours", Grain.HOURLY, ("tasks",), worker_hours)
