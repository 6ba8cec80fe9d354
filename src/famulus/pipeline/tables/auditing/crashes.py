"""Crashes of dispatchers, and how many tasks each may have taken along without a trace.

Whatever a dispatcher had not told when it died is in no row. How much that was can only be guessed: by the rate at
which tasks ended before, and by the time from the last row that was told to the death.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.columns import hour_number, seconds_between
from famulus.pipeline.tables.auditing.entry import entries

#: The rate before a crash is that of so many seconds before the last row.
RATE_S: Final = 10
#: What the dispatcher itself tells; the rest of its life's rows is from others, also after its death.
_TOLD: Final = ("load", "overload_on", "overload_off")


def crash_windows(lost: DataFrame, tasks: DataFrame, brokers: DataFrame, peers: DataFrame) -> DataFrame:
    swallowed = (
        lost.where(F.col("fate").isin("died", "restarted", "lost"))
        .groupBy("broker", "boot")
        .agg(F.count("*").alias("swallowed"))
    )
    ends = _died(brokers).unionByName(_silent(tasks, brokers, peers))
    rows = (
        ends.transform(_with_rate, tasks, brokers)
        .join(swallowed, on=["broker", "boot"], how="left")
        .fillna(0, ["swallowed", "ended"])
    )
    rate, length_s = F.col("ended") / F.lit(float(RATE_S)), F.greatest(F.col("length_s"), F.lit(0.0))
    untold = F.ceil(F.round(rate * F.coalesce(length_s, F.lit(0.0)), 6)).cast("long")
    words = F.format_string(
        "%s; %s tasks that were open at its last checkpoint have no outcome, and about %s more may have ended without "
        "a row: %s a second, for %s s",
        "how",
        F.col("swallowed").cast("string"),
        untold.cast("string"),
        F.format_number(rate, 1),
        F.format_number(F.coalesce(length_s, F.lit(0.0)), 3),
    )
    hides = (F.col("swallowed") > 0) | (untold > 0)
    return entries(
        rows,
        "crash_window",
        severity=F.when(hides, "warning").otherwise("info"),
        explained=F.lit(True),
        about=F.col("swallowed"),
        untold=untold,
        words=words,
    )


def _died(brokers: DataFrame) -> DataFrame:
    died = (F.col("event") == "process_died") & (F.col("process") == "dispatcher")
    how = F.format_string("the dispatcher died (%s)", F.coalesce("detail", F.lit("nobody said how")))
    return brokers.where(died).select("broker", "boot", "at", how.alias("how"))


def _silent(tasks: DataFrame, brokers: DataFrame, peers: DataFrame) -> DataFrame:
    """Lives that nobody saw the end of: the same broker began anew, or others lost it and it wrote no more."""
    event = F.col("event")
    rows = brokers.select("broker", "boot", "at").unionByName(
        tasks.select("broker", "boot", F.col("ended").alias("at"))
    )
    lives = rows.groupBy("broker", "boot").agg(F.max("at").alias("last"))
    seen = (event == "stop") | ((event == "process_died") & (F.col("process") == "dispatcher"))
    open_ended = lives.join(brokers.where(seen).select("broker", "boot"), on=["broker", "boot"], how="left_anti")
    began = brokers.where(event == "start").select("broker", F.col("boot").alias("other"), F.col("at").alias("end"))
    went = peers.where(event == "lost").select(
        F.col("peer").alias("broker"), F.lit("").alias("other"), F.col("at").alias("end")
    )
    # More than an hour later nobody would know what was in between.
    near = hour_number(F.col("end")) <= hour_number(F.col("last")) + 1
    return (
        open_ended.join(began.unionByName(went), on="broker")
        .where((F.col("other") != F.col("boot")) & (F.col("end") >= F.col("last")) & near)
        .groupBy("broker", "boot")
        .agg(F.min("end").alias("at"))
        .withColumn("how", F.lit("the broker was gone without a word"))
    )


def _with_rate(ends: DataFrame, tasks: DataFrame, brokers: DataFrame) -> DataFrame:
    """`length_s` from the last row that was told to the end, and how many tasks `ended` in the seconds before that."""
    life = ["broker", "boot"]
    limits = F.broadcast(ends.select(*life, F.col("at").alias("end")))
    told = tasks.select(*life, F.col("ended").alias("sign"), F.lit(1).alias("task")).unionByName(
        brokers.where(F.col("event").isin(*_TOLD)).select(*life, F.col("at").alias("sign"), F.lit(0).alias("task"))
    )
    before = told.join(limits, on=life).where(F.col("sign") <= F.col("end"))
    last = before.groupBy(*life, "end").agg(F.max("sign").alias("last"))
    recent = seconds_between(F.col("sign"), F.col("last")) < RATE_S
    counted = (
        before.join(F.broadcast(last), on=[*life, "end"])
        .where(recent)
        .groupBy(*life, "end", "last")
        .agg(F.sum("task").alias("ended"))
        .withColumn("length_s", seconds_between(F.col("last"), F.col("end")))
        .select(*life, F.col("end").alias("at"), "ended", "length_s")
    )
    return ends.join(counted, on=[*life, "at"], how="left")
