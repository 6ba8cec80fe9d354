"""Files of the journal that are not what they seem: each is named, left out, and tried again."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.pipeline.jobs.conftest import Journal, Tables, damaged_inside

from famulus.errors import EmptyJournal, PlaceError
from famulus.journal import schema
from famulus.pipeline.io import source
from famulus.pipeline.io.place import FoundFile, Place, is_damage
from famulus.pipeline.io.source import Bad, Sound
from famulus.pipeline.run import jobs
from famulus.pipeline.tables import TABLES
from famulus.pipeline.tables.scale import Scale, session_for
from famulus.pipeline.tables.table import Table


def verdict(journal: Journal, path: Path) -> Sound | Bad:
    return source.check(journal.place, FoundFile(str(path.relative_to(journal.folder)), path.stat().st_size))


def test_a_sound_file_says_how_many_rows_it_has(journal: Journal) -> None:
    checked = verdict(journal, journal.write(journal.tasks(0, 0, 7), 1))
    assert isinstance(checked, Sound)
    assert checked.rows == 7


@pytest.mark.parametrize(
    ("scale", "rows_max", "by_arrow"),
    [(Scale.SMALL, 7, True), (Scale.MEDIUM, 7, True), (Scale.MEDIUM, 6, False), (Scale.LARGE, 7, False)],
)
def test_a_handful_of_rows_is_not_left_to_spark(
    spark: SparkSession, journal: Journal, monkeypatch: pytest.MonkeyPatch, scale: Scale, rows_max: int, by_arrow: bool
) -> None:
    monkeypatch.setattr(source, "BATCH_ROWS", rows_max)
    checked = verdict(journal, journal.write(journal.tasks(0, 0, 7), 1))
    assert isinstance(checked, Sound)
    rows = source.read(session_for(spark, scale), journal.place, "tasks", [checked])
    assert len(rows.inputFiles()) == (0 if by_arrow else 1)
    assert rows.count() == 7


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def foreign(path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), path)


def newer(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, schema.VERSION_KEY.encode(): b"99"}), path)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def text(path: Path) -> None:
    path.write_text("not Parquet at all, but long enough to have an end")


def without_a_column(path: Path) -> None:
    table = pq.read_table(path).drop_columns(["service"])
    pq.write_table(table, path)


def other_types(path: Path) -> None:
    table = pq.read_table(path)
    at = table.schema.get_field_index("ticket")
    pq.write_table(table.set_column(at, "ticket", pa.array(["x"] * table.num_rows)), path)


SPOILED = [
    (cut_off, "truncated", "no whole Parquet file"),
    (text, "truncated", "no whole Parquet file"),
    (empty, "empty", "the file is empty"),
    (foreign, "foreign", "not written by Famulus as a file of tasks"),
    (without_a_column, "foreign", "lacks the column service"),
    (other_types, "foreign", "column ticket is of type string"),
    (newer, "newer", "version 99 of the journal, this pipeline knows 3"),
]


@pytest.mark.parametrize(("spoil", "kind", "reason"), SPOILED)
def test_a_bad_file_is_known_before_spark_sees_it(journal: Journal, spoil: object, kind: str, reason: str) -> None:
    path = journal.write(journal.tasks(0, 0), 1)
    spoil(path)  # type: ignore[operator]
    checked = verdict(journal, path)
    assert isinstance(checked, Bad)
    assert (checked.kind, reason in checked.reason) == (kind, True), checked


def test_a_file_of_an_older_version_may_lack_a_column(journal: Journal) -> None:
    path = journal.write(journal.tasks(0, 0), 1)
    without_a_column(path)
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, schema.VERSION_KEY.encode(): b"0"}), path)
    assert isinstance(verdict(journal, path), Sound)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(journal: Journal) -> None:
    path = journal.write(journal.tasks(0, 0), 1)
    path.chmod(0)
    checked = verdict(journal, path)
    assert isinstance(checked, Bad)
    assert checked.kind == "forbidden"


def test_bad_files_stop_nothing_and_are_tried_again(
    spark: SparkSession, journal: Journal, tables: Tables, toys: list[Table]
) -> None:
    sound = journal.write(journal.tasks(0, 0), 1)
    paths = [journal.write(journal.tasks(0, 100 * (n + 1)), n + 2) for n in range(len(SPOILED))]
    whole = paths[0].read_bytes()
    for path, (spoil, _, _) in zip(paths, SPOILED, strict=True):
        spoil(path)
    (sound.parent / "notes.txt").write_text("somebody else's")
    (sound.parent / ".b1-ab12-00000099.parquet.tmp").write_bytes(b"not finished")
    first = jobs.run(spark, journal.place, tables.place, registry=toys)
    assert [each.kind for each in first.bad] == [kind for _, kind, _ in SPOILED]
    assert len(tables.rows("toy_tasks")) == 30
    second = jobs.run(spark, journal.place, tables.place, registry=toys)
    assert (second.bad, second.tables, second.state) == (first.bad, (), first.state)
    paths[0].write_bytes(whole)
    third = jobs.run(spark, journal.place, tables.place, registry=toys)
    assert len(third.bad) == len(SPOILED) - 1
    assert len(tables.rows("toy_tasks")) == 60


@pytest.mark.parametrize(
    ("scale", "rows_max"), [(Scale.SMALL, 100), (Scale.MEDIUM, 100), (Scale.MEDIUM, 0), (Scale.LARGE, 0)], ids=str
)
def test_a_file_that_is_damaged_inside_stops_nothing_either(
    spark: SparkSession,
    journal: Journal,
    tables: Tables,
    toys: list[Table],
    monkeypatch: pytest.MonkeyPatch,
    scale: Scale,
    rows_max: int,
) -> None:
    """Whoever stumbles over it, Arrow or Spark."""
    monkeypatch.setattr(jobs, "scale_for", lambda _: scale)
    monkeypatch.setattr(source, "BATCH_ROWS", rows_max)
    journal.write(journal.tasks(0, 0), 1)
    path = journal.write(journal.tasks(0, 100), 2)
    whole = path.read_bytes()
    damaged_inside(path)
    first = jobs.run(spark, journal.place, tables.place, registry=toys)
    assert [(each.path, each.kind) for each in first.bad] == [(str(path.relative_to(journal.folder)), "damaged")]
    assert len(tables.rows("toy_tasks")) == 30
    second = jobs.run(spark, journal.place, tables.place, registry=toys)
    assert (second.bad, second.tables, second.state) == (first.bad, (), first.state)
    path.write_bytes(whole)
    third = jobs.run(spark, journal.place, tables.place, registry=toys)
    assert (third.bad, len(tables.rows("toy_tasks"))) == ((), 60)


def test_no_table_has_rows_of_a_file_that_another_table_stumbled_over(
    spark: SparkSession, journal: Journal, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark reads no more columns than it needs: the first table is made with it, before the second one fails."""
    monkeypatch.setattr(jobs, "scale_for", lambda _: Scale.LARGE)
    lost = {"outcome": "RETRY", "reason": "worker_lost"}
    journal.write([row | lost for row in journal.tasks(0, 0)], 1)
    path = journal.write([row | lost for row in journal.tasks(3, 100)], 2)
    damaged_inside(path, "service_ns")
    made = jobs.run(spark, journal.place, tables.place, registry=[TABLES["lost_attempts"], TABLES["worker_hours"]])
    assert [each.kind for each in made.bad] == ["damaged"]
    for name in ("lost_attempts", "worker_hours"):
        assert sum(row["retries"] for row in tables.rows(name)) == 30


def test_any_number_of_damaged_files_is_left_out(spark: SparkSession, journal: Journal, tables: Tables) -> None:
    """Also if they come to light one after the other, since each table of the journal is read by itself."""
    losses = TABLES["losses"]
    spoiled = {name: journal.write([journal.row(name, event="lost")], 1, table=name) for name in losses.inputs}
    for path in spoiled.values():
        damaged_inside(path, "at")
    journal.write([journal.row("peers", event="lost", peer="b2")], 2, table="peers")
    made = jobs.run(spark, journal.place, tables.place, registry=[losses])
    assert {each.path.split("/")[0] for each in made.bad} == set(losses.inputs)
    assert [row["lost"] for row in tables.rows("losses")] == ["b2"]


@pytest.mark.parametrize(
    ("error", "damage"),
    [
        (pa.ArrowInvalid("no such page"), True),
        (OSError("Corrupt data"), True),
        (OSError(errno.EIO, "the disk"), False),
        (OSError(errno.EMFILE, "too many files"), False),
        (pa.ArrowMemoryError("no memory"), False),
        (ValueError("no such thing"), False),
    ],
)
def test_what_a_disk_says_is_no_damage_of_a_file(error: Exception, damage: bool) -> None:
    assert is_damage(error) is damage


def test_what_was_damaged_and_is_whole_again_is_not_missed(
    spark: SparkSession, journal: Journal, tables: Tables, toys: list[Table]
) -> None:
    path = journal.write(journal.tasks(0, 0), 1)
    whole = path.read_bytes()
    jobs.run(spark, journal.place, tables.place, registry=toys)
    damaged_inside(path)
    journal.write(journal.tasks(0, 100), 2)
    assert [each.kind for each in jobs.run(spark, journal.place, tables.place, registry=toys).bad] == ["damaged"]
    assert len(tables.rows("toy_tasks")) == 30
    path.write_bytes(whole)
    jobs.run(spark, journal.place, tables.place, registry=toys)
    assert len(tables.rows("toy_tasks")) == 60


def test_another_error_is_told_as_it_is(
    spark: SparkSession, journal: Journal, tables: Tables, toys: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody reads the whole journal again, if it is not about a file."""
    journal.write(journal.tasks(0, 0), 1)
    monkeypatch.setattr(source, "damaged", lambda *_: pytest.fail("nothing said so"))

    def broken(tasks: DataFrame) -> DataFrame:
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        jobs.run(spark, journal.place, tables.place, registry=[replace(toys[0], rows=broken), *toys[1:]])


def test_a_journal_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PlaceError, match=r"there is no journal at .*nowhere") as caught:
        source.days_in(Place(tmp_path / "nowhere"))
    assert caught.value.exit_code == 2


def test_a_journal_that_is_empty(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    with pytest.raises(EmptyJournal, match="is empty: no broker has written to it yet") as caught:
        source.days_in(Place(tmp_path))
    assert caught.value.exit_code == 9


def test_files_of_others_are_no_journal(spark: SparkSession, journal: Journal, tables: Tables) -> None:
    folder = journal.folder / "tasks" / "date=2026-11-15" / "hour=08"
    folder.mkdir(parents=True)
    (folder / "part-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(EmptyJournal, match="is empty"):
        jobs.run(spark, journal.place, tables.place)


def test_a_folder_that_may_not_be_read(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.write(journal.tasks(0, 0), 1)

    def refuse(_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("famulus.pipeline.io.place.os.scandir", refuse)
    with pytest.raises(PlaceError, match=r"journal/tasks/date=2026-11-15 cannot be read: Permission denied"):
        source.found_in(journal.place, source.days_in(journal.place))


def test_what_cannot_be_written_is_said_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(PlaceError, match=r"a/b cannot be written: Is a directory"):
        Place(tmp_path).put("a/b", b"")


def test_a_place_by_its_uri(journal: Journal) -> None:
    path = journal.write(journal.tasks(0, 0), 1)
    place = Place(f"file://{journal.folder}")
    found = source.found_in(place, source.days_in(place))
    assert [each.path for each in found] == [str(path.relative_to(journal.folder))]
    assert place.uri("x") == f"file://{journal.folder}/x"
    with pytest.raises(PlaceError, match="cannot be reached"):
        Place("nosuch://store/journal")
