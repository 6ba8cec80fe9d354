"""Every table is what DuckDB makes of the journal's own files, row by row, by SQL that shares no code with ours.

The journals begin at any hour of a year, and are of any length and size: see `independent.journals`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.longer import longer
from tests.pipeline.independent.journals import disturb, plan_of
from tests.pipeline.independent.reader import SQL, all_differences

from famulus.lab import synth
from famulus.lab.synth import Plan
from famulus.pipeline.io.place import Place
from famulus.pipeline.io.store import ROWS_PER_FILE
from famulus.pipeline.run import jobs
from famulus.pipeline.tables import ALL, hourly
from famulus.pipeline.tables.scale import Scale


def test_there_is_sql_for_every_table() -> None:
    assert set(SQL) == {table.name for table in ALL}


def _journal(spark: SparkSession, folder: Path, plan: Plan) -> Path:
    synth.make(spark, folder / "journal", plan)
    disturb(folder / "journal", plan)
    return folder / "journal"


#: A day that Arrow cut wrongly once, and some other hours; all twenty in the longer tests.
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=longer) for seed in range(1, 20))])
def test_the_tables_are_what_duckdb_makes_of_the_journal(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    journal = _journal(spark, tmp_path, plan_of(seed))
    # Some of them at the paces that are for more rows: then Spark itself reads and writes them.
    if seed % 5 > 2:
        monkeypatch.setattr(jobs, "scale_for", lambda _: (Scale.MEDIUM, Scale.LARGE)[seed % 5 - 3])
        monkeypatch.setattr(hourly, "ROWS_HERE", 0)
    # Hours with many tasks are cut.
    jobs.run(spark, Place(journal), Place(tmp_path / "tables"), rows_per_file=500 if seed % 2 else ROWS_PER_FILE)
    assert all_differences(journal, tmp_path / "tables") == {}


@longer
@pytest.mark.parametrize("seed", [0, 3, 6])
def test_hour_by_hour_gives_what_all_at_once_gives(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """For every table, in any division: what comes later is made as if it had been there from the beginning."""
    journal = _journal(spark, tmp_path, plan_of(seed))
    some = tmp_path / "some"
    hours = sorted({path.parts[-3:-1] for path in journal.rglob("*.parquet")})
    steps = [hours[:1], hours[1:2], hours[2:]]
    for step in steps:
        for day, hour in step:
            for path in journal.glob(f"*/{day}/{hour}/*.parquet"):
                target = some / path.relative_to(journal)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
        jobs.run(spark, Place(some), Place(tmp_path / "tables"))
    assert all_differences(journal, tmp_path / "tables") == {}


@longer
def test_day_by_day_gives_what_all_at_once_gives(spark: SparkSession, tmp_path: Path) -> None:
    """Whole tables look back for some days and keep older rows: these are the same as if they had been made again."""
    journal = _journal(spark, tmp_path, Plan(tasks=3_000, hours=6 * 24, load_every_s=60))
    some = tmp_path / "some"
    days = sorted({path.parts[-3] for path in journal.rglob("*.parquet")})
    # A file of the second day comes last of all.
    late = sorted(journal.glob(f"tasks/{days[1]}/hour=12/*.parquet"))[:1]
    for step in (days[:4], days[4:5], days[5:]):
        for day in step:
            for path in set(journal.glob(f"*/{day}/*/*.parquet")) - set(late):
                target = some / path.relative_to(journal)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
        jobs.run(spark, Place(some), Place(tmp_path / "tables"))
    shutil.copy(late[0], some / late[0].relative_to(journal))
    jobs.run(spark, Place(some), Place(tmp_path / "tables"), late=True)
    assert all_differences(journal, tmp_path / "tables") == {}
