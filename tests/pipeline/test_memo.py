"""What is costly is made once of the same rows, and again of others."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from pyspark.sql import DataFrame, SparkSession

from famulus.pipeline.tables.memo import cached, memo, release_cached
from famulus.pipeline.tables.scale import Scale, session_for


def test_the_same_rows_are_asked_once_and_others_again(spark: SparkSession) -> None:
    asked = []

    @memo
    def make(rows: DataFrame, more: object) -> int:
        asked.append(more)
        return len(asked)

    one, other, more = spark.range(1), spark.range(1), object()
    assert [make(one, more), make(one, more), make(other, more), make(one, other)] == [1, 1, 2, 3]
    del one
    gc.collect()
    assert make(spark.range(1), more) == 4


def test_two_that_ask_at_the_same_time_get_the_same(spark: SparkSession) -> None:
    # Of the one who makes it, and of us: were both of them there, nobody would be left for us.
    met = Barrier(2, timeout=10)

    @memo
    def make(rows: DataFrame) -> object:
        met.wait()
        return object()

    rows = spark.range(1)
    with ThreadPoolExecutor(2) as pool:
        first, second = (pool.submit(make, rows) for _ in range(2))
        met.wait()
        assert first.result() is second.result()


def test_many_rows_are_kept_until_they_are_let_go(spark: SparkSession) -> None:
    many = cached(spark.range(3))
    states = [many.is_cached]
    release_cached()
    states.append(many.is_cached)
    assert states == [True, False]


def test_few_rows_are_made_at_once_and_have_no_plan_any_more(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = cached(session_for(spark, Scale.SMALL).range(3))
    release_cached()
    assert kept.count() == 3
    kept.explain()
    assert "Range" not in capsys.readouterr().out
    spark.range(3).explain()
    assert "Range" in capsys.readouterr().out
