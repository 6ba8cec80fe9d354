"""A run that is killed and done again gives the tables that an undisturbed one gives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from tests.pipeline.jobs.conftest import EIGHT, Journal, Tables

from famulus.pipeline.run import jobs
from famulus.pipeline.tables.table import Table

SCRIPT = Path(__file__).with_name("toy_run.py")
ROOT = Path(__file__).parents[3]
#: A machine under load is slow; this only ends what hangs.
LIMIT_S = 540


@contextmanager
def running(journal: Journal, tables: Tables, *, own_jvm: bool) -> Iterator[subprocess.Popen[str]]:
    """A run in a process of its own. Its JVM may be ours: to start one takes longer than all the rest."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    started = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(journal.folder), str(tables.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **({} if own_jvm else our_jvm())},
        start_new_session=True,
    )
    with started as process:
        alarm = threading.Timer(LIMIT_S, process.kill)
        alarm.start()
        try:
            yield process
        finally:
            alarm.cancel()
            process.kill()


def our_jvm() -> dict[str, str]:
    assert SparkContext._gateway is not None
    reached = SparkContext._gateway.gateway_parameters
    return {"PYSPARK_GATEWAY_PORT": str(reached.port), "PYSPARK_GATEWAY_SECRET": reached.auth_token}


def steps(process: subprocess.Popen[str]) -> Iterator[str]:
    """Each as it is reached; the run goes on when the next one is asked for."""
    assert process.stdout is not None
    assert process.stdin is not None
    while line := process.stdout.readline():
        yield line.strip()
        process.stdin.write("\n")
        process.stdin.flush()


def kill_at(process: subprocess.Popen[str], step: str) -> None:
    seen = []
    for each in steps(process):
        seen.append(each)
        if each == step:
            os.kill(process.pid, signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            return
    raise AssertionError(f"it never came to {step!r}, only to {seen}")


@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize(
    ("step", "own_jvm"),
    [("settle toy_tasks/date=2026-11-15/part-0800.parquet", False), ("stage toy_services", True), ("remember", False)],
)
def test_killed_at_any_step_and_done_again(
    step: str, own_jvm: bool, spark: SparkSession, journal: Journal, tables: Tables, toys: list[Table], tmp_path: Path
) -> None:
    for hour in range(2):
        journal.write(journal.tasks(hour, 100 * hour), 1)
    jobs.run(spark, journal.place, tables.place, registry=toys)
    # Attempts of tasks that were done before: hours are made again, and have other rows than before.
    journal.write([journal.task(n, EIGHT + 1_800_000_000 + n) for n in range(20)], 2)
    journal.write(journal.tasks(2, 200), 1)
    with running(journal, tables, own_jvm=own_jvm) as process:
        kill_at(process, step)
    jobs.run(spark, journal.place, tables.place, registry=toys)
    undisturbed = Tables(tmp_path / "undisturbed")
    jobs.run(spark, journal.place, undisturbed.place, registry=toys)
    assert tables.all() == undisturbed.all()
    assert tables.files() == undisturbed.files()
    assert not (tables.folder / "_staging").exists()


@pytest.mark.timeout(LIMIT_S + 60)
def test_a_second_run_is_refused_while_the_first_is_at_it(
    spark: SparkSession, journal: Journal, tables: Tables, toys: list[Table]
) -> None:
    from famulus.errors import TablesBusy

    journal.write(journal.tasks(0, 0), 1)
    with running(journal, tables, own_jvm=False) as process:
        next(steps(process))
        with pytest.raises(TablesBusy, match=f"process {process.pid} on "):
            jobs.run(spark, journal.place, tables.place, registry=toys)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    # The dead hold nothing.
    assert jobs.run(spark, journal.place, tables.place, registry=toys).state == 1
