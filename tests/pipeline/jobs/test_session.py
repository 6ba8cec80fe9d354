"""The settings of Spark, as far as they can be told without starting it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F
from tests.pipeline.conftest import QUICK

from famulus.pipeline.run.session import cores_of, is_here, settings
from famulus.pipeline.tables.scale import GIVEN


@pytest.mark.parametrize(
    ("master", "here", "cores"),
    [("local", True, 1), ("local[3]", True, 3), ("local[2,4]", True, 2), ("local-cluster[2,3,1024]", True, 6)],
)
def test_masters_on_this_machine(master: str, here: bool, cores: int) -> None:
    assert (is_here(master), cores_of(master)) == (here, cores)
    assert settings(master)["spark.sql.shuffle.partitions"] == str(4 * cores)


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host"])
def test_masters_elsewhere_decide_for_themselves(master: str) -> None:
    assert not is_here(master)
    assert "spark.sql.shuffle.partitions" not in settings(master)


def test_what_must_not_be_forgotten() -> None:
    chosen = settings("local[2]", heap_mib=700)
    assert chosen["spark.sql.session.timeZone"] == "UTC"
    assert chosen["spark.sql.files.ignoreCorruptFiles"] == "false"
    assert chosen["spark.driver.memory"] == "700m"


def test_what_the_user_gave_is_noted(spark: SparkSession) -> None:
    """So that it wins at every scale."""
    assert set(spark.sparkContext.getConf().get(GIVEN, "").split()) == set(QUICK)


def test_a_helper_of_the_jvm_is_looked_for_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    F.sum(F.col("a") + 1).over(Window.partitionBy("b"))

    def look(_: object, name: str) -> None:
        raise AssertionError(f"it looks for {name} again")

    monkeypatch.setattr(type(spark.sparkContext._jvm), "__getattr__", look)
    F.sum(F.col("a") + 1).over(Window.partitionBy("b"))
