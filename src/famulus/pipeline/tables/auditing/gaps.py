"""Missing rows: those that the journal itself says it lacks, in gaps, and which tasks these can account for; and
those that were sent to it and are not there: row numbers that no row has, and no gap covers.

The rows of a life are numbered from 1, in the order in which they were sent, and so nearly in that of their ends; and
from time to time a life says how many it has sent. So for each life and hour it is enough to know the lowest number,
the highest, how many rows there are, and the last such count.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.tables.auditing.entry import entries
from famulus.pipeline.tables.auditing.repeated import copies
from famulus.pipeline.tables.columns import hour_number
from famulus.pipeline.tables.lives import lives
from famulus.pipeline.tables.words import said


def gaps(events: DataFrame) -> DataFrame:
    count = F.coalesce("rows", F.lit(0))
    words = said(
        "{count:# row|# rows} of {table} {count:is|are} missing: {why}",
        count=count,
        table=F.coalesce("table", F.lit("an unknown table")),
        why=F.coalesce("detail", F.lit("nobody said why")),
    )
    rows = events.where(F.col("event") == "gap").drop("service")
    return entries(rows, "gap", words, explained=F.lit(True), about=count)


def of_tasks(events: DataFrame) -> DataFrame:
    """Gaps that may hide ends of tasks."""
    of_them = (F.col("event") == "gap") & (F.coalesce("table", F.lit("tasks")) == "tasks") & (F.col("rows") > 0)
    return events.where(of_them).select("broker", "boot", "at", "rows")


def with_gap(rows: DataFrame, events: DataFrame, needs: Column) -> DataFrame:
    """`in_gap`: whether the end of this task can be in a gap.

    Each row that needs a gap goes to the first one of its own boot after it, within the next hour; and of the rows that
    go to one gap, the first ones are in it, as many as it counts.
    """
    life = ("broker", "boot")
    known = of_tasks(events).groupBy(*life).agg(F.array_sort(F.collect_list(F.struct("at", "rows"))).alias("gaps"))
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


def _gaps_by_hour(events: DataFrame) -> DataFrame:
    """Rows in gaps of tasks, by life and hour."""
    hour = hour_number("at").alias("hour_number")
    return of_tasks(events).groupBy("broker", "boot", hour).agg(F.sum("rows").alias("gap_rows"))


# -- rows that are missing, and no gap says so ------------------------------------------------------------------------

_LIFE: Final = ("broker", "boot")
_HOUR: Final = (*_LIFE, "hour_number")


def missing_rows(tasks: DataFrame, remarkable: DataFrame, events: DataFrame) -> DataFrame:
    """`remarkable`: the rows of tasks that are not plain, and so all rows that are there twice."""
    hours = (
        _numbers(tasks, remarkable)
        .join(_told(events), on=list(_HOUR), how="full")
        .join(_begins(events), on=list(_HOUR), how="left")
        .join(_gaps_by_hour(events), on=list(_HOUR), how="left")
        .fillna(0, ["gap_rows", "count"])
        .withColumn("begins", F.coalesce("begins", F.lit(False)))
        .withColumn("top", F.greatest("high", "told"))
    )
    of_life = Window.partitionBy(*_LIFE).orderBy("hour_number")
    before, around = of_life.rangeBetween(-1, -1), of_life.rangeBetween(-1, 1)
    since = F.coalesce(F.max("top").over(before), F.when(F.col("begins"), 0))
    lowest = F.when(F.max("begins").over(of_life.rangeBetween(-1, 0)), 0).otherwise(F.min("low").over(around) - 1)
    near = hours.select(
        "*",
        since.alias("since"),
        (F.max("top").over(around) - F.coalesce(lowest, since) - F.sum("count").over(around)).alias("near"),
        F.sum("gap_rows").over(around).alias("gaps_near"),
    )
    # What is in a gap at the edge of an hour may be reported in the next one.
    left = F.least(_lacking() - F.col("gap_rows"), F.col("near") - F.col("gaps_near"))
    found = near.withColumns({"missing": left, "at": F.coalesce("first", "told_at")}).where("missing > 0")
    words = (
        "{missing:# row|# rows} of tasks {missing:was|were} told and {missing:is|are} not there, and no gap says so: a "
        "file or rows were removed"
    )
    return entries(found, "missing_rows", words, about=F.col("missing"))


def _numbers(tasks: DataFrame, remarkable: DataFrame) -> DataFrame:
    """A row that is there twice, the same in all columns, counts once."""
    hour = hour_number("ended").alias("hour_number")
    again = copies(remarkable).where(F.col("row").isNotNull()).groupBy(*_LIFE, hour)
    return (
        lives(tasks)
        .where(F.col("count") > 0)
        .groupBy(*_HOUR)
        .agg(
            F.min("low").alias("low"),
            F.max("high").alias("high"),
            F.sum("count").alias("count"),
            F.min("first").alias("first"),
        )
        .join(again.agg(F.sum(F.col("copies") - 1).alias("again")), on=list(_HOUR), how="left")
        .withColumn("count", F.col("count") - F.coalesce("again", F.lit(0)))
    )


def _lacking() -> Column:
    """Rows missing before the first of the hour, between its rows, and after the last; or all, if there is none."""
    nothing = F.lit(0)
    between = F.greatest(F.col("high") - F.col("low") + 1 - F.col("count"), nothing)
    before = F.greatest(F.coalesce(F.col("low") - F.col("since") - 1, nothing), nothing)
    after = F.greatest(F.coalesce(F.col("told") - F.col("high"), nothing), nothing)
    everything = F.greatest(F.coalesce(F.col("told") - F.col("since"), nothing), nothing)
    return F.when(F.col("low").isNull(), everything).otherwise(before + between + after)


def _begins(events: DataFrame) -> DataFrame:
    event = F.col("event")
    begin = (event == "start") | ((event == "process_started") & (F.col("process") == "dispatcher"))
    hour = hour_number("at").alias("hour_number")
    return events.where(begin).select("broker", "boot", hour).distinct().withColumn("begins", F.lit(True))


def _told(events: DataFrame) -> DataFrame:
    """How many rows each life said, in this hour, that it had sent."""
    told = (F.col("event") == "told") & (F.col("table") == "tasks")
    return (
        events.where(told)
        .groupBy(*_LIFE, hour_number("at").alias("hour_number"))
        .agg(F.max("rows").alias("told"), F.min("at").alias("told_at"))
    )
