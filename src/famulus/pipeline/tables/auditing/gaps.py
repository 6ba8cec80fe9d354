"""Rows that the journal owns up to lacking: how many of them a gap can account for, and which."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.tables.auditing.entry import entries
from famulus.pipeline.tables.columns import hour_number
from famulus.pipeline.tables.words import said


def gaps(brokers: DataFrame) -> DataFrame:
    count = F.coalesce("rows", F.lit(0))
    words = said(
        "{count:# row|# rows} of {table} {count:is|are} missing: {why}",
        count=count,
        table=F.coalesce("table", F.lit("an unknown table")),
        why=F.coalesce("detail", F.lit("nobody said why")),
    )
    rows = brokers.where(F.col("event") == "gap").drop("service")
    return entries(rows, "gap", words, explained=F.lit(True), about=count)


def of_tasks(brokers: DataFrame) -> DataFrame:
    """Gaps that may hide ends of tasks."""
    of_them = (F.col("event") == "gap") & (F.coalesce("table", F.lit("tasks")) == "tasks") & (F.col("rows") > 0)
    return brokers.where(of_them).select("broker", "boot", "at", "rows")


def with_gap(rows: DataFrame, brokers: DataFrame, needs: Column) -> DataFrame:
    """`in_gap`: whether a gap can have the end of this task.

    Of the rows that need one, each goes to the first gap of its own boot after it, within the next hour; and of those
    that come to one gap, as many of the first ones as it counts are in it.
    """
    life = ("broker", "boot")
    known = of_tasks(brokers).groupBy(*life).agg(F.array_sort(F.collect_list(F.struct("at", "rows"))).alias("gaps"))
    near = "floor(unix_seconds(each.at) / 3600) <= floor(unix_seconds(at) / 3600) + 1"
    first = F.expr(f"get(filter(gaps, each -> each.at >= at AND {near}), 0)")
    wanting = Window.partitionBy(*life, "gap.at").orderBy("at", "message_id")
    return (
        rows.join(F.broadcast(known), on=list(life), how="left")
        .withColumn("gap", F.when(needs & (F.size("gaps") > 0), first))
        .withColumn("turn", F.row_number().over(wanting))
        .withColumn("in_gap", F.col("gap").isNotNull() & (F.col("turn") <= F.col("gap.rows")))
        .drop("gaps", "gap", "turn")
    )


def by_hour(brokers: DataFrame) -> DataFrame:
    """Rows in gaps of tasks, by life and hour."""
    hour = hour_number("at").alias("hour_number")
    return of_tasks(brokers).groupBy("broker", "boot", hour).agg(F.sum("rows").alias("gap_rows"))
