"""Crashes of dispatchers, and how many tasks each may have lost without a trace.

A dispatcher that dies leaves no trace of two kinds of tasks: those that came after the last row that it sent, and those
that came after its last checkpoint and were open at that row. How many there were can only be estimated: the rate at
which tasks ended before, times the time from that row to the death plus the time that tasks were open.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.columnar.crashes import last_rows, last_told
from famulus.pipeline.tables.auditing.entry import entries
from famulus.pipeline.tables.column_types import union_all
from famulus.pipeline.tables.columns import hour_number, hours_around, is_dispatcher_death, seconds_between
from famulus.pipeline.tables.frames import frame_of
from famulus.pipeline.tables.hourly import hourly
from famulus.pipeline.tables.lives import broker_events, signs
from famulus.pipeline.tables.memo import cached
from famulus.pipeline.tables.words import said

#: The rate before a crash is that of this many seconds before the last row.
RATE_S: Final = 10
#: A broker that is gone along with its scribe loses what was not in a file yet: by default, a minute.
SILENT_S: Final = 60


def crash_windows(lost: DataFrame, tasks: DataFrame, brokers: DataFrame, peers: DataFrame) -> DataFrame:
    # They are few, and used four times.
    ends = cached(_died(broker_events(brokers)).unionByName(_silent(tasks, brokers, peers)))
    rows = (
        ends.transform(_with_rate, tasks, brokers)
        .join(_swallowed(ends, lost), on=["broker", "boot", "at"], how="left")
        .fillna(0, ["swallowed", "rate", "length_s"])
    )
    rate = F.col("rate")
    untold = F.ceil(F.round(rate * F.col("length_s"), 6)).cast("long")
    words = said(
        "{how}; {swallowed:# task that was|# tasks that were} open at its last checkpoint {swallowed:has|have} "
        "no outcome, and up to about {untold} that came after it have no row: {rate} a second, for {length_s} s",
        untold=untold,
        rate=F.format_number(rate, 1),
        length_s=F.format_number("length_s", 3),
    )
    about = F.col("swallowed")
    severity = F.when((about > 0) | (untold > 0), "warning").otherwise("info")
    return entries(rows, "crash_window", words, severity=severity, explained=F.lit(True), about=about, untold=untold)


def _died(events: DataFrame) -> DataFrame:
    how = said("the dispatcher died ({detail})", detail=F.coalesce("detail", F.lit("nobody said how"))).alias("how")
    return events.where(is_dispatcher_death()).select("broker", "boot", "at", how, F.lit(False).alias("silent"))


def _silent(tasks: DataFrame, brokers: DataFrame, peers: DataFrame) -> DataFrame:
    """Lives whose end nobody saw: the same broker started again, or others lost it and it wrote nothing more.

    Only that hour and the ones before and after it count: what an hour's rows say must not depend on how many are read.
    """
    event = F.col("event")
    alive = (
        signs(tasks, brokers)
        .select("*", hours_around("at").alias("end_hour"))
        .groupBy("broker", "boot", "end_hour")
        .agg(F.max("at").alias("last"), F.max("ended").alias("ended"))
        .where(~F.col("ended"))
    )
    starts = broker_events(brokers).where(event == "start")
    began = starts.select("broker", F.col("boot").alias("other"), F.col("at").alias("end"))
    went = peers.where(event == "lost").select(F.col("peer").alias("broker"), F.col("at").alias("end"))
    ends = union_all([began, went]).fillna("", ["other"]).withColumn("end_hour", hour_number("end"))
    return (
        alive.join(ends, on=["broker", "end_hour"])
        .where((F.col("other") != F.col("boot")) & (F.col("end") >= F.col("last")))
        .groupBy("broker", "boot", "last")
        .agg(F.min("end").alias("at"))
        .drop("last")
        .withColumns({"how": F.lit("the broker was gone without a word"), "silent": F.lit(True)})
    )


def _swallowed(ends: DataFrame, lost: DataFrame) -> DataFrame:
    """How many tasks each of them left open."""
    of_crashes = lost.where(F.col("fate").isin("died", "restarted", "lost"))
    left = of_crashes.select("broker", "boot", F.col("at").alias("open_at"))
    in_time = (F.col("open_at") <= F.col("at")) & (hour_number("open_at") >= hour_number("at") - 1)
    return (
        left.join(F.broadcast(ends.select("broker", "boot", "at")), on=["broker", "boot"])
        .where(in_time)
        .groupBy("broker", "boot", "at")
        .agg(F.count("*").alias("swallowed"))
    )


def _with_rate(ends: DataFrame, tasks: DataFrame, brokers: DataFrame) -> DataFrame:
    """The `rate` of tasks in the seconds before the last row, and the `length_s` of the time whose tasks are missed.

    A checkpoint lists all that is open, and comes with the load. So of the tasks that came since then, those are missed
    that were still open at the last row: on average, as many seconds' tasks as a task is open, or as have passed.
    """
    life = ["broker", "boot"]
    found = ends.select(*life, F.unix_micros("at").alias("end_us")).toArrow()
    rows, told = last_rows(found, hourly(tasks).read, RATE_S), last_told(found, hourly(brokers).read)
    both = frame_of(ends.sparkSession, pa.concat_tables([rows, told], promote_options="default"))
    before = both.join(F.broadcast(ends.select(*life, F.col("at").alias("end"), "silent")), on=[*life, "end"])
    last = before.groupBy(*life, "end").agg(
        F.max("sign").alias("last"), F.min("sign").alias("first"), F.max("checkpoint").alias("cut")
    )
    recent = seconds_between("sign", "last") < RATE_S
    # `least` skips nulls: without a checkpoint, it is as long as the tasks were open.
    missed_s = F.least(F.col("total_ns") / 1e9, seconds_between("cut", "last"))
    since_s = seconds_between("last", "end")
    # A life may be shorter than that.
    rate_s = F.greatest(F.least(seconds_between("first", "last"), F.lit(float(RATE_S))), F.lit(1.0))
    until_s = F.when(F.col("silent"), F.least(since_s, F.lit(float(SILENT_S)))).otherwise(since_s)
    counted = (
        before.join(F.broadcast(last), on=[*life, "end"])
        .where(recent & F.col("total_ns").isNotNull())
        .groupBy(*life, "end", "first", "last", "silent")
        .agg(F.count("*").alias("ended"), F.avg(F.greatest(missed_s, F.lit(0.0))).alias("open_s"))
        .withColumns({"at": F.col("end"), "rate": F.col("ended") / rate_s, "length_s": until_s + F.col("open_s")})
        .select(*life, "at", "rate", "length_s")
    )
    return ends.join(counted, on=[*life, "at"], how="left")
