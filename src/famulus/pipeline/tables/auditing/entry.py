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
    """The rows have `broker`, `boot` and the instant `at`; they may have `service`, `worker` and `message_id`.

    Unless told otherwise, nothing explains them; what is explained is a warning, what is not is an error.
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
    """The severity of what is nothing to worry about if it is expected, and a mistake otherwise."""
    return F.when(expected, "info").otherwise("error")
