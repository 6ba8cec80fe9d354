"""Tasks that were seen open and never ended, and what became of the broker that had them. No table: two are made of it.

Everything here looks at most one hour back and one ahead, also if it is given more: so the rows of an hour are the same
whether they are made alone or with a whole month.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.columns import hour_number, is_final, is_settled, seconds_between

#: A task is overdue when its broker goes on for this long without ending it, and for twice as long as any task of its
#: service took.
OVERDUE_S: Final = 120


def unsettled(tasks: DataFrame, open_tasks: DataFrame, brokers: DataFrame, peers: DataFrame) -> DataFrame:
    """One row per task: its last checkpoint, its `fate`, and whether its broker `is_gone`, at whatever time after that.

    | fate      | meaning                                                                       |
    |-----------|-------------------------------------------------------------------------------|
    | died      | the dispatcher of its broker died                                             |
    | restarted | its broker began a new life, and nobody saw the old one end                   |
    | lost      | another broker lost its broker                                                |
    | stopped   | its broker stopped in good order                                              |
    | overdue   | its broker went on, far longer than such a task may take, and never ended it  |
    | open      | none of these: it may yet end                                                 |
    """
    return (
        _last_seen(open_tasks)
        .transform(_without_outcome, tasks)
        .transform(_with_end_of_boot, brokers, peers)
        .transform(_with_life_signs, tasks, brokers)
        .transform(_with_longest, tasks)
        .withColumn("is_gone", _is_gone())
        .withColumn("fate", _fate())
    )


def _last_seen(open_tasks: DataFrame) -> DataFrame:
    """The last row of each task at accountable brokers, unless it was seen again within the next hour."""
    order = Window.partitionBy("message_id").orderBy("open_hour", "at", "broker", "boot", "ticket")
    later = F.lead("open_hour").over(order)
    return (
        open_tasks.where(F.col("delegated_from").isNull())
        .withColumn("open_hour", hour_number(F.col("at")))
        .withColumn("later", later)
        .where(F.col("later").isNull() | (F.col("later") > F.col("open_hour") + 1))
        .drop("later")
    )


def _without_outcome(opened: DataFrame, tasks: DataFrame) -> DataFrame:
    ended = tasks.where(is_settled()).select(
        F.col("message_id").alias("ended_id"), hour_number(F.col("ended")).alias("ended_hour")
    )
    same = (F.col("message_id") == F.col("ended_id")) & _is_near("ended_hour")
    return opened.join(ended, on=same, how="left_anti")


def _with_end_of_boot(opened: DataFrame, brokers: DataFrame, peers: DataFrame) -> DataFrame:
    """`end_kind` and `end_at` of the first thing after the last checkpoint that ended its boot."""
    event = F.col("event")
    died = (event == "process_died") & (F.col("process") == "dispatcher")
    kind = F.when(died, "died").when(event == "stop", "stopped").when(event == "start", "restarted")
    own = brokers.select(F.col("broker").alias("end_broker"), F.col("boot").alias("end_boot"), "at", kind.alias("kind"))
    seen = peers.where(event == "lost").select(
        F.col("peer").alias("end_broker"),
        F.lit(None).cast("string").alias("end_boot"),
        "at",
        F.lit("lost").alias("kind"),
    )
    ends = (
        own.where(F.col("kind").isNotNull())
        .unionByName(seen)
        .select("end_broker", "end_boot", F.col("at").alias("end_at"), F.col("kind").alias("end_kind"))
        .withColumn("end_hour", hour_number(F.col("end_at")))
    )
    other_life = (F.col("end_kind") != "restarted") | (F.col("end_boot") != F.col("boot"))
    after = (F.col("broker") == F.col("end_broker")) & (F.col("end_at") >= F.col("at")) & _is_near("end_hour")
    # That a peer lost it counts least: both may live on, with the line between them cut.
    first = F.struct((F.col("end_kind") == "lost").alias("hearsay"), "end_at", "end_kind")
    found = (
        opened.select("message_id", "broker", "boot", "ticket", "at", "open_hour")
        .join(ends, on=after & other_life, how="inner")
        .groupBy("message_id", "open_hour")
        .agg(F.min(first).alias("end"))
        .select("message_id", "open_hour", F.col("end.end_kind"), F.col("end.end_at"))
    )
    return opened.join(found, on=["message_id", "open_hour"], how="left")


def _with_life_signs(opened: DataFrame, tasks: DataFrame, brokers: DataFrame) -> DataFrame:
    """`alive_at`: the last row that its boot wrote, of whatever kind."""
    signs = (
        tasks.select("broker", "boot", F.col("ended").alias("at"))
        .unionByName(brokers.select("broker", "boot", "at"))
        .groupBy(F.col("broker").alias("sign_broker"), F.col("boot").alias("sign_boot"), _hour("at").alias("sign_hour"))
        .agg(F.max("at").alias("sign_at"))
    )
    same = (F.col("broker") == F.col("sign_broker")) & (F.col("boot") == F.col("sign_boot")) & _is_near("sign_hour")
    last = (
        opened.select("message_id", "broker", "boot", "open_hour")
        .join(signs, on=same, how="inner")
        .groupBy("message_id", "open_hour")
        .agg(F.max("sign_at").alias("alive_at"))
    )
    return opened.join(last, on=["message_id", "open_hour"], how="left")


def _with_longest(opened: DataFrame, tasks: DataFrame) -> DataFrame:
    """`longest_ns`: of any task of its service."""
    longest = (
        tasks.where(is_final())
        .groupBy(F.col("service").alias("long_service"), _hour("ended").alias("long_hour"))
        .agg(F.max("total_ns").alias("long_ns"))
    )
    same = (F.col("service") == F.col("long_service")) & _is_near("long_hour")
    found = (
        opened.select("message_id", "service", "open_hour")
        .join(longest, on=same, how="inner")
        .groupBy("message_id", "open_hour")
        .agg(F.max("long_ns").alias("longest_ns"))
    )
    return opened.join(found, on=["message_id", "open_hour"], how="left")


def _fate() -> Column:
    limit_s = F.greatest(F.lit(float(OVERDUE_S)), F.coalesce(F.col("longest_ns"), F.lit(0)) * 2 / 1e9)
    lived_s = seconds_between(F.col("at"), F.col("alive_at"))
    # First, since what was forgotten long before is not the fault of a death.
    return F.when(lived_s > limit_s, "overdue").when(F.col("is_gone"), F.col("end_kind")).otherwise("open")


def _is_gone() -> Column:
    """Whoever wrote after it was "lost" was not."""
    silent = F.col("alive_at").isNull() | (F.col("alive_at") <= F.col("end_at"))
    return F.coalesce((F.col("end_kind") != "lost") | silent, F.lit(False))


def _hour(column: str) -> Column:
    return hour_number(F.col(column))


def _is_near(column: str) -> Column:
    return F.abs(F.col(column) - F.col("open_hour")) <= 1
