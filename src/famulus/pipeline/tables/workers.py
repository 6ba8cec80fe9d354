"""What each worker did, hour by hour; and how it did in the last day of data, compared with others of its services."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.columnar import sums
from famulus.pipeline.tables import schemas
from famulus.pipeline.tables.column_types import arrow_schema
from famulus.pipeline.tables.columns import count_of, minus, quantiles, total
from famulus.pipeline.tables.frames import newest
from famulus.pipeline.tables.histograms import beside, merged
from famulus.pipeline.tables.hourly import computed
from famulus.pipeline.tables.memo import cached
from famulus.pipeline.tables.words import said

HOURS: Final = 24
#: With fewer tasks, no share and no median says much.
TASKS_MIN: Final = 20
_SUMS: Final = ("tasks", "errors", "unknown", "late")


_WORKER_SUMS: Final = arrow_schema(schemas.TABLES["worker_hours"])


def worker_hours(tasks: DataFrame) -> pa.Table | DataFrame:
    """What each worker did for each service, hour by hour."""
    return computed(tasks, sums.WORKER_COLUMNS, sums.of_workers, _WORKER_SUMS)


def worker_health(worker_hours: DataFrame, workers: DataFrame) -> DataFrame:
    """How each worker did in the last day of data, compared with the others of its services."""
    rows = worker_hours.withColumn("at", F.to_timestamp(F.col("date")) + F.make_dt_interval(hours=F.col("hour")))
    since = newest(rows, "at") - F.make_dt_interval(hours=F.lit(HOURS - 1))
    return (
        rows.where(F.col("at") >= since)
        .transform(_by_worker)
        .transform(_beside_others)
        .transform(_with_events, workers.where(F.col("at") >= since))
        .transform(_with_score)
    )


def _by_worker(rows: DataFrame) -> DataFrame:
    keys = ["worker", "service"]
    sums = rows.groupBy(*keys).agg(
        F.min("family").alias("family"),
        F.min("at").alias("first_seen"),
        F.max("at").alias("last_seen"),
        *[F.sum(name).alias(name) for name in _SUMS],
    )
    return cached(beside(sums, merged(rows, keys, ["service_hist"]), keys))


def _beside_others(rows: DataFrame) -> DataFrame:
    """What the service's other workers did is what all did, less what this one did."""
    together = merged(rows, ["service"], ["service_hist"]).withColumnRenamed("service_hist", "all_hist")
    of_service = Window.partitionBy("service")
    return (
        beside(rows, together, ["service"])
        .select("*", *[F.sum(name).over(of_service).alias(f"all_{name}") for name in ("tasks", "errors")])
        .withColumn("own", quantiles("service_hist"))
        .withColumn("rest_hist", minus("all_hist", "service_hist"))
        .withColumn("rest", quantiles("rest_hist"))
        .withColumns(
            {
                "share": F.coalesce(F.try_divide("tasks", "all_tasks"), F.lit(0.0)),
                "error_share": F.coalesce(F.try_divide("errors", "tasks"), F.lit(0.0)),
                "others_error_share": F.try_divide(F.expr("all_errors - errors"), F.expr("all_tasks - tasks")),
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
    lost_tasks = total(F.when(event == "lost", F.col("tasks")))
    events = workers.groupBy("worker").agg(*counts, lost_tasks.alias("lost_tasks"))
    columns = (*names, "lost_tasks")
    none = F.lit(0).cast("long")
    return rows.join(events, on="worker", how="left").withColumns({name: F.coalesce(name, none) for name in columns})


def _with_score(rows: DataFrame) -> DataFrame:
    """100, less what each complaint costs."""
    others, unknown = F.coalesce("others_error_share", F.lit(0.0)), F.try_divide("unknown", "tasks")
    costs = {words: F.coalesce(cost, F.lit(0)) for words, cost in _complaints(others, unknown).items()}
    score = F.lit(100) - sum(costs.values(), F.lit(0))
    percent = {"own": F.col("error_share") * 100, "others": others * 100, "unknowns": unknown * 100}
    why = F.concat_ws("; ", *[F.when(cost > 0, said(words, **percent)) for words, cost in costs.items()])
    return rows.withColumns({"score": F.greatest(F.lit(0), score).cast("int"), "why": why})


def _points(amount: Column, most: int) -> Column:
    return F.least(F.lit(most), F.round(amount).cast("int"))


def _complaints(others: Column, unknown: Column) -> dict[str, Column]:
    """Each with the points that it costs, null or 0 if there is nothing to complain about."""
    enough = F.col("tasks") >= TASKS_MIN
    excess, late = F.col("error_share") - others, F.try_divide("late", "tasks")
    slowness, lost = F.col("slowness"), F.col("losses")
    return {
        "{own:.1f} % of its tasks are errors, of the others' {others:.1f} %": F.when(
            enough & (excess > 0.02), _points(excess * 200, 50)
        ),
        "its median service time is {slowness:.1f} times that of the others": F.when(
            F.col("enough") & (slowness >= 1.5), _points((slowness - 1) * 20, 60)
        ),
        # Once may happen to any machine; every further time is a pattern.
        "lost {losses:once|# times}, with {lost_tasks:# task|# tasks}": F.when(lost > 0, _points(lost * 15 - 5, 45)),
        "{unknowns:.1f} % of its tasks ended as UNKNOWN": F.when(enough & (unknown > 0.01), _points(unknown * 200, 30)),
        "{late:# answer|# answers} came too late": F.when(enough & (late > 0.01), _points(late * 100, 20)),
        "put on the list of error workers {error_listed:once|# times}": F.when(F.col("error_listed") > 0, 30),
    }
