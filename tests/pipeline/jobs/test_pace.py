"""Few rows are made in another way than many, and afterwards Spark is as before."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from famulus.pipeline.pace import paced

NAME = "spark.sql.shuffle.partitions"


def test_few_rows_need_no_partitions_and_many_do(spark: SparkSession) -> None:
    spark.conf.set(NAME, "7")
    try:
        with paced(spark, few=True):
            assert spark.conf.get(NAME) == "1"
        assert spark.conf.get(NAME) == "7"
        with paced(spark, few=False):
            assert spark.conf.get(NAME) == "7"
    finally:
        spark.conf.set(NAME, "1")


def test_it_is_as_before_even_if_it_failed(spark: SparkSession) -> None:
    before = spark.conf.get(NAME)
    with pytest.raises(ZeroDivisionError), paced(spark, few=True):
        raise ZeroDivisionError
    assert spark.conf.get(NAME) == before
