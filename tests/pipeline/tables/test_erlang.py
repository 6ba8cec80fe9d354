"""Erlang's formulas are there twice, as columns and as plain numbers: both say the same, for the same target."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from famulus.pipeline.tables import capacity as table
from famulus.pipeline.tables import erlang as columns
from famulus.pipeline.whatif import erlang, forecast


def test_columns_and_numbers_agree(spark: SparkSession) -> None:
    cases = [(a, s, n) for a in (0.0, 0.01, 0.9, 4.0, 37.5, 400.0) for s in (0.002, 2.5) for n in (1, 5, 40, 420)]
    rows = spark.createDataFrame(cases, "a double, s double, n int").select(
        "*",
        columns.wait_share("a", "n").alias("wait_share"),
        columns.slots_needed("a", "s", wait_s=0.1, share=0.05).alias("needed"),
    )
    for row in rows.collect():
        assert erlang.ErlangQueue(row.a, row.s, row.n).wait_share == pytest.approx(row.wait_share, rel=1e-9), row
        assert erlang.slots_needed(row.a, row.s, wait_s=0.1, share=0.05) == row.needed, row


def test_the_target_is_the_same() -> None:
    assert (forecast.WAIT_S, forecast.WAIT_SHARE) == (table.WAIT_S, table.WAIT_SHARE)
