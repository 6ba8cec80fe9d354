"""How many slots each service had at each broker, hour by hour, and how busy they were."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.columns import hour_of, total
from famulus.pipeline.tables.table import Grain, Table


def service_loads(brokers: DataFrame) -> DataFrame:
    free, busy = F.coalesce("slots_free", F.lit(0)), F.coalesce("slots_busy", F.lit(0))
    backlog = F.coalesce("backlog", F.lit(0))
    loads = brokers.where((F.col("event") == "load") & F.col("service").isNotNull())
    return loads.groupBy(*hour_of(F.col("at")), "service", "family", "broker").agg(
        F.count("*").alias("samples"),
        total(free + busy).alias("slots_sum"),
        total(busy).alias("busy_sum"),
        total(backlog).alias("backlog_sum"),
        F.max(free + busy).alias("slots_max"),
        F.max(backlog).alias("backlog_max"),
        F.count_if((free == 0) & (backlog > 0)).alias("saturated_s"),
    )


TABLE: Final = Table("service_loads", Grain.HOURLY, ("brokers",), service_loads)
