"""How each service did: minute by minute at each broker, hour by hour over all brokers of a family, and day by day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.columns import hour_of, is_final, is_run, is_settled, minute_of, quantiles, sum_if
from famulus.pipeline.tables.histograms import beside, counted, merged
from famulus.pipeline.tables.schemas import QUANTILES

MEASURES: Final = ("queue", "service", "total")
_HISTOGRAMS: Final = (*(f"{measure}_hist" for measure in MEASURES), "not_ok_hist")
COUNTS: Final = (
    "tasks", "ok", "errors", "rejected", "unknown", "overloaded", "no_worker", "expired", "retries", "late",
    "delegated_out", "delegated_in", "runs", "request_bytes", "response_bytes", "busy_ns",
)  # fmt: skip


def service_minutes(tasks: DataFrame) -> DataFrame:
    rows = tasks.withColumn("minute", minute_of("ended"))
    return _of_tasks(rows, ("minute", "service", "family", "broker")).select("*", *hour_of("minute"))


def service_hours(service_minutes: DataFrame) -> DataFrame:
    rows = service_minutes.withColumn("at", F.date_trunc("hour", "minute"))
    return _of_figures(rows, ("at", "service", "family")).select("*", *hour_of("at"))


def service_days(service_hours: DataFrame) -> DataFrame:
    return _of_figures(service_hours.withColumn("day", F.col("date")), ("day", "service", "family"))


def _of_tasks(tasks: DataFrame, keys: Sequence[str]) -> DataFrame:
    """From rows of the journal's tasks, with the columns `keys` among them."""
    counts = tasks.groupBy(*keys).agg(*_counts())
    values = {f"{measure}_hist": F.when(is_settled(), F.col(f"{measure}_ns")) for measure in MEASURES}
    # Of few tasks: with `total_hist` it tells how many were OK, and within any time.
    values["not_ok_hist"] = F.when(is_settled() & (F.col("outcome") != "OK"), F.col("total_ns"))
    return _joined(counts, counted(tasks, keys, values), keys)


def _of_figures(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """From a table of such figures over shorter stretches."""
    counts = rows.groupBy(*keys).agg(*[F.sum(name).alias(name) for name in COUNTS])
    return _joined(counts, merged(rows, keys, _HISTOGRAMS), keys)


def _counts() -> list[Column]:
    outcome, reason = F.col("outcome"), F.col("reason")
    settled, rejected = is_settled(), is_settled() & (outcome == "REJECTED")
    on_time = outcome != "LATE"
    counts = {
        "tasks": settled,
        "ok": settled & (outcome == "OK"),
        "errors": settled & (outcome == "ERROR"),
        "rejected": rejected,
        "unknown": settled & (outcome == "UNKNOWN"),
        "overloaded": rejected & (reason == "overload"),
        "no_worker": rejected & reason.isin("no_worker", "no_service"),
        "expired": settled & (reason == "expired"),
        "retries": outcome == "RETRY",
        "late": ~on_time,
        "delegated_out": on_time & F.col("delegated_to").isNotNull(),
        "delegated_in": is_final() & F.col("delegated_from").isNotNull(),
        "runs": is_run(),
    }
    sums = {
        "request_bytes": sum_if("request_bytes", settled),
        "response_bytes": sum_if("response_bytes", settled),
        "busy_ns": sum_if("service_ns", is_run()),
    }
    return [
        *[F.count_if(condition).alias(name) for name, condition in counts.items()],
        *[amount.alias(name) for name, amount in sums.items()],
    ]


def _joined(counts: DataFrame, histograms: DataFrame, keys: Sequence[str]) -> DataFrame:
    # In two steps, or Spark would go through a histogram once for each of its quantiles.
    found = {f"{measure}_quantiles": quantiles(f"{measure}_hist") for measure in MEASURES}
    each = {f"{of}_{name}_ns": F.col(f"{of}_quantiles.{name}") for of in MEASURES for name in QUANTILES}
    return beside(counts, histograms, keys).withColumns(found).withColumns(each)
