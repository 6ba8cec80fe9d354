"""A journal in which nothing happened gives nobody anything to do, whatever its size, its length and its chance."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession
from tests.longer import longer

from famulus.lab import synth
from famulus.lab.synth import Plan
from famulus.pipeline.io.place import Place
from famulus.pipeline.run import jobs


def plan_of(seed: int) -> Plan:
    """From a service with a task a minute to one with hundreds."""
    chance = random.Random(f"nothing planted {seed}")
    return Plan(
        tasks=round(300 * 40 ** chance.random()),
        hours=chance.randint(1, 6),
        start=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=chance.randrange(365 * 24)),
        seed=seed,
        brokers=chance.randint(2, 4),
        services=chance.randint(2, 5),
        workers=chance.randint(8, 20),
        truths=frozenset(),
        load_every_s=20,
    )


#: Some twenty tasks a minute in each service, of which one or two fail now and then: chance that looks like trouble.
SOME_FAIL = Plan(tasks=17_000, hours=4, services=4, seed=1, truths=frozenset(), load_every_s=20)


@longer
@pytest.mark.parametrize("plan", [SOME_FAIL, *(plan_of(seed) for seed in range(10))])
def test_a_journal_with_nothing_planted_gives_no_findings(spark: SparkSession, tmp_path: Path, plan: Plan) -> None:
    synth.make(spark, tmp_path / "journal", plan)
    jobs.run(spark, Place(tmp_path / "journal"), Place(tmp_path / "tables"))
    for table in ("audit", "anomalies", "findings"):
        rows = ds.dataset(tmp_path / "tables" / table, format="parquet", partitioning="hive").to_table().to_pylist()
        assert rows == [], f"{table} of {plan}"
