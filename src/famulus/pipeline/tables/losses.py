"""What brokers lost: workers, peers and their own dispatchers; and the attempts that ended because of that."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.column_types import union_all
from famulus.pipeline.tables.columns import hour_of, is_dispatcher_death, minute_of


def losses(workers: DataFrame, brokers: DataFrame, peers: DataFrame) -> DataFrame:
    """Each time that a broker lost a worker or a peer, or its own dispatcher."""
    event = F.col("event")
    names = F.array_sort(F.array_remove(F.split("services", "\n"), ""))
    none = F.array().cast("array<string>")
    found = [
        _rows(workers.where(event == "lost"), "worker_lost", F.col("worker"), names, F.coalesce("tasks", F.lit(0))),
        _rows(brokers.where(is_dispatcher_death()), "dispatcher_died", F.col("broker"), none, F.lit(0)),
        _rows(peers.where(event == "lost"), "peer_lost", F.col("peer"), none, F.lit(0)),
    ]
    return union_all(found)


def _rows(rows: DataFrame, kind: str, lost: Column, services: Column, tasks: Column) -> DataFrame:
    said = {"kind": F.lit(kind), "lost": lost, "services": services, "tasks": tasks.cast("long")}
    return rows.withColumns(said).select(*hour_of("at"), "at", "broker", "family", *said)


def lost_attempts(tasks: DataFrame) -> DataFrame:
    """Attempts that ended because a worker or a broker was lost."""
    outcome, of_worker = F.col("outcome"), F.col("reason") == "worker_lost"
    kind = F.when(of_worker, "worker").otherwise("broker")
    lost = F.when(of_worker, F.col("worker")).otherwise(F.col("delegated_to"))
    return (
        tasks.where(F.col("reason").isin("worker_lost", "broker_lost") & outcome.isin("RETRY", "UNKNOWN"))
        .withColumns({"minute": minute_of("ended"), "lost_kind": kind, "lost": lost})
        .where(F.col("lost").isNotNull())
        .groupBy(*hour_of("minute"), "minute", "broker", "family", "lost_kind", "lost", "service")
        .agg(F.count_if(outcome == "RETRY").alias("retries"), F.count_if(outcome == "UNKNOWN").alias("unknown"))
    )
