"""How each service did: minute by minute at each broker, hour by hour over all brokers of a family, and day by day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.columnar import sums
from famulus.pipeline.tables import schemas
from famulus.pipeline.tables.column_types import arrow_schema
from famulus.pipeline.tables.columns import hour_of, quantiles
from famulus.pipeline.tables.histograms import beside, merged
from famulus.pipeline.tables.hourly import computed
from famulus.pipeline.tables.schemas import QUANTILES

_HISTOGRAMS: Final = (*(f"{measure}_hist" for measure in sums.MEASURES), "not_ok_hist")
COUNTS: Final = (
    "tasks", "ok", "errors", "rejected", "unknown", "overloaded", "no_worker", "expired", "retries", "late",
    "delegated_out", "delegated_in", "runs", "request_bytes", "response_bytes", "busy_ns",
)  # fmt: skip


#: Those that follow from the others need not be computed with them.
_SUMS: Final = arrow_schema(
    column
    for column in schemas.TABLES["service_minutes"]
    if column.name in ("minute", "service", "family", "broker", *COUNTS, *_HISTOGRAMS)
)


def service_minutes(tasks: DataFrame) -> DataFrame:
    rows = computed(tasks, sums.MINUTE_COLUMNS, sums.of_minutes, _SUMS, by_minute=True)
    return _with_quantiles(rows).select("*", *hour_of("minute"))


def service_hours(service_minutes: DataFrame) -> DataFrame:
    rows = service_minutes.withColumn("at", F.date_trunc("hour", "minute"))
    return _of_figures(rows, ("at", "service", "family")).select("*", *hour_of("at"))


def service_days(service_hours: DataFrame) -> DataFrame:
    return _of_figures(service_hours.withColumn("day", F.col("date")), ("day", "service", "family"))


def _of_figures(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """From a table of such figures over shorter stretches."""
    counts = rows.groupBy(*keys).agg(*[F.sum(name).alias(name) for name in COUNTS])
    return _with_quantiles(beside(counts, merged(rows, keys, _HISTOGRAMS), keys))


def _with_quantiles(rows: DataFrame) -> DataFrame:
    # In two steps, or Spark would go through a histogram once for each of its quantiles.
    found = {f"{measure}_quantiles": quantiles(f"{measure}_hist") for measure in sums.MEASURES}
    each = {f"{of}_{name}_ns": F.col(f"{of}_quantiles.{name}") for of in sums.MEASURES for name in QUANTILES}
    return rows.withColumns(found).withColumns(each)
