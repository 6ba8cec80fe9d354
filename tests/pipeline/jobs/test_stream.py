"""Following a journal gives the tables that a single run gives."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.jobs.conftest import EIGHT, Journal, Tables

from famulus.errors import TablesBusy
from famulus.pipeline.io.place import Place
from famulus.pipeline.run import jobs
from famulus.pipeline.run.lock import locked
from famulus.pipeline.run.progress import RunSummary
from famulus.pipeline.run.stream import Follower
from famulus.pipeline.tables.table import Table


def once(spark: SparkSession, journal: Journal, tables: Tables, toys: list[Table]) -> list[RunSummary]:
    told: list[RunSummary] = []
    follower = Follower(spark, journal.place, tables.place, registry=toys, done=told.append, files_max=2)
    follower.follow(every_s=0.2, whole_every_s=600, once=True, stop=threading.Event())
    return told


def test_a_journal_in_pieces_gives_the_same_tables(
    spark: SparkSession, journal: Journal, tables: Tables, toys: list[Table], tmp_path: Path
) -> None:
    # An hour before the last attempt, another one: a neighbour that comes before, and one that comes after.
    journal.write(journal.tasks(1, 0), 1, broker="b.1")
    assert len(once(spark, journal, tables, toys)) == 1
    late = journal.write([journal.task(0, EIGHT)], 1)
    bad = journal.write(journal.tasks(2, 200), 1)
    whole = bad.read_bytes()
    bad.write_bytes(whole[:-9])
    for hour in (3, 4):
        journal.write(journal.tasks(hour, hour * 100), 1)
    told = once(spark, journal, tables, toys)
    assert sum(each.files_new for each in told) == 3
    assert [each.files_new for each in told] == [1, 2]
    assert [bool(each.stale) for each in told] == [True, False], "whole tables are made when all files are there"
    assert [each.kind for each in told[-1].bad] == ["truncated"]
    bad.write_bytes(whole)
    assert once(spark, journal, tables, toys)[0].files_new == 1  # without a new file
    assert once(spark, journal, tables, toys)[-1].tables == ()
    other = Tables(tmp_path / "other")
    jobs.run(spark, journal.place, other.place, registry=toys)
    assert tables.all() == other.all()
    assert len(tables.rows("toy_tasks")) == 120
    assert late.exists()


def test_tables_that_were_removed_are_made_anew(
    spark: SparkSession, journal: Journal, tables: Tables, toys: list[Table]
) -> None:
    journal.write(journal.tasks(0, 0), 1)
    once(spark, journal, tables, toys)
    made = tables.all()
    shutil.rmtree(tables.folder / "_state")
    (tables.folder / "toy_services" / "part-00.parquet").unlink()
    once(spark, journal, tables, toys)
    assert tables.all() == made


def test_files_that_come_while_it_follows(
    spark: SparkSession, journal: Journal, tables: Tables, toys: list[Table]
) -> None:
    journal.write(journal.tasks(0, 0), 1)
    stop = threading.Event()
    rows: list[int] = []

    def done(summary: RunSummary) -> None:
        rows.append(summary.rows_new)
        if sum(rows) == 30:
            journal.write(journal.tasks(1, 100), 1)
        elif sum(rows) == 60:
            stop.set()

    follower = Follower(spark, Place(journal.folder), tables.place, registry=toys, done=done)
    # If nothing came it would go on for ever; the test's own time limit ends that.
    follower.follow(every_s=0.2, whole_every_s=600, once=False, stop=stop)
    assert len(tables.rows("toy_tasks")) == 60


def test_whole_tables_have_a_slower_clock(
    spark: SparkSession, journal: Journal, tables: Tables, toys: list[Table]
) -> None:
    """At first at once. Later they are made when their time has come, also if there is nothing new just then."""
    journal.write(journal.tasks(0, 0), 1)
    stop = threading.Event()
    told: list[RunSummary] = []

    def done(summary: RunSummary) -> None:
        told.append(summary)
        if len(told) == 1:
            journal.write(journal.tasks(1, 100), 1)
        elif told[-1].tables and not told[-1].stale:
            stop.set()

    follower = Follower(spark, journal.place, tables.place, registry=toys, done=done)
    follower.follow(every_s=0.1, whole_every_s=2, once=False, stop=stop)
    made = [([each.table for each in summary.tables], summary.stale) for summary in told if summary.tables]
    assert made == [(["toy_tasks", "toy_services"], False), (["toy_tasks"], True), (["toy_services"], False)]
    assert sum(row["tasks"] for row in tables.rows("toy_services")) == 60


def test_what_stops_the_job_stops_the_stream_with_the_same_error(
    spark: SparkSession, journal: Journal, tables: Tables, toys: list[Table]
) -> None:
    journal.write(journal.tasks(0, 0), 1)
    began = time.monotonic()
    held = locked(tables.place)

    def done(_: RunSummary) -> None:
        # From the first look on, another run has the tables.
        held.__enter__()

    follower = Follower(spark, journal.place, tables.place, registry=toys, done=done)
    with pytest.raises(TablesBusy):
        follower.follow(every_s=0.2, whole_every_s=600, once=False, stop=threading.Event())
    held.__exit__(None, None, None)
    assert time.monotonic() - began < 100
