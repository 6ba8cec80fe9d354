"""Rows that have nothing to do with others are left where they are; what is made of them is the same."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from famulus.pipeline import crowds
from famulus.pipeline.crowds import among, parted
from famulus.pipeline.pace import Pace, session_for


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return some_rows(spark)


def some_rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a", 1), ("b", 1), ("b", 2), ("c", 1)], "key string, n int")


def keys(rows: DataFrame) -> list[str]:
    return sorted(row["key"] for row in rows.collect())


@pytest.mark.parametrize("told_max", [0, 10])
def test_those_that_are_alone_and_the_others(frame: DataFrame, told_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether there are few crowds, which everybody is told, or many."""
    monkeypatch.setattr(crowds, "TOLD_MAX", told_max)
    alone, others = parted(frame, "key")
    assert alone is not None
    assert keys(alone) == ["a", "c"]
    assert keys(others) == ["b", "b"]


@pytest.mark.parametrize("told_max", [0, 10])
def test_those_whose_key_is_wanted(frame: DataFrame, told_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowds, "TOLD_MAX", told_max)
    assert keys(among(frame, "key", frame.where("n = 2"))) == ["b", "b"]


def test_few_rows_are_not_parted(spark: SparkSession) -> None:
    frame = some_rows(session_for(spark, Pace.FEW))
    alone, others = parted(frame, "key")
    assert alone is None
    assert keys(others) == ["a", "b", "b", "c"]
    assert keys(among(frame, "key", frame.where("n = 2"))) == ["a", "b", "b", "c"]
