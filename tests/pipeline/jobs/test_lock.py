"""A store without locks: a note that is renewed, and that who does not renew it loses."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.jobs.conftest import Journal, Tables

from famulus.errors import TablesBusy
from famulus.pipeline.io.place import Place
from famulus.pipeline.run import jobs, lock
from famulus.pipeline.run.lock import PATH, locked
from famulus.pipeline.run.progress import ProgressStep
from famulus.pipeline.tables.table import Table


class FarAway(Place):
    """A folder that is used as a remote store is."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"file://{folder}")
        self.is_local = False


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FarAway:
    monkeypatch.setattr(lock, "SETTLE_S", 0.01)
    return FarAway(tmp_path / "tables")


def note_of(store: FarAway) -> Path:
    return Path(store.full(PATH))


def test_a_note_keeps_others_out_until_it_is_released(store: FarAway) -> None:
    with locked(store) as held:
        with (
            pytest.raises(TablesBusy, match=rf"is in use by process {os.getpid()} on .*, which said so 0 s ago"),
            locked(store),
        ):
            pass
        held.check()
    assert not note_of(store).exists()
    with locked(store):
        pass
    assert [path.name for path in note_of(store).parent.iterdir()] == []


def test_the_note_of_a_dead_run_grows_old(store: FarAway) -> None:
    note_of(store).parent.mkdir(parents=True)
    note_of(store).write_text("process 1 on nowhere (x)")
    for age_s, is_free in ((lock.LOST_S - 20, False), (lock.LOST_S + 20, True)):
        os.utime(note_of(store), (time.time() - age_s,) * 2)
        if is_free:
            with locked(store) as held:
                held.check()
        else:
            with pytest.raises(TablesBusy, match="process 1 on nowhere"), locked(store):
                pass


def test_a_holder_renews_its_note(store: FarAway) -> None:
    with locked(store, renew_s=0.05):
        # As if it had been written long ago.
        os.utime(note_of(store), (0, 0))
        until = time.monotonic() + 30
        while note_of(store).stat().st_mtime == 0:
            assert time.monotonic() < until
            time.sleep(0.01)


def test_who_could_not_renew_in_time_gives_up(store: FarAway, monkeypatch: pytest.MonkeyPatch) -> None:
    with locked(store) as held:
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + lock.LOST_S + 1)
        with pytest.raises(TablesBusy, match="could not be renewed in time"):
            held.check()


def test_a_run_that_lost_its_note_publishes_nothing_more(
    spark: SparkSession, store: FarAway, journal: Journal, tables: Tables, toys: list[Table]
) -> None:
    journal.write(journal.tasks(0, 0), 1)

    def tell(step: ProgressStep) -> None:
        if (step.what, step.table) == ("stage", "toy_services"):
            note_of(store).write_text("process 1 on nowhere (x)")

    with pytest.raises(TablesBusy, match=r"was taken over by process 1 on nowhere"):
        jobs.run(spark, journal.place, store, registry=toys, tell=tell)
    assert tables.files() == ["toy_tasks/date=2026-11-15/part-0800.parquet"]
    assert note_of(store).read_text() == "process 1 on nowhere (x)", "it is not ours to remove"
    os.utime(note_of(store), (0, 0))
    assert jobs.run(spark, journal.place, store, registry=toys).state == 1
    assert len(tables.rows("toy_services")) == 3
