"""Each loss of a worker or a broker: what it hit, and how long it took until all was normal again."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.tables.columns import later, minute_of, minutes_between, seconds_between, stable_id
from famulus.pipeline.tables.memo import cached

#: Peers that lose the same broker within this time report one loss.
EPISODE_S: Final = 60
#: The loss of a broker hits the services of which it had tasks in the minutes before.
MINUTES_BEFORE: Final = 5
MINUTES_AFTER: Final = 30
#: A minute is normal if at most one in this many of its tasks was rejected, became UNKNOWN or was tried again.
NORMAL_ONE_IN: Final = 20
#: Columns of `service_minutes`.
WANTED: Final = ("broker", "service", "minute", "tasks", "unknown", "rejected", "retries")


def failovers(losses: DataFrame, lost_attempts: DataFrame, service_minutes: DataFrame, audit: DataFrame) -> DataFrame:
    return (
        _episodes(losses)
        .transform(_with_services, service_minutes)
        .transform(_with_attempts, lost_attempts)
        .transform(_with_swallowed, audit)
        .transform(_with_recovery, service_minutes)
        .withColumn("tasks_hit", _tasks_hit())
    )


def _tasks_hit() -> Column:
    attempts = F.col("retries") + F.col("unknown")
    worker = F.greatest(F.col("tasks"), attempts)
    return F.when(F.col("kind") == "worker_lost", worker).otherwise(F.col("swallowed") + attempts)


def _episodes(losses: DataFrame) -> DataFrame:
    of_one = Window.partitionBy("kind", "lost").orderBy("at", "broker")
    gap_s = F.when(F.col("kind") == "peer_lost", EPISODE_S).otherwise(0)
    since_s = seconds_between(F.lag("at").over(of_one), "at")
    so_far = of_one.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    begins = F.coalesce(F.col("since_s") > gap_s, F.lit(True)).cast("long")
    episodes = (
        losses.withColumn("since_s", since_s)
        .withColumn("episode", F.sum(begins).over(so_far))
        .groupBy("kind", "lost", "episode")
        .agg(
            F.min("at").alias("seen"),
            F.max("at").alias("seen_last"),
            F.min(F.struct("at", "broker", "family")).alias("first"),
            F.sort_array(F.collect_set("broker")).alias("seen_by"),
            F.sort_array(F.array_distinct(F.flatten(F.collect_list("services")))).alias("own_services"),
            F.sum("tasks").alias("tasks"),
        )
        .withColumn("family", F.col("first.family"))
        .withColumn("id", stable_id("kind", "lost", F.unix_micros("seen").cast("string")))
        .drop("first", "episode")
    )
    return cached(episodes)


def _with_services(episodes: DataFrame, service_minutes: DataFrame) -> DataFrame:
    minutes = minutes_between(later("seen", -MINUTES_BEFORE), "seen")
    served = (
        episodes.where(F.col("kind") != "worker_lost")
        .select("id", F.col("lost").alias("broker"), F.explode(minutes).alias("minute"))
        .join(service_minutes.select("broker", "minute", "service"), on=["broker", "minute"], how="inner")
        .groupBy("id")
        .agg(F.sort_array(F.collect_set("service")).alias("served"))
    )
    rows = episodes.join(served, on="id", how="left").withColumn("services", F.coalesce("served", "own_services"))
    return cached(rows)


def _with_attempts(episodes: DataFrame, lost_attempts: DataFrame) -> DataFrame:
    lost_kind = F.when(F.col("kind") == "worker_lost", "worker").otherwise("broker")
    keys = ["lost_kind", "lost", "broker", "minute"]
    # The death of a dispatcher is reported by its peers, in an episode of their own.
    sums = (
        episodes.where(F.col("kind") != "dispatcher_died")
        .withColumns({"lost_kind": lost_kind, "minute": F.explode(minutes_between("seen", "seen_last"))})
        .withColumn("broker", F.explode("seen_by"))
        .select("id", *keys)
        .join(lost_attempts.select(*keys, "retries", "unknown"), on=keys, how="inner")
        .groupBy("id")
        .agg(F.sum("retries").alias("retries"), F.sum("unknown").alias("unknown"))
    )
    return episodes.join(sums, on="id", how="left").fillna(0, ["retries", "unknown"])


def _with_swallowed(episodes: DataFrame, audit: DataFrame) -> DataFrame:
    """For a dispatcher: what the audit found in the window of its crash."""
    windows = (
        audit.where(F.col("kind") == "crash_window")
        .groupBy(F.lit("dispatcher_died").alias("kind"), F.col("broker").alias("lost"), F.col("at").alias("seen"))
        .agg(F.sum("rows").alias("swallowed"))
    )
    return episodes.join(windows, on=["kind", "lost", "seen"], how="left").fillna(0, ["swallowed"])


def _with_recovery(episodes: DataFrame, service_minutes: DataFrame) -> DataFrame:
    """A service in trouble is normal again in the first minute that goes well; the loss is over when all are.

    A service that does well at once, or has no tasks, was never in trouble: it is normal in the minute of the loss.
    """
    bad = F.col("unknown") + F.col("rejected") + F.col("retries")
    asked = (
        service_minutes.groupBy("service", "minute")
        .agg(F.sum("tasks").alias("tasks"), F.sum(bad).alias("bad"))
        .where(F.col("tasks") > 0)
        .select("service", "minute", (F.col("bad") * NORMAL_ONE_IN <= F.col("tasks")).alias("fine"))
    )
    minutes = minutes_between("seen", later("seen", MINUTES_AFTER))
    in_trouble = F.col("not_fine").isNotNull() & F.coalesce(F.col("fine") > F.col("not_fine"), F.lit(True))
    troubles = (
        episodes.select("id", F.explode("services").alias("service"), minutes.alias("minutes"))
        .select("id", "service", F.explode("minutes").alias("minute"))
        .join(asked, on=["service", "minute"], how="inner")
        .groupBy("id", "service")
        .agg(
            F.min(F.when(F.col("fine"), F.col("minute"))).alias("fine"),
            F.min(F.when(~F.col("fine"), F.col("minute"))).alias("not_fine"),
        )
        .where(in_trouble)
        .groupBy("id")
        .agg(F.count("*").alias("troubled"), F.count("fine").alias("recovered"), F.max("fine").alias("last"))
    )
    over = (
        F.when(F.size("services") == 0, None)
        .when(F.col("troubled").isNull(), minute_of("seen"))
        .when(F.col("recovered") == F.col("troubled"), F.col("last"))
    )
    return (
        episodes.join(troubles, on="id", how="left")
        .withColumn("normal", over)
        .withColumn("recovery_s", F.when(over.isNotNull(), F.greatest(F.lit(0.0), seconds_between("seen", over))))
    )
