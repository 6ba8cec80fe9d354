"""What a rule of the audit gives: rows with the columns of the table."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.columns import hour_of


def entries(
    rows: DataFrame,
    kind: str | Column,
    *,
    severity: Column,
    explained: Column,
    about: Column,
    words: Column,
    untold: Column | None = None,
) -> DataFrame:
    """`at`, `broker` and `boot` are there; `service`, `worker` and `message_id` may be."""
    there = {
        name: F.col(name) if name in rows.columns else F.lit(None).cast("string")
        for name in ("service", "worker", "message_id")
    }
    return rows.select(
        *hour_of(F.col("at")),
        "at",
        (F.lit(kind) if isinstance(kind, str) else kind).alias("kind"),
        severity.alias("severity"),
        explained.alias("explained"),
        "broker",
        "boot",
        *[column.alias(name) for name, column in there.items()],
        about.cast("long").alias("rows"),
        (F.lit(None) if untold is None else untold).cast("long").alias("untold"),
        words.alias("explanation"),
    )
