"""Few rows are made in another way than some, and these than many, and afterwards Spark is as before."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from famulus.pipeline.pace import FEW_ROWS, LANES_MAX, SOME_ROWS, Pace, pace_for, paced

NAME = "spark.sql.shuffle.partitions"
ADAPTIVE = "spark.sql.adaptive.enabled"


def test_the_pace_is_chosen_by_the_rows() -> None:
    rows = (0, FEW_ROWS, FEW_ROWS + 1, SOME_ROWS, SOME_ROWS + 1)
    assert [pace_for(each) for each in rows] == [Pace.FEW, Pace.FEW, Pace.SOME, Pace.SOME, Pace.MANY]


@pytest.mark.parametrize(("pace", "partitions"), [(Pace.FEW, "1"), (Pace.SOME, "cores"), (Pace.MANY, "77")])
def test_few_rows_need_no_partitions_and_many_do(spark: SparkSession, pace: Pace, partitions: str) -> None:
    cores = min(LANES_MAX, spark.sparkContext.defaultParallelism)
    spark.conf.set(NAME, "77")
    # Not as the other tests have it, or nobody could tell whether it was changed.
    spark.conf.set(ADAPTIVE, "true")
    try:
        with paced(spark, pace) as lanes:
            assert spark.conf.get(NAME) == partitions.replace("cores", str(cores))
            assert lanes == (1 if pace is Pace.MANY else cores)
            assert spark.conf.get(ADAPTIVE) == ("true" if pace is Pace.MANY else "false")
        assert (spark.conf.get(NAME), spark.conf.get(ADAPTIVE)) == ("77", "true")
    finally:
        spark.conf.set(NAME, "1")
        spark.conf.set(ADAPTIVE, "false")


def test_it_is_as_before_even_if_it_failed(spark: SparkSession) -> None:
    before = spark.conf.get(NAME)
    with pytest.raises(ZeroDivisionError), paced(spark, Pace.FEW):
        raise ZeroDivisionError
    assert spark.conf.get(NAME) == before
