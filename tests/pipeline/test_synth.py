"""Whole synthetic journals, made by Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from famulus.errors import SettingsError
from famulus.journal.arrow import schema_of
from famulus.journal.files import hour_of, parse, visible
from famulus.journal.schema import TABLE_KEY, TABLES, TIME_COLUMN, VERSION, VERSION_KEY
from famulus.lab import synth
from famulus.lab.synth import TRUTHS, Plan, Truths

# Spark starts within the first test, and its Python workers with it: that takes long on a loaded machine.
pytestmark = pytest.mark.timeout(600)

SMALL = Plan(tasks=2000, hours=2, seed=5, load_every_s=20)


@pytest.fixture(scope="module")
def journal(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truths]:
    folder = tmp_path_factory.mktemp("synth") / "journal"
    return folder, synth.make(spark, folder, SMALL)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_every_file_is_one_of_the_journal(journal: tuple[Path, Truths]) -> None:
    folder, truths = journal
    rows = dict.fromkeys(TABLES, 0)
    found = []
    for path in sorted(folder.rglob("*.parquet")):
        file = parse(str(path.relative_to(folder)))
        assert file is not None, path
        found.append(file)
        table = pq.read_table(path, partitioning=None)
        assert table.schema.equals(schema_of(file.table)), path
        footer = pq.read_metadata(path).metadata
        assert footer[VERSION_KEY.encode()] == str(VERSION).encode()
        assert footer[TABLE_KEY.encode()] == file.table.encode()
        assert set(table["broker"].to_pylist()) == {file.broker}
        assert set(table["boot"].to_pylist()) == {file.boot}
        times = table[TIME_COLUMN[file.table]].cast("int64").to_pylist()
        assert {hour_of(at) for at in times} == {(file.date, file.hour)}
        rows[file.table] += table.num_rows
    assert visible(found) == sorted(found)
    assert rows == truths.rows
    assert all(rows.values())
    assert not list(folder.rglob("*.tmp"))


def test_what_was_planted_lies_beside(journal: tuple[Path, Truths]) -> None:
    folder, truths = journal
    told = json.loads((folder / "truths.json").read_bytes())
    assert set(told["planted"]) == set(TRUTHS) == set(truths.planted)
    assert told["tasks"] == truths.tasks
    assert told["planted"]["lost_task"]["message_id"] == truths["lost_task"]["message_id"]


def test_the_same_plan_makes_the_same_journal(
    spark: SparkSession, journal: tuple[Path, Truths], tmp_path: Path
) -> None:
    assert synth.make(spark, tmp_path / "again", SMALL) == journal[1]
    assert files_of(tmp_path / "again") == files_of(journal[0])


def test_a_folder_that_holds_something_is_left_alone(spark: SparkSession, journal: tuple[Path, Truths]) -> None:
    with pytest.raises(SettingsError, match="is not empty"):
        synth.make(spark, journal[0], SMALL)
