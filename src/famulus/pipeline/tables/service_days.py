"""How each service did, day by day: the sum of its hours."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables import schemas, service_figures
from famulus.pipeline.tables.spark_types import contract
from famulus.pipeline.tables.table import Grain, Table


def service_days(service_hours: DataFrame) -> DataFrame:
    rows = service_hours.withColumn("day", F.col("date"))
    return service_figures.of_figures(rows, ("day", "service", "family")).transform(contract, schemas.SERVICE_DAYS)


TABLE: Final = Table("service_days", Grain.WHOLE, ("service_hours",), service_days)
