"""What is costly is made once of the same rows, and again of others."""

from __future__ import annotations

import gc

from pyspark.sql import DataFrame, SparkSession

from famulus.pipeline.once import kept, let_go, once
from famulus.pipeline.pace import paced


def test_the_same_rows_are_asked_once_and_others_again(spark: SparkSession) -> None:
    asked = []

    @once
    def make(rows: DataFrame, more: object) -> int:
        asked.append(more)
        return len(asked)

    one, other, more = spark.range(1), spark.range(1), object()
    assert [make(one, more), make(one, more), make(other, more), make(one, other)] == [1, 1, 2, 3]
    del one
    gc.collect()
    assert make(spark.range(1), more) == 4


def test_rows_are_kept_until_they_are_let_go_unless_they_are_few(spark: SparkSession) -> None:
    many = kept(spark.range(3))
    states = [many.is_cached]
    let_go()
    states.append(many.is_cached)
    assert states == [True, False]
    with paced(spark, few=True):
        assert not kept(spark.range(3)).is_cached
