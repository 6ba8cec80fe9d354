"""Rows on a cluster that loses its parts: no at-most-once task runs twice, no row is lost. Each starts several JVMs.

A worker's ledger says what ran. The broker remembers the tasks for two minutes, and each of these takes less.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.longer import longer
from tests.pipeline.jobs.test_clusters import env, standalone
from tests.pipeline.spark.asking_app import ROWS
from tests.processes.conftest import HERE, Process, WorkerProcess, wait_until

from famulus.lab.processes import family
from famulus.testing import RunningBroker, running_broker

__all__ = ["env", "standalone"]  # fixtures
pytestmark = [longer, pytest.mark.timeout(600)]
APP = Path(__file__).parent / "asking_app.py"
LIMIT_S = 240.0


class Asked:
    """A broker, a worker with a ledger, and applications that ask it."""

    def __init__(self, broker: RunningBroker, folder: Path) -> None:
        self.broker, self.folder = broker, folder
        self.ledger = folder / "ledger"
        self.ledger.touch()

    def start(self, master: str, *words: str) -> Process:
        root = APP.parents[3]
        path = os.pathsep.join([str(root), str(root / "src")])
        folder = str(self.folder)
        return Process(sys.executable, str(APP), master, self.broker.frontend, folder, *words, env={"PYTHONPATH": path})

    @property
    def ran(self) -> Counter[str]:
        return Counter(line.split()[0] for line in self.ledger.read_text().splitlines())

    def wait_for_rows(self, count: int) -> None:
        wait_until(lambda: len(self.ran) >= count, LIMIT_S, f"{count} rows begun")

    def attempts(self) -> Counter[str]:
        """How many there were at each partition."""
        return Counter(file.name.partition("-")[0] for file in (self.folder / "attempts").iterdir())

    def check(self) -> None:
        rows = pq.read_table(self.folder / "answers").sort_by("id").to_pylist()
        assert [row["id"] for row in rows] == list(range(ROWS))
        assert Counter(row["outcome"] for row in rows) == {"OK": ROWS}
        assert all(row["answer"].endswith(f" of row {row['id']}") for row in rows)
        assert self.ran == dict.fromkeys((row["message_id"] for row in rows), 1)


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    with running_broker() as broker:
        asked = Asked(broker, tmp_path)
        worker = WorkerProcess(str(HERE / "ledger_worker.py"), broker.backend, str(asked.ledger), "16", "once")
        try:
            yield asked
        finally:
            worker.close()


def kill_executor(pid: int) -> None:
    executors = [each for each in family(pid) if b"CoarseGrainedExecutorBackend" in _command(each)]
    os.kill(executors[0], signal.SIGKILL)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_an_executor_is_killed(asked: Asked) -> None:
    app = asked.start("local-cluster[2,1,1024]")
    try:
        asked.wait_for_rows(ROWS // 5)
        kill_executor(app.pid)
        app.wait_for_line("^done$", LIMIT_S)
    finally:
        app.close()
    asked.check()
    assert max(asked.attempts().values()) > 1


def test_a_slow_partition_is_tried_twice_at_once(asked: Asked) -> None:
    app = asked.start("local-cluster[2,1,1024]", "speculate")
    try:
        app.wait_for_line("^done$", LIMIT_S)
    finally:
        app.close()
    asked.check()
    assert max(asked.attempts().values()) > 1


def test_the_driver_is_killed_and_run_again(asked: Asked) -> None:
    app = asked.start("local[2]", "checkpoint")
    try:
        asked.wait_for_rows(ROWS // 2)
        for pid in family(app.pid):
            os.kill(pid, signal.SIGKILL)
    finally:
        app.close()
    again = asked.start("local[2]", "checkpoint")
    try:
        again.wait_for_line("^done$", LIMIT_S)
    finally:
        again.close()
    asked.check()


def test_a_standalone_master_loses_an_executor(asked: Asked, standalone: str) -> None:
    app = asked.start(standalone)
    try:
        asked.wait_for_rows(ROWS // 5)
        kill_executor(os.getpid())  # the master and its workers are ours
        app.wait_for_line("^done$", LIMIT_S)
    finally:
        app.close()
    asked.check()
    assert max(asked.attempts().values()) > 1
