"""How each service did, hour by hour, over all brokers of a family."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables import schemas, service_figures
from famulus.pipeline.tables.columns import hour_of
from famulus.pipeline.tables.spark_types import contract
from famulus.pipeline.tables.table import Grain, Table


def service_hours(service_minutes: DataFrame) -> DataFrame:
    rows = service_minutes.withColumn("at", F.date_trunc("hour", "minute"))
    figures = service_figures.of_figures(rows, ("at", "service", "family"))
    return figures.select("*", *hour_of(F.col("at"))).transform(contract, schemas.SERVICE_HOURS)


TABLE: Final = Table("service_hours", Grain.HOURLY, ("service_minutes",), service_hours)
