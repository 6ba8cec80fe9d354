"""Rows that were told and are not there: numbers of rows that no row has, and no gap owns up to.

Rows of a life have numbers from 1 on, in the order in which they were told, and so nearly in that of their ends. So for
each life and hour it is enough to know the lowest number, the highest, and how many there are.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.columns import hour_number
from famulus.pipeline.tables.auditing import gaps
from famulus.pipeline.tables.auditing.entry import entries


def missing_rows(tasks: DataFrame, brokers: DataFrame) -> DataFrame:
    life = ("broker", "boot")
    hours = (
        tasks.where(F.col("row").isNotNull())
        .groupBy(*life, hour_number(F.col("ended")).alias("hour_number"))
        .agg(
            F.min("row").alias("low"),
            F.max("row").alias("high"),
            F.count("*").alias("count"),
            F.min("ended").alias("at"),
        )
        .join(_begins(brokers), on=[*life, "hour_number"], how="left")
        .join(_told(brokers), on=[*life, "hour_number"], how="left")
        .join(gaps.by_hour(brokers), on=[*life, "hour_number"], how="left")
        .fillna(0, ["gap_rows"])
    )
    of_life = Window.partitionBy(*life).orderBy("hour_number")
    before, around = of_life.rangeBetween(-1, -1), of_life.rangeBetween(-1, 1)
    counted = hours.select(
        "*",
        F.max("high").over(before).alias("high_before"),
        _lacking(F.min("low").over(around), F.max("high").over(around), F.sum("count").over(around)).alias("near"),
        F.sum("gap_rows").over(around).alias("gaps_near"),
    )
    own = _lacking(F.col("low"), F.col("high"), F.col("count")) + _before() + _after()
    # What is in a gap at the edge of an hour may be told in the next one.
    left = F.least(own - F.col("gap_rows"), F.col("near") + _first() + _after() - F.col("gaps_near"))
    found = counted.withColumn("missing", left).where(F.col("missing") > 0)
    return entries(
        found,
        "missing_rows",
        severity=F.lit("error"),
        explained=F.lit(False),
        about=F.col("missing"),
        words=F.format_string(
            "%s rows of tasks were told and are not there, and no gap says so: a file or rows were removed",
            F.col("missing").cast("string"),
        ),
    )


def _lacking(low: Column, high: Column, count: Column) -> Column:
    return F.greatest(high - low + 1 - count, F.lit(0))


def _before() -> Column:
    """Between the last row of the hour before and the first one of this; with none before, from the begin on."""
    since = F.coalesce("high_before", F.when(F.col("begins"), F.lit(0)))
    return F.coalesce(F.greatest(F.col("low") - since - 1, F.lit(0)), F.lit(0))


def _first() -> Column:
    return F.when(F.col("begins") & F.col("high_before").isNull(), F.col("low") - 1).otherwise(0)


def _after() -> Column:
    """What was told until the end of its life, and came after the last row."""
    return F.coalesce(F.greatest(F.col("told") - F.col("high"), F.lit(0)), F.lit(0))


def _begins(brokers: DataFrame) -> DataFrame:
    event = F.col("event")
    begin = (event == "start") | ((event == "process_started") & (F.col("process") == "dispatcher"))
    hour = hour_number(F.col("at")).alias("hour_number")
    return brokers.where(begin).select("broker", "boot", hour).distinct().withColumn("begins", F.lit(True))


def _told(brokers: DataFrame) -> DataFrame:
    """How many rows lives had told that ended in this hour."""
    hour = hour_number(F.col("at")).alias("hour_number")
    told = (F.col("event") == "told") & (F.col("table") == "tasks")
    return brokers.where(told).groupBy("broker", "boot", hour).agg(F.max("rows").alias("told"))
