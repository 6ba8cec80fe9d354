"""What brokers lost: workers, peers and their own dispatchers; and the attempts that ended because of that."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from famulus.journal import arrow
from famulus.pipeline.columnar.rows import Rows
from famulus.pipeline.tables.column_types import union_all
from famulus.pipeline.tables.columns import hour_of, is_dispatcher_death, minute_of
from famulus.pipeline.tables.frames import to_spark
from famulus.pipeline.tables.hourly import computed
from famulus.pipeline.tables.lives import broker_events


def losses(workers: DataFrame, brokers: DataFrame, peers: DataFrame) -> DataFrame:
    """Each time that a broker lost a worker or a peer, or its own dispatcher."""
    event = F.col("event")
    names = F.array_sort(F.array_remove(F.split("services", "\n"), ""))
    none = F.array().cast("array<string>")
    found = [
        _rows(workers.where(event == "lost"), "worker_lost", F.col("worker"), names, F.coalesce("tasks", F.lit(0))),
        _rows(broker_events(brokers).where(is_dispatcher_death()), "dispatcher_died", F.col("broker"), none, F.lit(0)),
        _rows(peers.where(event == "lost"), "peer_lost", F.col("peer"), none, F.lit(0)),
    ]
    return union_all(found)


def _rows(rows: DataFrame, kind: str, lost: Column, services: Column, tasks: Column) -> DataFrame:
    said = {"kind": F.lit(kind), "lost": lost, "services": services, "tasks": tasks.cast("long")}
    return rows.withColumns(said).select(*hour_of("at"), "at", "broker", "family", *said)


_ATTEMPT: Final = pa.schema(
    [
        field.with_nullable(True)
        for field in arrow.schema_of("tasks")
        if field.name in ("ended", "broker", "family", "service", "worker", "delegated_to", "outcome", "reason")
    ]
)


def _of_lost(tasks: pa.Table) -> pa.Table:
    rows = Rows(tasks)
    lost = rows.is_any("reason", "worker_lost", "broker_lost") & rows.is_any("outcome", "RETRY", "UNKNOWN")
    return tasks.filter(pa.array(lost))


def lost_attempts(tasks: DataFrame) -> DataFrame:
    """Attempts that ended because a worker or a broker was lost."""
    rows = to_spark(tasks.sparkSession, computed(tasks, _ATTEMPT.names, _of_lost, _ATTEMPT))
    outcome, of_worker = F.col("outcome"), F.col("reason") == "worker_lost"
    kind = F.when(of_worker, "worker").otherwise("broker")
    lost = F.when(of_worker, F.col("worker")).otherwise(F.col("delegated_to"))
    return (
        rows.withColumns({"minute": minute_of("ended"), "lost_kind": kind, "lost": lost})
        .where(F.col("lost").isNotNull())
        .groupBy(*hour_of("minute"), "minute", "broker", "family", "lost_kind", "lost", "service")
        .agg(F.count_if(outcome == "RETRY").alias("retries"), F.count_if(outcome == "UNKNOWN").alias("unknown"))
    )
