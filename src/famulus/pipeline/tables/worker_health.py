"""How each worker did in the last day of data, beside the others of its services."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.tables import schemas
from famulus.pipeline.tables.columns import count_of, minus, no_histogram, quantiles, total
from famulus.pipeline.tables.histograms import merged
from famulus.pipeline.tables.spark_types import contract
from famulus.pipeline.tables.table import Grain, Table

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
        .transform(contract, schemas.WORKER_HEALTH)
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
    """100, less what each complaint costs. A complaint is its points and its words."""
    complaints = [_errors(), _slow(), _lost(), _unknown(), _late(), _listed()]
    points = F.lit(0)
    for cost, _ in complaints:
        points = points + F.coalesce(cost, F.lit(0))
    words = [F.when(F.coalesce(cost, F.lit(0)) > 0, sentence) for cost, sentence in complaints]
    return rows.withColumns(
        {"score": F.greatest(F.lit(0), F.lit(100) - points).cast("int"), "why": F.concat_ws("; ", *words)}
    )


def _percent(share: Column) -> Column:
    return F.format_string("%.1f %%", share)


def _points(amount: Column, most: int) -> Column:
    return F.least(F.lit(most), F.round(amount).cast("int"))


def _errors() -> tuple[Column, Column]:
    others = F.coalesce("others_error_share", F.lit(0.0))
    excess = F.col("error_share") - others
    cost = F.when((F.col("tasks") >= TASKS_MIN) & (excess > 0.02), _points(excess * 200, 50))
    return cost, F.format_string(
        "%s of its tasks are errors, of the others' %s", _percent(F.col("error_share") * 100), _percent(others * 100)
    )


def _slow() -> tuple[Column, Column]:
    slowness = F.col("slowness")
    cost = F.when(F.col("enough") & (slowness >= 1.5), _points((slowness - 1) * 20, 60))
    return cost, F.format_string("its median service time is %.1f times that of the others", slowness)


def _lost() -> tuple[Column, Column]:
    # Once may be anybody's machine; every further time is a pattern.
    cost = F.when(F.col("losses") > 0, _points(F.col("losses") * 15 - 5, 45))
    return cost, F.format_string("lost %d times, with %d tasks", "losses", "lost_tasks")


def _unknown() -> tuple[Column, Column]:
    share = F.try_divide("unknown", "tasks")
    cost = F.when((F.col("tasks") >= TASKS_MIN) & (share > 0.01), _points(share * 200, 30))
    return cost, F.format_string("%s of its tasks ended as UNKNOWN", _percent(share * 100))


def _late() -> tuple[Column, Column]:
    share = F.try_divide("late", "tasks")
    cost = F.when((F.col("tasks") >= TASKS_MIN) & (share > 0.01), _points(share * 100, 20))
    return cost, F.format_string("%d answers came too late", "late")


def _listed() -> tuple[Column, Column]:
    cost = F.when(F.col("error_listed") > 0, F.lit(30))
    return cost, F.format_string("put on the list of error workers %d times", "error_listed")


TABLE: Final = Table("worker_health", Grain.WHOLE, ("worker_hours", "workers"), worker_health)
