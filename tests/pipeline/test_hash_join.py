"""Rows that have nothing to do with others are left where they are; what is made of them is the same."""

from __future__ import annotations

import gc
import weakref

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from famulus.pipeline.tables import hash_join
from famulus.pipeline.tables.hash_join import matching, split_unique
from famulus.pipeline.tables.memo import release_cached
from famulus.pipeline.tables.scale import Scale, session_for


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return some_rows(spark)


def some_rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a", 1), ("b", 1), ("b", 2), ("c", 1)], "key string, n int")


def keys(rows: DataFrame) -> list[str]:
    return sorted(row["key"] for row in rows.collect())


@pytest.mark.parametrize("told_max", [0, 10])
def test_those_that_are_alone_and_the_others(frame: DataFrame, told_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether few keys are shared, which everybody is told, or many."""
    monkeypatch.setattr(hash_join, "TOLD_MAX", told_max)
    alone, others = split_unique(frame, "key")
    assert alone is not None
    assert keys(alone) == ["a", "c"]
    assert keys(others) == ["b", "b"]


@pytest.mark.parametrize("told_max", [0, 10])
def test_those_whose_key_is_wanted(frame: DataFrame, told_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_join, "TOLD_MAX", told_max)
    assert keys(matching(frame, "key", frame.where("n = 2"))) == ["b", "b"]


def test_some_rows_are_parted_as_many_are_and_what_is_left_is_in_one_piece(spark: SparkSession) -> None:
    frame = some_rows(session_for(spark, Scale.MEDIUM)).repartition(3)
    alone, others = split_unique(frame, "key")
    assert alone is not None
    wanted = matching(frame, "key", frame.where("n = 2"))
    assert [keys(each) for each in (alone, others, wanted)] == [["a", "c"], ["b", "b"], ["b", "b"]]
    for rows in (others, wanted):
        assert rows.rdd.getNumPartitions() == 1
        by_key = rows.withColumn("first", F.min("n").over(Window.partitionBy("key")))
        assert "hashpartitioning" not in by_key._jdf.queryExecution().executedPlan().toString()


@pytest.mark.parametrize("scale", [Scale.MEDIUM, Scale.LARGE])
def test_where_nobody_is_alone_or_wanted(spark: SparkSession, scale: Scale) -> None:
    none = some_rows(session_for(spark, scale)).where("n > 2")
    alone, others = split_unique(none, "key")
    assert alone is not None
    assert [keys(each) for each in (alone, others, matching(none, "key", none))] == [[], [], []]


def test_what_is_left_of_some_rows_stays_where_it_is_if_it_is_more_than_a_handful(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_join, "BATCH_ROWS", 1)
    frame = some_rows(session_for(spark, Scale.MEDIUM)).repartition(3)
    _, others = split_unique(frame, "key")
    wanted = matching(frame, "key", frame.where("n = 1"))
    assert [keys(each) for each in (others, wanted)] == [["b", "b"], ["a", "b", "b", "c"]]
    assert [each.rdd.getNumPartitions() for each in (others, wanted)] == [3, 3]


@pytest.mark.parametrize("scale", list(Scale))
def test_rows_that_were_parted_are_forgotten_with_whoever_asked(spark: SparkSession, scale: Scale) -> None:
    frame = some_rows(session_for(spark, scale))
    split_unique(frame, "key")
    seen = weakref.ref(frame)
    del frame
    release_cached()
    gc.collect()
    assert seen() is None


def test_few_rows_are_not_parted(spark: SparkSession) -> None:
    frame = some_rows(session_for(spark, Scale.SMALL))
    alone, others = split_unique(frame, "key")
    assert alone is None
    assert keys(others) == ["a", "b", "b", "c"]
    assert keys(matching(frame, "key", frame.where("n = 2"))) == ["a", "b", "b", "c"]
