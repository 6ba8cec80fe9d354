"""What a rule of the audit gives: rows with the columns of the table."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.columns import hour_of
from famulus.pipeline.tables.words import said


def entries(
    rows: DataFrame,
    kind: str | Column,
    words: str | Column,
    *,
    explained: Column | None = None,
    severity: Column | None = None,
    about: Column | int = 1,
    untold: Column | None = None,
    at: str = "at",
) -> DataFrame:
    """`broker`, `boot` and the instant `at` are there; `service`, `worker` and `message_id` may be.

    Unless told otherwise, nothing explains it; what is explained is a warning, what is not an error.
    """
    there = rows.columns
    why = F.lit(False) if explained is None else explained
    return rows.select(
        *hour_of(at),
        F.col(at).alias("at"),
        (F.lit(kind) if isinstance(kind, str) else kind).alias("kind"),
        (F.when(why, "warning").otherwise("error") if severity is None else severity).alias("severity"),
        why.alias("explained"),
        "broker",
        "boot",
        *[name for name in ("service", "worker", "message_id") if name in there],
        F.lit(about).cast("long").alias("rows"),
        F.lit(untold).cast("long").alias("untold"),
        (said(words) if isinstance(words, str) else words).alias("explanation"),
    )


def info_if(expected: Column) -> Column:
    """The severity of what is nothing to worry about, or else a mistake."""
    return F.when(expected, "info").otherwise("error")
