"""How each worker did in the last day of data, beside the others of its services."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.tables.columns import count_of, minus, no_histogram, quantiles, total
from famulus.pipeline.tables.histograms import merged
from famulus.pipeline.tables.table import Grain, Table
from famulus.pipeline.tables.words import said

HOURS: Final = 24
#: Of fewer tasks no share and no median says much.
TASKS_MIN: Final = 20
_SUMS: Final = ("tasks", "errors", "unknown", "late")


def worker_health(worker_hours: DataFrame, workers: DataFrame) -> DataFrame:
    return (
        worker_hours.transform(_recent)
        .transform(_by_worker)
        .transform(_beside_others)
        .transform(_with_events, workers)
        .transform(_with_score)
    )


def _recent(worker_hours: DataFrame) -> DataFrame:
    """Counted from the newest hour that there is: the tables know no now."""
    rows = worker_hours.withColumn("at", F.to_timestamp(F.col("date")) + F.make_dt_interval(hours=F.col("hour")))
    newest = rows.agg(F.max("at").alias("newest"))
    since = F.col("newest") - F.make_dt_interval(hours=F.lit(HOURS - 1))
    return rows.join(F.broadcast(newest), on=F.col("at") >= since, how="inner")


def _by_worker(rows: DataFrame) -> DataFrame:
    keys = ["worker", "service"]
    sums = rows.groupBy(*keys).agg(
        F.min("family").alias("family"),
        F.min("at").alias("first_seen"),
        F.max("at").alias("last_seen"),
        F.max("newest").alias("newest"),
        *[F.sum(name).alias(name) for name in _SUMS],
    )
    return sums.join(merged(rows, keys, ["service_hist"]), on=keys, how="left").withColumn(
        "service_hist", F.coalesce(F.col("service_hist"), no_histogram())
    )


def _beside_others(rows: DataFrame) -> DataFrame:
    """What the service's other workers did is what all did, less what this one did."""
    together = merged(rows, ["service"], ["service_hist"]).withColumnRenamed("service_hist", "all_hist")
    of_service = Window.partitionBy("service")
    return (
        rows.join(together, on="service", how="left")
        .select("*", *[F.sum(name).over(of_service).alias(f"all_{name}") for name in ("tasks", "errors")])
        .withColumn("all_hist", F.coalesce("all_hist", no_histogram()))
        .withColumn("own", quantiles("service_hist"))
        .withColumn("rest_hist", minus("all_hist", "service_hist"))
        .withColumn("rest", quantiles("rest_hist"))
        .withColumns(
            {
                "share": F.coalesce(F.try_divide("tasks", "all_tasks"), F.lit(0.0)),
                "error_share": F.coalesce(F.try_divide("errors", "tasks"), F.lit(0.0)),
                "others_error_share": F.try_divide(
                    F.col("all_errors") - F.col("errors"), F.col("all_tasks") - F.col("tasks")
                ),
                "p50_ns": F.col("own.p50"),
                "p99_ns": F.col("own.p99"),
                "others_p50_ns": F.col("rest.p50"),
                "slowness": F.try_divide("own.p50", "rest.p50"),
                "enough": (count_of("service_hist") >= TASKS_MIN) & (count_of("rest_hist") >= TASKS_MIN),
            }
        )
    )


def _with_events(rows: DataFrame, workers: DataFrame) -> DataFrame:
    event = F.col("event")
    names = {"connects": "connect", "losses": "lost", "error_listed": "error_listed"}
    counts = [F.count_if(event == name).alias(column) for column, name in names.items()]
    newest = rows.agg(F.max("newest").alias("newest"))
    since = F.col("newest") - F.make_dt_interval(hours=F.lit(HOURS - 1))
    events = (
        workers.join(F.broadcast(newest), on=F.col("at") >= since, how="inner")
        .groupBy("worker")
        .agg(*counts, total(F.when(event == "lost", F.col("tasks"))).alias("lost_tasks"))
    )
    columns = (*names, "lost_tasks")
    none = F.lit(0).cast("long")
    return rows.join(events, on="worker", how="left").withColumns(
        {name: F.coalesce(F.col(name), none) for name in columns}
    )


def _with_score(rows: DataFrame) -> DataFrame:
    """100, less what each complaint costs."""
    costs = [(F.coalesce(cost, F.lit(0)), sentence) for cost, sentence in _complaints()]
    score = F.lit(100) - sum((cost for cost, _ in costs), F.lit(0))
    why = F.concat_ws("; ", *[F.when(cost > 0, sentence) for cost, sentence in costs])
    return rows.withColumns({"score": F.greatest(F.lit(0), score).cast("int"), "why": why})


def _points(amount: Column, most: int) -> Column:
    return F.least(F.lit(most), F.round(amount).cast("int"))


def _complaints() -> list[tuple[Column, Column]]:
    """Each with the points that it costs, null or 0 if there is nothing to complain of, and its words."""
    enough = F.col("tasks") >= TASKS_MIN
    others = F.coalesce("others_error_share", F.lit(0.0))
    excess = F.col("error_share") - others
    unknown, late = (F.try_divide(name, "tasks") for name in ("unknown", "late"))
    slowness, losses = F.col("slowness"), F.col("losses")
    return [
        (
            F.when(enough & (excess > 0.02), _points(excess * 200, 50)),
            said(
                "{own:.1f} % of its tasks are errors, of the others' {others:.1f} %",
                own=F.col("error_share") * 100,
                others=others * 100,
            ),
        ),
        (
            F.when(F.col("enough") & (slowness >= 1.5), _points((slowness - 1) * 20, 60)),
            said("its median service time is {slowness:.1f} times that of the others"),
        ),
        (
            # Once may be anybody's machine; every further time is a pattern.
            F.when(losses > 0, _points(losses * 15 - 5, 45)),
            said("lost {losses:once|# times}, with {lost_tasks:# task|# tasks}"),
        ),
        (
            F.when(enough & (unknown > 0.01), _points(unknown * 200, 30)),
            said("{share:.1f} % of its tasks ended as UNKNOWN", share=unknown * 100),
        ),
        (
            F.when(enough & (late > 0.01), _points(late * 100, 20)),
            said("{late:# answer|# answers} came too late"),
        ),
        (
            F.when(F.col("error_listed") > 0, F.lit(30)),
            said("put on the list of error workers {error_listed:once|# times}"),
        ),
    ]


TABLE: Final = Table("worker_health", Grain.WHOLE, ("worker_hours", "workers"), worker_health)
