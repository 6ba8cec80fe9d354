"""Whatever a careful reader of the journal would ask about: the verdict is that every row is explained.

| kind           | what                                                     | explained if                       |
|----------------|----------------------------------------------------------|--------------------------------------|
| `no_outcome`   | a task that was open and never ended                     | its broker died, or there is a gap |
| `two_outcomes` | a second outcome for one message_id                      | its client asked again afterwards |
| `at_most_once` | a second worker had a task that may run once             | its client asked again afterwards |
| `late_answer`  | an answer after the outcome; it was dropped              | always                             |
| `gap`          | rows that the journal lacks, and says so                 | always                             |
| `crash_window` | a dispatcher died, with tasks that nobody heard of again | always                             |
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline import schemas
from famulus.pipeline.columns import hour_number, hour_of, is_run, is_settled
from famulus.pipeline.crowds import parted
from famulus.pipeline.spark_types import contract
from famulus.pipeline.tables.table import Grain, Table
from famulus.pipeline.tables.unsettled import unsettled

#: What became of a broker with an open task, and whether that accounts for it.
_FATES: Final = {
    "died": (True, "its dispatcher died with the task open"),
    "restarted": (True, "its broker was gone and came back with an empty memory"),
    "lost": (True, "its broker was lost to the others"),
    "stopped": (False, "its broker stopped in good order, and should have ended it"),
    "overdue": (False, "its broker went on for longer than such a task may take, and never ended it"),
}


def audit(tasks: DataFrame, open_tasks: DataFrame, brokers: DataFrame, peers: DataFrame) -> DataFrame:
    lost = unsettled(tasks, open_tasks, brokers, peers).where(F.col("fate").isin(*_FATES))
    crowded = parted(tasks, "message_id")[1].withColumn("ended_hour", hour_number(F.col("ended")))
    parts = [
        _no_outcome(lost, brokers),
        _two_outcomes(crowded),
        _at_most_once(crowded),
        _late_answers(tasks),
        _gaps(brokers),
        _crash_windows(lost, brokers),
    ]
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionByName(part)
    return rows.transform(contract, schemas.AUDIT)


def _rows(
    rows: DataFrame, kind: str, severity: Column, explained: Column, about: Column, explanation: Column
) -> DataFrame:
    """The contract's columns; `at`, `broker` and `boot` are there, and `service`, `worker`, `message_id` may be."""
    there = {
        name: F.col(name) if name in rows.columns else F.lit(None).cast("string")
        for name in ("service", "worker", "message_id")
    }
    return rows.select(
        *hour_of(F.col("at")),
        "at",
        F.lit(kind).alias("kind"),
        severity.alias("severity"),
        explained.alias("explained"),
        "broker",
        "boot",
        *[column.alias(name) for name, column in there.items()],
        about.cast("long").alias("rows"),
        explanation.alias("explanation"),
    )


def _no_outcome(lost: DataFrame, brokers: DataFrame) -> DataFrame:
    gaps = (
        brokers.where((F.col("event") == "gap") & (F.coalesce("table", F.lit("tasks")) == "tasks"))
        .select("broker", F.explode(_neighbours("at")).alias("open_hour"))
        .groupBy("broker", "open_hour")
        .agg(F.count("*").alias("gaps"))
    )
    fate, gap = F.col("fate"), F.col("gaps").isNotNull()
    accounts, words = F.lit(None).cast("boolean"), F.lit(None).cast("string")
    for name, (explains, sentence) in _FATES.items():
        accounts = F.when(fate == name, explains).otherwise(accounts)
        words = F.when(fate == name, sentence).otherwise(words)
    explained = accounts | gap
    said = F.when(~accounts & gap, F.lit("its row may be in a gap of the journal")).otherwise(words)
    severity = F.when(explained, "warning").otherwise("error")
    rows = lost.join(gaps, on=["broker", "open_hour"], how="left")
    return _rows(rows, "no_outcome", severity, explained, F.lit(1), F.concat(F.lit("no outcome: "), said))


def _neighbours(at: str) -> Column:
    hour = hour_number(F.col(at))
    return F.array(hour - 1, hour, hour + 1)


def _is_started() -> Column:
    """A worker may have begun with it. One that was not connected provably did not."""
    return F.col("at_most_once") & is_run() & (F.coalesce("reason", F.lit("")) != "not_connected")


def _again(rows: DataFrame) -> DataFrame:
    """Those that came after another one of the same task within the hour before: with `before_...` of that one.

    `asked_again`: a client's message with this id was accepted after that one had ended.
    """
    order = Window.partitionBy("message_id").orderBy("ended_hour", "ended", "broker", "boot", "ticket")
    return (
        rows.select("*", *[F.lag(name).over(order).alias(f"before_{name}") for name in _BEFORE])
        .where(F.col("before_ended_hour") >= F.col("ended_hour") - 1)
        .withColumn("asked_again", F.coalesce(F.col("last_accepted") >= F.col("before_ended"), F.lit(False)))
        .withColumn("at", F.col("ended"))
    )


_BEFORE: Final = ("ended_hour", "ended", "outcome", "broker", "worker")


def _with_last_accepted(rows: DataFrame) -> DataFrame:
    near = Window.partitionBy("message_id").orderBy("ended_hour").rangeBetween(-1, 1)
    accepted = F.max(F.when(F.col("delegated_from").isNull(), F.col("arrived"))).over(near)
    return rows.withColumn("last_accepted", accepted)


def _two_outcomes(crowded: DataFrame) -> DataFrame:
    again = crowded.transform(_with_last_accepted).where(is_settled()).transform(_again)
    asked = F.col("asked_again")
    words = F.when(asked, "its client asked again after the first").otherwise("one task was ended twice")
    explanation = F.format_string(
        "%s at %s after %s at %s: %s", "outcome", "broker", "before_outcome", "before_broker", words
    )
    severity = F.when(asked, "info").otherwise("error")
    return _rows(again, "two_outcomes", severity, asked, F.lit(2), explanation)


def _at_most_once(crowded: DataFrame) -> DataFrame:
    again = crowded.transform(_with_last_accepted).where(_is_started()).transform(_again)
    asked = F.col("asked_again")
    words = F.when(asked, "its client asked again after the first").otherwise("it may have run twice")
    explanation = F.format_string("worker %s had it after worker %s: %s", "worker", "before_worker", words)
    severity = F.when(asked, "info").otherwise("error")
    return _rows(again, "at_most_once", severity, asked, F.lit(2), explanation)


def _late_answers(tasks: DataFrame) -> DataFrame:
    rows = tasks.where(F.col("outcome") == "LATE").withColumn("at", F.col("ended"))
    explanation = F.format_string(
        "an answer of worker %s after %s ms; the task had its outcome, so it was dropped",
        F.coalesce("worker", F.lit("unknown")),
        F.floor(F.col("total_ns") / 1_000_000).cast("string"),
    )
    return _rows(rows, "late_answer", F.lit("info"), F.lit(True), F.lit(1), explanation)


def _gaps(brokers: DataFrame) -> DataFrame:
    explanation = F.format_string(
        "%s rows of %s are missing: %s",
        F.coalesce(F.col("rows"), F.lit(0)).cast("string"),
        F.coalesce("table", F.lit("an unknown table")),
        F.coalesce("detail", F.lit("nobody said why")),
    )
    rows = brokers.where(F.col("event") == "gap").drop("service")
    return _rows(rows, "gap", F.lit("warning"), F.lit(True), F.coalesce("rows", F.lit(0)), explanation)


def _crash_windows(lost: DataFrame, brokers: DataFrame) -> DataFrame:
    """By the instant of the death: the first after the last checkpoint, as `unsettled` found it."""
    swallowed = (
        lost.where(F.col("fate") == "died")
        .groupBy("broker", F.col("end_at").alias("at"))
        .agg(F.count("*").alias("swallowed"))
    )
    died = (F.col("event") == "process_died") & (F.col("process") == "dispatcher")
    rows = brokers.where(died).select("broker", "boot", "at", "detail").join(swallowed, on=["broker", "at"], how="left")
    open_then = F.coalesce("swallowed", F.lit(0))
    explanation = F.format_string(
        "the dispatcher died (%s); %s tasks that were open at its last checkpoint have no outcome",
        F.coalesce("detail", F.lit("nobody said how")),
        open_then.cast("string"),
    )
    severity = F.when(open_then > 0, "warning").otherwise("info")
    return _rows(rows, "crash_window", severity, F.lit(True), open_then, explanation)


TABLE: Final = Table(
    "audit", Grain.HOURLY, ("tasks", "open_tasks", "brokers", "peers"), audit, neighbours=True, by_task=True
)
