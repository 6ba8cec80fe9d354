"""Few rows are made in another way than some, and these than many."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from famulus.pipeline.tables.scale import (
    GIVEN,
    MEDIUM_ROWS,
    SMALL_ROWS,
    THREADS_MAX,
    Scale,
    scale_for,
    session_for,
    threads_for,
)

NAME = "spark.sql.shuffle.partitions"
ADAPTIVE = "spark.sql.adaptive.enabled"


def test_the_pace_is_chosen_by_the_rows() -> None:
    rows = (0, SMALL_ROWS, SMALL_ROWS + 1, MEDIUM_ROWS, MEDIUM_ROWS + 1)
    assert [scale_for(each) for each in rows] == [Scale.SMALL, Scale.SMALL, Scale.MEDIUM, Scale.MEDIUM, Scale.LARGE]


@pytest.mark.parametrize(("scale", "partitions"), [(Scale.SMALL, "1"), (Scale.MEDIUM, "cores"), (Scale.LARGE, "77")])
def test_few_rows_need_no_partitions_and_many_do(spark: SparkSession, scale: Scale, partitions: str) -> None:
    cores = min(THREADS_MAX, spark.sparkContext.defaultParallelism)
    spark.conf.set(NAME, "77")
    # Not as the other tests have it, or nobody could tell whether it was changed.
    spark.conf.set(ADAPTIVE, "true")
    try:
        found = session_for(spark, scale)
        assert found.conf.get(NAME) == partitions.replace("cores", str(cores))
        assert found.conf.get(ADAPTIVE) == ("true" if scale is Scale.LARGE else "false")
        assert (spark.conf.get(NAME), spark.conf.get(ADAPTIVE)) == ("77", "true")
    finally:
        spark.conf.set(NAME, "1")
        spark.conf.set(ADAPTIVE, "false")


def test_what_the_user_set_wins_at_every_pace(spark: SparkSession) -> None:
    before = spark.conf.get(NAME)
    spark.conf.set(NAME, "5")
    spark.conf.set(GIVEN, f"{NAME} spark.driver.memory")
    try:
        assert [session_for(spark, scale).conf.get(NAME) for scale in Scale] == ["5"] * 3
        assert session_for(spark, Scale.SMALL).conf.get(ADAPTIVE) == "false"
    finally:
        spark.conf.set(GIVEN, "")
        spark.conf.set(NAME, before or "1")
        for scale in Scale:
            session_for(spark, scale)


def test_each_pace_has_one_session_for_as_long_as_spark_runs(spark: SparkSession) -> None:
    assert session_for(spark, Scale.SMALL) is session_for(spark, Scale.SMALL)
    assert session_for(spark, Scale.SMALL) is not session_for(spark, Scale.MEDIUM)
    assert session_for(spark, Scale.LARGE) is spark


def test_what_was_set_since_spark_was_started_holds_for_every_pace(spark: SparkSession) -> None:
    name = "spark.sql.session.timeZone"
    before = spark.conf.get(name)
    try:
        for zone in ("Europe/Vienna", "Asia/Tokyo"):
            spark.conf.set(name, zone)
            assert [session_for(spark, scale).conf.get(name) for scale in Scale] == [zone] * 3
    finally:
        spark.conf.set(name, before or "UTC")
        for scale in Scale:
            session_for(spark, scale)


def test_what_one_session_keeps_the_others_use(spark: SparkSession) -> None:
    rows = spark.range(3).persist()
    plan = session_for(spark, Scale.MEDIUM).range(3)._jdf.queryExecution().optimizedPlan().toString()
    rows.unpersist()
    assert "InMemoryRelation" in plan


def test_there_is_a_thread_for_each_core_up_to_some(spark: SparkSession) -> None:
    assert threads_for(spark) == min(THREADS_MAX, spark.sparkContext.defaultParallelism)
