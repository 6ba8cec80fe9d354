"""Attempts that ended because a worker or a broker was lost."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.columns import hour_of, minute_of
from famulus.pipeline.tables.table import Grain, Table


def lost_attempts(tasks: DataFrame) -> DataFrame:
    outcome, of_worker = F.col("outcome"), F.col("reason") == "worker_lost"
    minute = minute_of(F.col("ended"))
    return (
        tasks.where(F.col("reason").isin("worker_lost", "broker_lost") & outcome.isin("RETRY", "UNKNOWN"))
        .select(
            *hour_of(minute),
            minute.alias("minute"),
            "broker",
            "family",
            F.when(of_worker, "worker").otherwise("broker").alias("lost_kind"),
            F.when(of_worker, F.col("worker")).otherwise(F.col("delegated_to")).alias("lost"),
            "service",
            "outcome",
        )
        .where(F.col("lost").isNotNull())
        .groupBy("date", "hour", "minute", "broker", "family", "lost_kind", "lost", "service")
        .agg(F.count_if(outcome == "RETRY").alias("retries"), F.count_if(outcome == "UNKNOWN").alias("unknown"))
    )


TABLE: Final = Table("lost_attempts", Grain.HOURLY, ("tasks",), lost_attempts)
