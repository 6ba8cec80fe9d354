"""Minutes in which a service was not as usual, compared with the same hour of the day in the last two weeks.

Median and median distance (MAD) instead of mean and deviation: a few bad minutes must not become the norm. The
distance has a floor for each measure, since small values fluctuate without meaning anything. For errors that is not
enough, since with few tasks the share fluctuates by more than any floor: see `_error_bursts`.
"""

from __future__ import annotations

import math
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.tables import schemas
from famulus.pipeline.tables.columns import minutes_between
from famulus.pipeline.tables.frames import newest
from famulus.pipeline.tables.memo import cached

DAYS: Final = 14
#: How many times the usual distance is too far.
SCORE_MIN: Final = 6.0
#: The deviation of a normal distribution, as a multiple of its MAD.
MAD_TO_DEVIATION: Final = 1.4826
_COLUMNS: Final = [column.name for column in schemas.TABLES["anomalies"]]
#: Minutes that an hour of the day must have had, and tasks that a minute must have for percentiles.
MINUTES_MIN: Final = 20
TASKS_MIN: Final = 20
#: Columns of `service_minutes`.
WANTED: Final = ("date", "service", "minute", "tasks", "errors", "unknown", "total_p99_ns")
#: The lengths that a stretch may have, in minutes; the shortest with this many tasks on average is taken.
LENGTHS: Final = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60)
STRETCH_TASKS_MIN: Final = 20
#: Of this many journals in which all errors are due to chance, one has a burst.
ONE_IN: Final = 100
#: A share that differs from another one by less than this is no news, however certain it is.
SHARE_FLOOR: Final = 0.01


def anomalies(service_minutes: DataFrame) -> DataFrame:
    minutes = cached(service_minutes.transform(_recent).transform(_over_brokers).transform(_with_silent_minutes))
    far = (
        minutes.transform(_by_measure)
        .transform(_with_baseline)
        .transform(_with_score)
        .where(F.abs("score") >= SCORE_MIN)
        .select(*_COLUMNS)
    )
    return far.unionByName(minutes.transform(_error_bursts))


def _recent(service_minutes: DataFrame) -> DataFrame:
    return service_minutes.where(F.col("date") > F.date_sub(newest(service_minutes, "minute"), DAYS))


def _over_brokers(rows: DataFrame) -> DataFrame:
    steady = F.when(F.col("tasks") >= TASKS_MIN, F.col("total_p99_ns"))
    minutes = rows.groupBy("service", "minute").agg(
        F.sum("tasks").alias("tasks"),
        F.sum(F.col("errors") + F.col("unknown")).alias("bad"),
        F.max(steady).alias("p99"),
    )
    return cached(minutes)


def _with_silent_minutes(rows: DataFrame) -> DataFrame:
    """A minute without a task has no row, and may be the most telling of all."""
    every = minutes_between(F.min("minute"), newest(rows, "minute"))
    return (
        rows.groupBy("service")
        .agg(every.alias("every"))
        .select("service", F.explode("every").alias("minute"))
        .join(rows, on=["service", "minute"], how="left")
        .fillna(0, ["tasks", "bad"])
    )


def _by_measure(rows: DataFrame) -> DataFrame:
    """One row per minute and measure. `scaled` is what is compared: times by their logarithm."""
    tasks, p99 = F.col("tasks").cast("double"), F.col("p99").cast("double")
    measures = F.array(_measure("rate", tasks, tasks), _measure("p99_ns", p99, F.ln(p99 + 1)))
    return (
        rows.withColumns({"hour_of_day": F.hour("minute"), "each": F.explode(measures)})
        .select("service", "minute", "tasks", "hour_of_day", "each.*")
        .where(F.col("value").isNotNull())
    )


def _measure(name: str, value: Column, scaled: Column) -> Column:
    return F.struct(F.lit(name).alias("measure"), value.alias("value"), scaled.alias("scaled"))


def _with_baseline(rows: DataFrame) -> DataFrame:
    """Two passes: the median, then the median of the distances from it."""
    alike = Window.partitionBy("service", "hour_of_day", "measure")
    return (
        rows.select("*", F.median("scaled").over(alike).alias("middle"), F.count("*").over(alike).alias("minutes"))
        .where(F.col("minutes") >= MINUTES_MIN)
        .withColumn("mad", F.median(F.abs(F.col("scaled") - F.col("middle"))).over(alike))
    )


def _with_score(rows: DataFrame) -> DataFrame:
    measure, middle = F.col("measure"), F.col("middle")
    # If n tasks come at random, the square root of n is noise; and a handful is never news.
    floor = F.when(measure == "rate", F.greatest(F.lit(2.0), F.sqrt(middle))).otherwise(F.lit(0.1))
    distance = F.greatest(F.col("mad") * MAD_TO_DEVIATION, floor)
    score = (F.col("scaled") - middle) / distance
    # A service that answers faster than it used to is no problem.
    counted = F.when((measure == "rate") | (score > 0), score).otherwise(F.lit(0.0))
    is_time = measure == "p99_ns"
    baseline = F.when(is_time, F.exp(middle) - 1).otherwise(middle)
    return rows.withColumns(
        {
            "score": F.round(counted, 3),
            "baseline": F.round(baseline, 6),
            "spread": F.round(F.when(is_time, (baseline + 1) * (F.exp(distance) - 1)).otherwise(distance), 6),
            "direction": F.when(score > 0, "high").otherwise("low"),
        }
    )


# -- errors -------------------------------------------------------------------------------------------------------


def _error_bursts(minutes: DataFrame) -> DataFrame:
    """Minutes of stretches in which a service failed more often than chance would explain.

    Two errors in twenty tasks are ten percent, and nothing but chance. So a service is looked at in stretches in which
    it usually has enough tasks, and for each we ask how likely so many errors would be if it were like any other
    stretch: by Chernoff's bound for the binomial distribution, which is never too small. As there are many stretches,
    each has to be that much less likely.
    """
    pooled = cached(minutes.transform(_with_stretch))
    stretches = cached(
        pooled.groupBy("service", "since")
        .agg(F.sum("tasks").alias("n"), F.sum("bad").alias("k"))
        .where(F.col("n") > 0)
        .transform(_with_usual)
        .transform(_with_distance)
    )
    enough = math.log(max(1, stretches.count()) * ONE_IN)
    rounded = {"baseline": F.round("usual", 6), "spread": F.round("distance", 6), "score": F.round("score", 3)}
    bursts = (
        stretches.where((F.col("k") > 0) & (F.col("score") >= SCORE_MIN))
        .where(_odds() >= enough)
        .withColumns(rounded)
        .select("service", "since", "value", *rounded)
    )
    return (
        pooled.where(F.col("tasks") > 0)
        .join(bursts, on=["service", "since"], how="inner")
        .withColumns({"measure": F.lit("error_share"), "direction": F.lit("high")})
        .select(*_COLUMNS)
    )


def _with_stretch(minutes: DataFrame) -> DataFrame:
    """`since`: the start of the stretch that a minute belongs to. All stretches of a service have the same length,
    from the full hour on."""
    mean = minutes.groupBy("service").agg((F.sum("tasks") / F.count("*")).alias("mean"))
    enough = f"filter(array({', '.join(map(str, LENGTHS))}), each -> each * mean >= {STRETCH_TASKS_MIN})"
    length = F.expr(f"coalesce(array_min({enough}), {LENGTHS[-1]})")
    seconds = F.col("length") * 60
    since = F.timestamp_seconds(F.floor(F.unix_seconds("minute") / seconds) * seconds)
    return minutes.join(mean.withColumn("length", length), on="service", how="inner").withColumn("since", since)


def _with_usual(stretches: DataFrame) -> DataFrame:
    """The share of errors in all other stretches of the service; or, if that is more, at this hour of other days.

    One error in two tasks is added to what was seen: for a service that never failed, the first error is not a burst.
    """
    of_service = Window.partitionBy("service")
    of_hour = Window.partitionBy("service", F.hour("since"))
    of_day = Window.partitionBy("service", F.hour("since"), F.to_date("since"))

    def elsewhere(name: str) -> Column:
        return F.sum(name).over(of_hour) - F.sum(name).over(of_day)

    others = _share(F.sum("k").over(of_service) - F.col("k"), F.sum("n").over(of_service) - F.col("n"))
    other_days = F.when(F.col("n_elsewhere") >= STRETCH_TASKS_MIN, _share(F.col("k_elsewhere"), F.col("n_elsewhere")))
    return (
        stretches.select("*", elsewhere("k").alias("k_elsewhere"), elsewhere("n").alias("n_elsewhere"))
        .withColumn("usual", F.greatest(others, other_days))
        .withColumn("value", F.col("k") / F.col("n"))
    )


def _share(errors: Column, tasks: Column) -> Column:
    return (errors + 1) / (tasks + 2)


def _with_distance(stretches: DataFrame) -> DataFrame:
    """The distance that chance alone causes with so few tasks, or the usual one here if errors come in clusters."""
    of_service = Window.partitionBy("service")
    usual = F.col("usual")
    by_chance = F.sqrt(usual * (1 - usual) / F.col("n"))
    return (
        stretches.withColumn("middle", F.median("value").over(of_service))
        .withColumn("mad", F.median(F.abs(F.col("value") - F.col("middle"))).over(of_service))
        .withColumn("distance", F.greatest(F.lit(SHARE_FLOOR), by_chance, F.col("mad") * MAD_TO_DEVIATION))
        .withColumn("score", (F.col("value") - usual) / F.col("distance"))
    )


def _odds() -> Column:
    """The odds against chance, at least, as a logarithm: n times the divergence of the share from the usual one."""
    n, k, share, usual = (F.col(name) for name in ("n", "k", "value", "usual"))
    rest = F.when(k < n, (n - k) * F.ln((1 - share) / (1 - usual))).otherwise(F.lit(0.0))
    return k * F.ln(share / usual) + rest
