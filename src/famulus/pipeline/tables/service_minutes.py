"""How each service did at each broker, minute by minute."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables import schemas, service_figures
from famulus.pipeline.tables.columns import hour_of, minute_of
from famulus.pipeline.tables.spark_types import contract
from famulus.pipeline.tables.table import Grain, Table


def service_minutes(tasks: DataFrame) -> DataFrame:
    rows = tasks.withColumn("minute", minute_of(F.col("ended")))
    figures = service_figures.of_tasks(rows, ("minute", "service", "family", "broker"))
    return figures.select("*", *hour_of(F.col("minute"))).transform(contract, schemas.SERVICE_MINUTES)


TABLE: Final = Table("service_minutes", Grain.HOURLY, ("tasks",), service_minutes)
