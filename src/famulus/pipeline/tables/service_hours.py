"""How each service did, hour by hour, over all brokers of a family.

From the tasks themselves and not from the minutes: the histograms of an hour are made of few buckets, and those of all
its minutes are not.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline import schemas
from famulus.pipeline.columns import hour_of
from famulus.pipeline.spark_types import contract
from famulus.pipeline.tables import service_figures
from famulus.pipeline.tables.table import Grain, Table


def service_hours(tasks: DataFrame) -> DataFrame:
    rows = tasks.withColumn("at", F.date_trunc("hour", "ended"))
    figures = service_figures.of_tasks(rows, ("at", "service", "family"))
    return figures.select("*", *hour_of(F.col("at"))).transform(contract, schemas.SERVICE_HOURS)


TABLE: Final = Table("service_hours", Grain.HOURLY, ("tasks",), service_hours)
