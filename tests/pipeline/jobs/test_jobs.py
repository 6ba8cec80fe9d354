"""The job on small journals: what it makes, what it does again, and what it leaves alone."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from tests.pipeline.jobs.conftest import EIGHT, HOUR_US, Journal, Tables

from famulus.cli.pipeline.progress import _words
from famulus.errors import TablesBusy
from famulus.journal.schema import Column, Kind
from famulus.pipeline.io import store
from famulus.pipeline.io.place import Place
from famulus.pipeline.run import jobs, state
from famulus.pipeline.run.lock import locked
from famulus.pipeline.run.progress import ProgressStep, RunSummary
from famulus.pipeline.tables import TABLES, schemas
from famulus.pipeline.tables.scale import Scale
from famulus.pipeline.tables.table import Grain, KeptRows, Table

Run = Callable[..., RunSummary]


@pytest.fixture(params=[None, Scale.LARGE], ids=["few", "many"])
def scale(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows go through Arrow, many through files of Spark's: what comes out is the same."""
    if request.param is not None:
        monkeypatch.setattr(jobs, "scale_for", lambda _: request.param)
        monkeypatch.setattr(jobs, "SMALL_BYTES", 0)


@pytest.fixture
def run(spark: SparkSession, journal: Journal, tables: Tables, toys: list[Table], scale: None) -> Run:
    def once(**more: object) -> RunSummary:
        return jobs.run(spark, journal.place, tables.place, **{"registry": toys, **more})  # type: ignore[arg-type]

    return once


def hours_of(summary: RunSummary) -> dict[str, int]:
    return {each.table: each.hours for each in summary.tables}


def test_tables_are_made_and_a_second_run_has_nothing_to_do(run: Run, journal: Journal, tables: Tables) -> None:
    for hour in range(3):
        journal.write(journal.tasks(hour, 100 * hour), 1)
    first = run()
    made = tables.all()
    assert len(made["toy_tasks"]) == 90
    assert made["toy_services"] == [{"service": f"s{n}", "tasks": 30, "events": 0} for n in range(3)]
    assert tables.files() == [
        "toy_services/part-00.parquet",
        "toy_tasks/date=2026-11-15/part-0800.parquet",
    ]
    assert (first.files_new, first.rows_new, first.state) == (3, 90, 1)
    second = run()
    assert (second.files_new, second.tables, second.state) == (0, (), 1)
    again = run(again=True)
    assert hours_of(again) == {"toy_tasks": 5, "toy_services": 0}
    assert tables.all() == made


@pytest.fixture
def two(toys: list[Table], monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Table]]:
    """The first toy, and another like it; `make` is what each does first."""
    monkeypatch.setitem(schemas.TABLES, "toy_again", schemas.TABLES["toy_tasks"])

    def registry(make: Callable[[str], None]) -> list[Table]:
        def of(name: str) -> Table:
            def made(tasks: DataFrame) -> DataFrame:
                make(name)
                return toys[0].make(tasks)

            return Table(name, Grain.HOURLY, ("tasks",), made, neighbours=True)

        return [of("toy_tasks"), of("toy_again")]

    return registry


@pytest.mark.parametrize("scale", [None], ids=["few"], indirect=True)
def test_few_rows_go_side_by_side(run: Run, journal: Journal, two: Callable[..., list[Table]]) -> None:
    journal.write(journal.tasks(0, 0), 1)
    both = threading.Barrier(2, timeout=30)
    made = run(registry=two(lambda _: both.wait()))
    assert [each.table for each in made.tables] == ["toy_tasks", "toy_again"]


@pytest.mark.parametrize("scale", [Scale.LARGE], ids=["many"], indirect=True)
def test_many_rows_have_everything_for_themselves(
    run: Run, journal: Journal, tables: Tables, two: Callable[..., list[Table]]
) -> None:
    journal.write(journal.tasks(0, 0), 1)
    published: dict[str, list[str]] = {}
    run(registry=two(lambda name: published.update({name: tables.files()})))
    assert published["toy_tasks"] == []
    assert {path.split("/")[0] for path in published["toy_again"]} == {"toy_tasks"}


@pytest.mark.parametrize("scale", [Scale.MEDIUM], ids=["some"], indirect=True)
@pytest.mark.parametrize(("rows_max", "writer"), [(30, "arrow"), (29, "parquet-mr")])
def test_what_is_counted_of_few_rows_is_written_without_spark(
    run: Run, journal: Journal, tables: Tables, monkeypatch: pytest.MonkeyPatch, rows_max: int, writer: str
) -> None:
    monkeypatch.setattr(jobs, "COUNTED_ROWS", rows_max)
    monkeypatch.setattr(store, "RESULTS_HERE", 0)
    lost = {"outcome": "RETRY", "reason": "worker_lost"}
    journal.write([row | lost for row in journal.tasks(0, 0)], 1)
    run(registry=[TABLES["lost_attempts"]])
    (path,) = tables.files()
    assert writer in pq.read_metadata(tables.folder / path).created_by
    assert sum(row["retries"] for row in tables.rows("lost_attempts")) == 30


def test_a_file_touches_its_hour_and_the_neighbours(run: Run, journal: Journal, tables: Tables) -> None:
    for hour in range(6):
        journal.write(journal.tasks(hour, 100 * hour), 1)
    run()
    # Two attempts: one in the hour before, which had been done, and the one that ended it.
    journal.write([journal.task(7, EIGHT + 3 * HOUR_US)], 2)
    assert hours_of(run()) == {"toy_tasks": 3, "toy_services": 0}


def test_a_late_file_gives_what_one_run_over_all_would_have_given(run: Run, journal: Journal, tables: Tables) -> None:
    journal.write(journal.tasks(0, 0), 1)
    journal.write(journal.tasks(1, 100), 1)
    run()
    journal.write([journal.task(100, EIGHT + 60_000_000)], 2)  # the first attempt of what ended an hour later
    run()
    rows = {row["message_id"]: row["attempts"] for row in tables.rows("toy_tasks")}
    assert (rows["m000100"], len(rows)) == (2, 60)
    made = tables.all()
    run(again=True)
    assert tables.all() == made


def test_compaction_does_nothing_again(run: Run, journal: Journal, tables: Tables) -> None:
    rows = journal.tasks(0, 0)
    old = [journal.write(rows[:10], 1), journal.write(rows[10:], 2)]
    run()
    made = tables.all()
    journal.write(rows, 1, last=2)
    both = run()
    old[0].unlink()
    old[1].unlink()
    after = run()
    assert (both.files, both.files_same, both.tables, after.tables) == (1, 1, (), ())
    assert (after.files_expired, tables.all()) == (0, made)


def test_compaction_with_a_file_that_nobody_had_seen(run: Run, journal: Journal, tables: Tables) -> None:
    rows = journal.tasks(0, 0)
    seen = journal.write(rows[:10], 1)
    run()
    journal.write(rows, 1, last=2)
    seen.unlink()
    assert hours_of(run())["toy_tasks"] == 3
    assert len(tables.rows("toy_tasks")) == 30


def test_what_the_journal_forgot_the_tables_keep(run: Run, journal: Journal, tables: Tables) -> None:
    old = journal.write(journal.tasks(0, 0), 1)
    for hour in (1, 2):
        journal.write(journal.tasks(hour, 100 * hour), 1)
    run()
    made = tables.rows("toy_tasks")
    old.unlink()
    assert run().files_expired == 1
    late = journal.write([journal.task(999, EIGHT + 5)], 7)
    summary = run()
    assert summary.late == (str(late.relative_to(journal.folder)),)
    assert tables.rows("toy_tasks") == made
    journal.write([journal.task(998, EIGHT + HOUR_US + 5)], 7)
    run()
    assert len(tables.rows("toy_tasks")) == len(made) + 1


def test_an_hour_with_many_rows_is_cut(run: Run, journal: Journal, tables: Tables) -> None:
    journal.write(journal.tasks(0, 0, 30), 1)
    journal.write(journal.tasks(2, 100, 3), 1)
    run(rows_per_file=10)
    folder = "toy_tasks/date=2026-11-15/part"

    def minutes() -> list[str]:
        return [each.removeprefix(folder).removesuffix(".parquet") for each in tables.files() if folder in each]

    # An hour with few rows is added to the file before it, where there is space.
    assert minutes() == ["-0800", "-0820", "-0840"]
    made = tables.rows("toy_tasks")
    # More parts than before, and never fewer.
    journal.write(journal.tasks(0, 500, 30), 2)
    run(rows_per_file=10)
    assert minutes() == [f"-08{minute}0" for minute in range(6)]
    run(again=True)
    assert minutes() == [f"-08{minute}0" for minute in range(6)]
    assert len(tables.rows("toy_tasks")) == len(made) + 30


def test_a_day_without_rows_has_a_file(run: Run, journal: Journal, tables: Tables) -> None:
    """What ended after midnight is in the next day's file alone."""
    journal.write([journal.task(1, EIGHT + 15 * HOUR_US + 1)], 1)
    journal.write([journal.task(1, EIGHT + 16 * HOUR_US + 1)], 1)
    run()
    found = {path: pq.read_metadata(tables.folder / path).num_rows for path in tables.files()[1:]}
    days = ("15/part-2300", "16/part-0000")
    assert found == {f"toy_tasks/date=2026-11-{day}.parquet": rows for rows, day in enumerate(days)}
    (row,) = tables.rows("toy_tasks")
    assert row["attempts"] == 2


def hour_folders(tables: Tables, name: str) -> None:
    """As an older pipeline had it: a folder for each hour, and the hour not in the file."""
    for path in list(tables.folder.glob(f"{name}/date=*/part-*.parquet")):
        rows = pq.read_table(path, partitioning=None)
        for hour in rows["hour"].unique().to_pylist():
            folder = path.parent / f"hour={hour:02d}"
            folder.mkdir()
            own = rows.filter(pc.field("hour") == hour).drop_columns(["hour"])
            pq.write_table(own, folder / "part-00.parquet")
        path.unlink()


def by_hour(tables: Tables, format: int = state.BY_HOUR) -> None:
    """The tables and the state as they were until format 2."""
    hour_folders(tables, "toy_tasks")
    done = state.load(tables.place)
    done = state.with_days(tables.place, done, state.days(tables.place, done))
    shutil.rmtree(tables.folder / state.DAYS)
    older = replace(done, format=format, number=done.number + 1)
    tables.place.write(f"_state/state-{older.number:08d}.json", msgspec.json.encode(older))


@pytest.mark.parametrize("scale", [None], ids=["few"], indirect=True)
@pytest.mark.parametrize(
    "killed",
    [
        ("put", "_days/toy_tasks"),
        ("write", "complete"),
        ("remove_folder", "hour="),
        ("settle", "toy_tasks/date=2026-11-15/part-"),
        ("write", "_state/days"),
    ],
    ids="-".join,
)
def test_tables_with_a_file_for_each_hour_are_put_into_files_of_days(
    run: Run, journal: Journal, tables: Tables, monkeypatch: pytest.MonkeyPatch, killed: tuple[str, str]
) -> None:
    """Also those of hours that the journal no longer has; whoever is killed meanwhile is simply done again."""
    gone = journal.write(journal.tasks(0, 0), 1)
    for hour in (1, 2):
        journal.write(journal.tasks(hour, 100 * hour), 1)
    run()
    made = tables.all()
    gone.unlink()
    by_hour(tables)
    assert [path.split("/")[2] for path in tables.files()[1:]] == ["hour=08", "hour=09", "hour=10"]
    where, path = killed
    real = getattr(Place, where)

    def dies(place: Place, *told: Any) -> None:
        real(place, *told)
        if any(path in each for each in told if isinstance(each, str)):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Place, where, dies)
        with pytest.raises(KeyboardInterrupt):
            run()
    journal.write([journal.task(999, EIGHT + 3 * HOUR_US + 5)], 7)
    run()
    assert tables.files()[1:] == ["toy_tasks/date=2026-11-15/part-0800.parquet"]
    assert [row for row in tables.rows("toy_tasks") if row["message_id"] != "m000999"] == made["toy_tasks"]
    assert not (tables.folder / "_days").exists()
    assert run().tables == ()


def test_a_new_table_is_made_of_everything(run: Run, journal: Journal, tables: Tables, toys: list[Table]) -> None:
    journal.write(journal.tasks(0, 0), 1)
    services = toys.pop()
    run()
    assert set(tables.all()) == {"toy_tasks"}
    toys.append(services)
    assert hours_of(run()) == {"toy_services": 0}
    assert len(tables.rows("toy_services")) == 3


def test_tables_of_an_older_pipeline_are_made_anew(run: Run, journal: Journal, tables: Tables) -> None:
    """Known by the number in the state: rows may be in the folder of another hour, and no column would tell."""
    gone = journal.write(journal.tasks(0, 0), 1)
    for hour in (2, 3):
        journal.write(journal.tasks(hour, 100 * hour), 1)
    run()
    gone.unlink()
    run()
    made = tables.rows("toy_tasks")
    by_hour(tables, format=1)
    # As they were filed once: two hours have each other's rows.
    ten, eleven = (tables.folder / f"toy_tasks/date=2026-11-15/hour={hour}/part-00.parquet" for hour in (10, 11))
    ten.rename(tables.folder / "aside")
    eleven.rename(ten)
    (tables.folder / "aside").rename(eleven)
    assert tables.rows("toy_tasks") != made
    told: list[ProgressStep] = []
    summary = run(tell=told.append)
    assert (summary.renewed, hours_of(summary)) == (True, {"toy_tasks": 4, "toy_services": 0})
    assert tables.rows("toy_tasks") == made, "what the journal no longer has stays"
    assert [_words(step) for step in told if step.what == "renew"] == [
        "these tables are from an older pipeline, which filed some rows under wrong hours: all are made anew, save for "
        "hours that the journal no longer has"
    ]
    assert state.load(tables.place).format == state.FORMAT
    again = run(tell=told.append)
    assert (again.renewed, again.tables) == (False, ())


DAY_US = 24 * HOUR_US


@pytest.fixture
def by_day(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Table]:
    """A whole table that keeps the rows of days that have not changed, and tells which days it is made of."""
    columns = (Column("day", Kind.DATE, ""), Column("tasks", Kind.LONG, ""), Column("total", Kind.LONG, ""))
    monkeypatch.setitem(schemas.TABLES, "toy_days", columns)

    def finish(rows: DataFrame) -> DataFrame:
        total = F.sum("tasks").over(Window.orderBy("day").rowsBetween(Window.unboundedPreceding, 0))
        return rows.withColumn("total", total)

    def table(told: Callable[[list[int]], object], **more: Any) -> Table:
        def toy_days(toy_tasks: DataFrame) -> DataFrame:
            told(sorted(row.date.day for row in toy_tasks.select("date").distinct().collect()))
            return finish(toy_tasks.groupBy(F.col("date").alias("day")).agg(F.count("*").alias("tasks")))

        return Table("toy_days", Grain.WHOLE, ("toy_tasks",), toy_days, keeps=KeptRows("day", finish=finish, **more))

    return table


@pytest.mark.parametrize("scale", [None], ids=["few"], indirect=True)
def test_rows_of_days_that_have_not_changed_are_kept(
    run: Run, journal: Journal, tables: Tables, toys: list[Table], by_day: Callable[..., Table]
) -> None:
    made_of: list[list[int]] = []
    registry = [toys[0], by_day(made_of.append, days_before=1)]
    for day in range(4):
        journal.write([journal.task(day, EIGHT + day * DAY_US)], 1)
    run(registry=registry)
    journal.write([journal.task(9, EIGHT + 3 * DAY_US)], 2)
    run(registry=registry)
    assert [(row["day"].day, row["tasks"], row["total"]) for row in tables.rows("toy_days")] == [
        (15, 1, 1), (16, 1, 2), (17, 1, 3), (18, 2, 5),
    ]  # fmt: skip
    # What hours lack that were made meanwhile is known, however long ago that was.
    journal.write([journal.task(10, EIGHT + 2 * DAY_US)], 2)
    run(registry=registry, whole=False)
    journal.write([journal.task(11, EIGHT + 3 * DAY_US)], 3)
    run(registry=registry)
    assert made_of == [[15, 16, 17, 18], [17, 18], [16, 17, 18]]
    incremental = tables.rows("toy_days")
    run(registry=registry, again=True)
    assert tables.rows("toy_days") == incremental
    assert [row["total"] for row in incremental] == [1, 2, 4, 7]
    # And if what is there no longer holds, it is made of everything.
    registry = [toys[0], by_day(made_of.append, still_hold=lambda _old, _tasks: None)]
    journal.write([journal.task(12, EIGHT + 3 * DAY_US)], 4)
    run(registry=registry)
    assert made_of[-1] == [15, 16, 17, 18]
    assert [row["total"] for row in tables.rows("toy_days")] == [1, 2, 4, 8]


@pytest.mark.parametrize("scale", [None], ids=["few"], indirect=True)
def test_a_late_file_is_noticed_when_it_is_the_turn_of_its_day(run: Run, journal: Journal, tables: Tables) -> None:
    for day in range(6):
        journal.write([journal.task(day, EIGHT + day * DAY_US)], 1)
    run()
    for number, day in ((10, 1), (11, 2)):
        journal.write([journal.task(number, EIGHT + day * DAY_US)], 2)
    looked = [run() for _ in range(3)]
    assert [each.files_new for each in looked] == [0, 1, 1]
    assert looked[0].files == 4
    journal.write([journal.task(12, EIGHT)], 3)
    journal.write([journal.task(13, EIGHT + DAY_US)], 3)
    assert run(late=True).files_new == 2
    made = tables.all()
    assert len(made["toy_tasks"]) == 10
    run(again=True)
    assert tables.all() == made


def test_what_a_dead_run_left_is_removed(run: Run, journal: Journal, tables: Tables) -> None:
    journal.write(journal.tasks(0, 0), 1)
    left = tables.folder / "_staging" / "toy_tasks" / "date=2026-11-15"
    left.mkdir(parents=True)
    (left / "half.parquet").write_bytes(b"PAR1")
    run()
    assert not (tables.folder / "_staging").exists()
    assert len(tables.rows("toy_tasks")) == 30


def test_two_runs_do_not_meet(run: Run, journal: Journal, tables: Tables) -> None:
    journal.write(journal.tasks(0, 0), 1)
    with (
        locked(tables.place),
        pytest.raises(TablesBusy, match=r"in use by another run of the pipeline \(process \d+ on"),
    ):
        run()
    assert run().state == 1


def test_brokers_with_strange_names(run: Run, journal: Journal, tables: Tables) -> None:
    for number, broker in enumerate(("b.1", "b_2", "a b", "ä{*}?", "50%")):
        journal.write(journal.tasks(0, 100 * number, 3), 1, broker=broker)
    run()
    assert len(tables.rows("toy_tasks")) == 15


def test_duckdb_and_pandas_read_the_tables(run: Run, journal: Journal, tables: Tables) -> None:
    import duckdb
    import pandas as pd

    journal.write(journal.tasks(0, 0), 1)
    journal.write(journal.tasks(5, 100), 1)
    run()
    with duckdb.connect() as db:
        pattern = f"{tables.folder}/toy_tasks/**/*.parquet"
        counted = db.execute(f"select hour, count(*) from '{pattern}' group by hour order by hour").fetchall()
    assert [(int(hour), count) for hour, count in counted] == [(8, 30), (13, 30)]
    frame = pd.read_parquet(tables.folder / "toy_tasks")
    assert (len(frame), str(frame["ended"].dt.tz)) == (60, "UTC")
