"""How each service did: minute by minute at each broker, hour by hour over all brokers of a family, and day by day."""

from __future__ import annotations

from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.journal.schema import Kind
from famulus.pipeline.columnar import figures
from famulus.pipeline.histogram import QUANTILES
from famulus.pipeline.tables import schemas
from famulus.pipeline.tables.column_types import ARROW, arrow_schema
from famulus.pipeline.tables.columns import quantiles
from famulus.pipeline.tables.histograms import beside, merged
from famulus.pipeline.tables.hourly import hourly, over_hours
from famulus.pipeline.tables.memo import memo

#: Of both tables: an hour has no broker, and `at` and `minute` are its begin.
_FIGURES: Final = arrow_schema(schemas.TABLES["service_minutes"]).append(pa.field("at", ARROW[Kind.INSTANT]))


def service_minutes(tasks: DataFrame) -> pa.Table | DataFrame:
    found = _figures(tasks)
    return found.where("broker IS NOT NULL") if isinstance(found, DataFrame) else _with_broker(found, is_wanted=True)


def service_hours(tasks: DataFrame) -> pa.Table | DataFrame:
    found = _figures(tasks)
    return found.where("broker IS NULL") if isinstance(found, DataFrame) else _with_broker(found, is_wanted=False)


@memo
def _figures(tasks: DataFrame) -> pa.Table | DataFrame:
    rows = hourly(tasks)
    return over_hours(tasks.sparkSession, rows.rows_of, partial(figures.figures, rows, _FIGURES), _FIGURES)


def _with_broker(rows: pa.Table, *, is_wanted: bool) -> pa.Table:
    has = rows["broker"].is_valid()
    return rows.filter(has if is_wanted else pc.invert(has))


def service_days(service_hours: DataFrame) -> DataFrame:
    rows, keys = service_hours.withColumn("day", F.col("date")), ("day", "service", "family")
    counts = rows.groupBy(*keys).agg(*[F.sum(name).alias(name) for name in figures.COUNTS])
    rows = beside(counts, merged(rows, keys, figures.HISTOGRAMS), keys)
    # In two steps, or Spark would go through a histogram once for each of its quantiles.
    found = {f"{measure}_quantiles": quantiles(f"{measure}_hist") for measure in figures.MEASURES}
    each = {f"{of}_{name}_ns": F.col(f"{of}_quantiles.{name}") for of in figures.MEASURES for name in QUANTILES}
    return rows.withColumns(found).withColumns(each)
