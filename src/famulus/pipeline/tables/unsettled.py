"""Tasks that were open and never ended, and what became of the broker that had them. Not a table: two are made from it.

A task was open if a checkpoint saw it, or if another attempt was to follow one that had ended.

Everything here looks at most one hour back and one ahead, even if it is given more: so the rows of an hour are the same
whether they are made alone or with a whole month.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.column_types import union_all
from famulus.pipeline.tables.columns import hour_number, hours_around, is_dispatcher_death, seconds_between
from famulus.pipeline.tables.lives import broker_events, last_signs, lives
from famulus.pipeline.tables.memo import cached, memo
from famulus.pipeline.tables.remarkable import remarkable

#: A task is overdue when its broker goes on for this long without ending it, and for twice as long as any task of its
#: service took.
OVERDUE_S: Final = 120


@memo
def unsettled(tasks: DataFrame, open_tasks: DataFrame, brokers: DataFrame, peers: DataFrame) -> DataFrame:
    """One row per task: its last checkpoint, its `fate`, and whether its broker `is_gone`, at any time after that.

    | fate      | meaning                                                                       |
    |-----------|-------------------------------------------------------------------------------|
    | died      | the dispatcher of its broker died                                             |
    | restarted | its broker began a new life, and nobody saw the old one end                   |
    | lost      | another broker lost its broker                                                |
    | stopped   | its broker stopped in good order                                              |
    | overdue   | its broker went on, far longer than such a task may take, and never ended it  |
    | open      | none of these: it may yet end                                                 |
    """
    rows = (
        remarkable(tasks, open_tasks)
        .opened.withColumn("open_hour", hour_number("at"))
        .transform(_with_end_of_boot, broker_events(brokers), peers)
        .join(last_signs(tasks, brokers, ["broker", "boot"], "open_hour"), ["broker", "boot", "open_hour"], "left")
        .join(_longest(tasks), on=["service", "open_hour"], how="left")
        .withColumns({"is_gone": _is_gone(), "fate": _fate()})
    )
    return cached(rows)


def _with_end_of_boot(opened: DataFrame, events: DataFrame, peers: DataFrame) -> DataFrame:
    """`end_kind` and `end_at` of the first thing after the last checkpoint that ended its boot."""
    event = F.col("event")
    kind = F.when(is_dispatcher_death(), "died").when(event == "stop", "stopped").when(event == "start", "restarted")
    own = events.select("broker", F.col("boot").alias("end_boot"), "at", kind.alias("kind"))
    seen = peers.where(event == "lost").select(F.col("peer").alias("broker"), "at", F.lit("lost").alias("kind"))
    # That a peer lost it counts least: both may live on, with only the connection between them cut.
    end = F.struct((F.col("end_kind") == "lost").alias("hearsay"), "end_at", "end_kind", "end_boot")
    ends = (
        union_all([own.where(F.col("kind").isNotNull()), seen])
        .withColumnsRenamed({"at": "end_at", "kind": "end_kind"})
        .select("broker", end.alias("end"), hours_around("end_at").alias("open_hour"))
        .groupBy("broker", "open_hour")
        .agg(F.collect_list("end").alias("ends"))
    )

    other_life = "(each.end_kind != 'restarted' OR each.end_boot != boot)"
    after_it = F.expr(f"filter(ends, each -> each.end_at >= at AND {other_life})")
    return (
        opened.join(ends, on=["broker", "open_hour"], how="left")
        .withColumn("end", F.array_min(after_it))
        .select("*", "end.end_kind", "end.end_at")
        .drop("ends", "end")
    )


def _longest(tasks: DataFrame) -> DataFrame:
    """`longest_ns`: the longest time of any task of its service."""
    return (
        lives(tasks)
        .select("service", "longest_ns", hours_around("at").alias("open_hour"))
        .groupBy("service", "open_hour")
        .agg(F.max("longest_ns").alias("longest_ns"))
    )


def _fate() -> Column:
    limit_s = F.greatest(F.lit(float(OVERDUE_S)), F.coalesce(F.col("longest_ns"), F.lit(0)) * 2 / 1e9)
    lived_s = seconds_between("at", "alive_at")
    # First, since a task that was forgotten long before is not the fault of a death.
    return F.when(lived_s > limit_s, "overdue").when(_is_gone(), F.col("end_kind")).otherwise("open")


def _is_gone() -> Column:
    """A broker that wrote something after it was "lost" was not gone."""
    silent = F.col("alive_at").isNull() | (F.col("alive_at") <= F.col("end_at"))
    return F.coalesce((F.col("end_kind") != "lost") | silent, F.lit(False))
