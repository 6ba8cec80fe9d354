"""Histograms and what can be read from them; Erlang's formulas."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from famulus.pipeline.columnar.groups import Groups, bucket_of
from famulus.pipeline.histogram import QUANTILES, quantiles_of
from famulus.pipeline.tables import columns
from famulus.pipeline.tables.erlang import slots_needed, wait_share
from famulus.pipeline.tables.histograms import merged


def exactly(values: list[int], share: int) -> int:
    return sorted(values)[math.ceil(len(values) * share / 1_000_000) - 1]


#: Thousands of values from a microsecond to hours, in three shapes; one value; many of the same.
SAMPLES = {
    "even": [1000 + 977 * n for n in range(3000)],
    "steep": [int(1000 * 1.0075**n) for n in range(3000)],
    "two humps": [5_000_000 + 13 * n for n in range(900)] + [60_000_000_000 + 7919 * n for n in range(100)],
    "one": [123_456_789],
    "same": [2_000_000] * 1000,
}


def counted(values: list[int]) -> pa.Array:
    every = np.ones(len(values), bool)
    return Groups([np.zeros(len(values), np.int64)]).histogram(np.array(values), every)


@pytest.fixture(scope="module")
def sampled(spark: SparkSession) -> DataFrame:
    histograms = pa.concat_arrays([counted(values) for values in SAMPLES.values()])
    return spark.createDataFrame(pa.table({"name": list(SAMPLES), "hist": histograms}))


def test_quantiles_are_within_three_and_a_half_percent(sampled: DataFrame) -> None:
    found = {row["name"]: row["q"] for row in sampled.select("name", columns.quantiles("hist").alias("q")).collect()}
    for name, values in SAMPLES.items():
        for quantile, share in QUANTILES.items():
            true = exactly(values, share)
            assert abs(found[name][quantile] - true) <= 0.035 * true, (name, quantile)


def test_spark_and_numpy_find_the_same_quantiles(spark: SparkSession, sampled: DataFrame) -> None:
    every = pa.array([[{"bucket": bucket, "count": 1}] for bucket in range(699)], counted([1]).type)
    frame = spark.createDataFrame(pa.table({"hist": every})).unionByName(sampled.select("hist"))
    found = frame.withColumn("q", columns.quantiles("hist")).select("hist", "q.*").toArrow()
    ours = quantiles_of(found["hist"].combine_chunks())
    for name in QUANTILES:
        pairs = list(zip(ours[name].to_pylist(), found[name].to_pylist(), strict=True))
        # Beyond ten days a double has no room for every nanosecond.
        assert all(one == other if other < 10**15 else one == pytest.approx(other) for one, other in pairs), name
    empty = pa.array([[], [{"bucket": 3, "count": 2}], []], found["hist"].type)
    assert [value is None for value in quantiles_of(empty)["p50"].to_pylist()] == [True, False, True]
    assert quantiles_of(empty[:1])["p50"].to_pylist() == [None]
    assert quantiles_of(empty[1:])["p50"].to_pylist() == quantiles_of(empty)["p50"].to_pylist()[1:]


def test_histograms_add_up_and_can_be_taken_apart(sampled: DataFrame) -> None:
    one = sampled.withColumn("all", F.lit("all"))
    whole = merged(one, ["all"], ["hist"]).toArrow()
    direct = counted([value for values in SAMPLES.values() for value in values])
    assert whole["hist"].to_pylist() == direct.to_pylist()
    assert sum(entry["count"] for entry in direct[0].as_py()) == sum(map(len, SAMPLES.values()))
    summed = Groups([np.zeros(len(SAMPLES), np.int64)]).summed(sampled.toArrow()["hist"].combine_chunks())
    assert summed.to_pylist() == direct.to_pylist()
    rest = sampled.where("name = 'even'").select(columns.minus("hist", "hist").alias("rest"))
    assert rest.collect()[0]["rest"] == []


def test_zero_has_a_bucket_and_what_is_not_there_has_no_quantile(spark: SparkSession) -> None:
    found = bucket_of(np.array([0, -5, 1, 2**62]))
    assert found.tolist() == [0, 0, 11, math.floor(62 * math.log(2) * 16)]
    (nothing,) = (
        spark.range(1)
        .select(columns.no_histogram().alias("hist"))
        .select(columns.quantiles("hist").alias("q"))
        .collect()
    )
    assert set(nothing["q"]) == {None}


def erlang_c(a: float, n: int) -> float:
    """By the book: from the largest term down, so that it holds for hundreds."""
    logs = [k * math.log(a) - math.lgamma(k + 1) for k in range(n)]
    last = n * math.log(a) - math.lgamma(n + 1) + math.log(n / (n - a))
    top = max([*logs, last])
    return math.exp(last - top) / (sum(math.exp(each - top) for each in logs) + math.exp(last - top))


LOADS = [(0.5, 1), (2.0, 3), (8.0, 10), (90.0, 100), (480.0, 500), (0.001, 400), (700.0, 1000)]


def test_waiting_is_as_erlang_says(spark: SparkSession) -> None:
    loads = spark.createDataFrame(pa.table({"a": [a for a, _ in LOADS], "n": [n for _, n in LOADS]}))
    found = [row[0] for row in loads.select(wait_share("a", "n")).collect()]
    for (a, n), share in zip(LOADS, found, strict=True):
        assert math.isclose(share, erlang_c(a, n), rel_tol=1e-6, abs_tol=1e-12), (a, n)


@pytest.mark.parametrize(
    ("a", "n", "share"), [("0D", 3, 0.0), ("3D", 3, 1.0), ("1D", 0, 1.0), ("1D", "cast(null as int)", None)]
)
def test_waiting_at_the_edges(spark: SparkSession, a: str, n: object, share: float | None) -> None:
    (found,) = spark.range(1).select(wait_share(a, str(n))).collect()
    assert found[0] == share


def test_so_many_slots_are_enough_and_one_less_is_not(spark: SparkSession) -> None:
    service_s, wait_s, target = 0.25, 0.1, 0.05
    loads = [0.01, 0.8, 5.0, 60.0, 300.0, 900.0]
    frame = spark.createDataFrame(pa.table({"a": loads}))
    needed = slots_needed("a", str(service_s), wait_s=wait_s, share=target)

    def longer(a: float, n: int) -> float:
        return erlang_c(a, n) * math.exp(-(n - a) * wait_s / service_s)

    for a, n in zip(loads, [row[0] for row in frame.select(needed).collect()], strict=True):
        assert longer(a, n) <= target
        assert n - 1 <= a or longer(a, n - 1) > target
    (none,) = spark.range(1).select(slots_needed("0D", "0D", wait_s=wait_s, share=target)).collect()
    assert none[0] == 0
