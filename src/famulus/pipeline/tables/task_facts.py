"""What happened to each task, over all attempts and brokers."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.columnar.facts import PlainFacts
from famulus.pipeline.tables import schemas
from famulus.pipeline.tables.column_types import union_all
from famulus.pipeline.tables.columns import hour_number, hour_of, is_final, is_run, is_settled
from famulus.pipeline.tables.hourly import hourly
from famulus.pipeline.tables.remarkable import remarkable
from famulus.pipeline.tables.unsettled import unsettled

#: Makes the order of two rows definite, whatever else is equal.
_NAME: Final = ("ended", "broker", "boot", "ticket")


def task_facts(tasks: DataFrame, open_tasks: DataFrame, brokers: DataFrame, peers: DataFrame) -> DataFrame:
    """All but the plain tasks, of which there are so many: those come from `plain_facts`."""
    swallowed = unsettled(tasks, open_tasks, brokers, peers).where("is_gone")
    # The same row twice, alike in all columns, is one; that it is there twice is for the audit to report.
    ended = remarkable(tasks, open_tasks).tasks.dropDuplicates()
    return union_all([_ended(ended), _swallowed(swallowed)])


def plain_facts(tasks: DataFrame, open_tasks: DataFrame, brokers: DataFrame, peers: DataFrame) -> PlainFacts:
    return PlainFacts(hourly(tasks), remarkable(tasks, open_tasks).hashes())


def _ended(tasks: DataFrame) -> DataFrame:
    """The row that told the client, with what all rows of that task say within an hour before and after it.

    The first one, if there are several; if no accountable broker wrote one, the first of the others.
    """
    rank = F.when(is_settled(), 0).when(is_final(), 1)
    by_hour = Window.partitionBy("message_id").orderBy("ended_hour")
    near = by_hour.rangeBetween(-1, 1)
    before = by_hour.rangeBetween(-1, 0)
    own_name = F.struct(*_NAME)
    return (
        tasks.withColumn("ended_hour", hour_number("ended"))
        .withColumn("rank", rank)
        .select(
            "*",
            F.min("rank").over(near).alias("best_rank"),
            F.min(F.when(rank == 0, own_name)).over(before).alias("first_settled"),
            F.min(F.when(rank == 1, own_name)).over(before).alias("first_other"),
            F.sort_array(F.collect_set("broker").over(near)).alias("brokers"),
            F.max(F.when(is_run(), F.struct("assigned", "broker", "boot", "ticket", "worker"))).over(near).alias("run"),
            F.count_if(is_run()).over(near).alias("attempts"),
            F.count_if(F.col("outcome") == "LATE").over(near).alias("late"),
            F.count_if(is_settled()).over(near).alias("outcomes"),
        )
        .where((rank == F.col("best_rank")) & (own_name == _first()))
        .withColumn("worker", F.col("run.worker"))
        .transform(_facts)
    )


def _first() -> Column:
    return F.when(F.col("rank") == 0, F.col("first_settled")).otherwise(F.col("first_other"))


def _swallowed(lost: DataFrame) -> DataFrame:
    """They have neither an outcome nor durations."""
    return lost.withColumns(
        {
            "brokers": F.array("broker"),
            "attempts": F.col("attempt"),
            "late": F.lit(0),
            "outcomes": F.lit(0),
            "ended": F.col("at"),
        }
    ).transform(_facts)


def _facts(rows: DataFrame) -> DataFrame:
    """Those columns of the table that are there."""
    dated = rows.select("*", *hour_of("ended"))
    there = set(dated.columns)
    return dated.select(*[column.name for column in schemas.TABLES["task_facts"] if column.name in there])
