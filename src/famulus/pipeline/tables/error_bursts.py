"""Stretches of minutes in which a service failed more often than chance would have it. No table: `anomalies` has them.

Two errors of twenty tasks are ten percent, and nothing but chance. So a service is looked at in stretches in which it
usually has tasks enough, and each is asked how likely so many errors are if it were as any other stretch: by Chernoff's
bound of the binomial law, which is never too small. As there are many stretches, each has to be that much less likely.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

#: The lengths that a stretch may have, in minutes; the shortest in which a service has this many tasks on average.
LENGTHS: Final = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60)
TASKS_MIN: Final = 20
#: Of this many journals in which all is chance, one has a burst.
ONE_IN: Final = 100
#: A share that is less than so far from another one is no news, however sure it is.
SHARE_FLOOR: Final = 0.01


def error_bursts(minutes: DataFrame, score_min: float, mad_to_deviation: float) -> DataFrame:
    """Of minutes with `service`, `minute`, `tasks` and `bad`, the idle ones among them: those that are in a burst."""
    pooled = minutes.transform(_with_stretch)
    stretches = (
        pooled.groupBy("service", "since")
        .agg(F.sum("tasks").alias("n"), F.sum("bad").alias("k"))
        .where(F.col("n") > 0)
        .transform(_with_usual)
        .transform(_with_distance, mad_to_deviation)
    )
    compared = stretches.agg(F.count("*").alias("compared"))
    enough = F.ln(F.col("compared") * ONE_IN)
    bursts = (
        stretches.where((F.col("k") > 0) & (F.col("score") >= score_min))
        .crossJoin(F.broadcast(compared))
        .where(_odds() >= enough)
        .select("service", "since", "value", "usual", "distance", "score")
    )
    return (
        pooled.where(F.col("tasks") > 0)
        .join(bursts, on=["service", "since"], how="inner")
        .select("service", "minute", "tasks", "value", "usual", "distance", "score")
    )


def _with_stretch(minutes: DataFrame) -> DataFrame:
    """`since`: the begin of the stretch that a minute belongs to. All of a service are of one length, from the full
    hour on."""
    mean = minutes.groupBy("service").agg((F.sum("tasks") / F.count("*")).alias("mean"))
    lengths = ", ".join(map(str, LENGTHS))
    length = F.expr(f"coalesce(array_min(filter(array({lengths}), each -> each * mean >= {TASKS_MIN})), {LENGTHS[-1]})")
    seconds = F.col("length") * 60
    since = F.timestamp_seconds(F.floor(F.unix_seconds("minute") / seconds) * seconds)
    return minutes.join(mean.withColumn("length", length), on="service", how="inner").withColumn("since", since)


def _with_usual(stretches: DataFrame) -> DataFrame:
    """The share of errors in all other stretches of the service; or, if that is more, at this hour of other days.

    One error in two tasks is added to what was seen: of a service that never failed, the first error is no burst.
    """
    of_service = Window.partitionBy("service")
    of_hour = Window.partitionBy("service", F.hour("since"))
    of_day = Window.partitionBy("service", F.hour("since"), F.to_date("since"))

    def elsewhere(name: str) -> Column:
        return F.sum(name).over(of_hour) - F.sum(name).over(of_day)

    others = _share(F.sum("k").over(of_service) - F.col("k"), F.sum("n").over(of_service) - F.col("n"))
    other_days = F.when(F.col("n_elsewhere") >= TASKS_MIN, _share(F.col("k_elsewhere"), F.col("n_elsewhere")))
    return (
        stretches.select("*", elsewhere("k").alias("k_elsewhere"), elsewhere("n").alias("n_elsewhere"))
        .withColumn("usual", F.greatest(others, other_days))
        .withColumn("value", F.col("k") / F.col("n"))
    )


def _share(errors: Column, tasks: Column) -> Column:
    return (errors + 1) / (tasks + 2)


def _with_distance(stretches: DataFrame, mad_to_deviation: float) -> DataFrame:
    """What chance alone makes of so few tasks, or what is usual here if errors come in clusters."""
    of_service = Window.partitionBy("service")
    usual = F.col("usual")
    by_chance = F.sqrt(usual * (1 - usual) / F.col("n"))
    return (
        stretches.withColumn("middle", F.median("value").over(of_service))
        .withColumn("mad", F.median(F.abs(F.col("value") - F.col("middle"))).over(of_service))
        .withColumn("distance", F.greatest(F.lit(SHARE_FLOOR), by_chance, F.col("mad") * mad_to_deviation))
        .withColumn("score", (F.col("value") - usual) / F.col("distance"))
    )


def _odds() -> Column:
    """Of chance against it, at least, as a logarithm: n times the divergence of the share from the usual one."""
    n, k, share, usual = (F.col(name) for name in ("n", "k", "value", "usual"))
    rest = F.when(k < n, (n - k) * F.ln((1 - share) / (1 - usual))).otherwise(F.lit(0.0))
    return k * F.ln(share / usual) + rest
