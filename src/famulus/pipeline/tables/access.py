"""Who used what, and who was refused what, hour by hour."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.columns import hour_of, sum_if, total

_REFUSED: Final = ("broker", "family", "port", "wanted", "why", "principal", "key", "address", "service")


def refusals(access: DataFrame) -> DataFrame:
    """What was refused to whom, at each port of each broker."""
    refused = access.where(F.col("why").isNotNull())
    return refused.groupBy(*hour_of("at"), *_REFUSED).agg(
        total("times").alias("times"), F.min("at").alias("first"), F.max("at").alias("last")
    )


def principal_hours(access: DataFrame) -> DataFrame:
    """What each principal called of each service, over all brokers."""
    allowed = F.col("why").isNull()
    known = access.where(F.col("principal").isNotNull())
    return known.groupBy(*hour_of("at"), "principal", "service").agg(
        sum_if("times", allowed).alias("tasks"),
        *[total(name).alias(name) for name in ("request_bytes", "response_bytes", "busy_ns")],
        sum_if("times", ~allowed).alias("refused"),
    )
