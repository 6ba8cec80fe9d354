"""Each time that a broker lost a worker or a peer, or its own dispatcher."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.columns import hour_of, is_dispatcher_death
from famulus.pipeline.tables.spark_types import union_all
from famulus.pipeline.tables.table import Grain, Table


def losses(workers: DataFrame, brokers: DataFrame, peers: DataFrame) -> DataFrame:
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
    return rows.select(
        *hour_of(F.col("at")),
        "at",
        F.lit(kind).alias("kind"),
        lost.alias("lost"),
        "broker",
        "family",
        services.alias("services"),
        tasks.cast("long").alias("tasks"),
    )


TABLE: Final = Table("losses", Grain.HOURLY, ("workers", "brokers", "peers"), losses)
