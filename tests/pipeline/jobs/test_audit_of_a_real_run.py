"""A real broker under load, with kills: what a client wrote down for itself, beside what the pipeline says."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.jobs.conftest import Tables
from tests.processes.conftest import HERE as PROCESSES
from tests.processes.conftest import BrokerProcess, Process, wait_until

from famulus.journal.reading import JournalReader
from famulus.lab.chaos.ledgers import Ended, Sent, names_of_calls, read_client
from famulus.pipeline import report
from famulus.pipeline.io.place import Place
from famulus.pipeline.run import jobs
from famulus.pipeline.tables import ALL
from famulus.pipeline.tables.scale import Scale

#: A dispatcher tells the scribe what happened every 50 ms; what it had not told yet dies with it.
UNTOLD_S = 1.0
#: A client that has lost its broker says so within its own time-out.
GIVEN_UP_S = 6.0
TASKS_MIN = 100
#: Once a second a dispatcher tells what is open; a machine that has much to do is late.
CHECKPOINT_S = 4.0
#: Each has one task open at a time.
CALLERS = 8


class Run:
    """One broker with a journal, two workers and a client that writes down what it was told."""

    def __init__(self, folder: Path, closing: ExitStack) -> None:
        self.folder, self._closing = folder, closing
        config = folder / "broker.toml"
        config.write_text('journal_roll_s = 1\nservices.once = {delivery = "at_most_once"}\n')
        flags = ("--config", str(config), "--routers", "1", "--heartbeat-ms", "500", "--identity", "ann")
        self.broker = BrokerProcess(*flags, "--journal-folder", str(self.journal))
        closing.callback(self.broker.close)
        wait_until(lambda: self.broker.children("scribe"), 20, "a scribe")

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    @property
    def ledger(self) -> tuple[list[Sent], list[Ended]]:
        return read_client(self.folder / "c1")

    def worker(self, name: str) -> Process:
        worker = self._python("ledger_worker.py", self.broker.backend, str(self.folder / name), "4", "once")
        worker.wait_for_line("is ready: ")
        return worker

    def client(self) -> Process:
        client = self._python(
            "ledger_client.py", self.broker.frontend, str(self.folder / "c1"), "once", str(CALLERS), "c1"
        )
        client.wait_for_line("asking")
        return client

    def rows(self) -> int:
        """Of tasks, that nobody can lose any more."""
        return JournalReader(self.journal).figures()["tasks"].rows if self.journal.exists() else 0

    def ended_after(self, instant: float) -> list[Ended]:
        return [each for each in self.ledger[1] if each.at > instant and each.outcome == "OK"]

    def _python(self, program: str, *words: str) -> Process:
        process = Process(sys.executable, str(PROCESSES / program), *words)
        self._closing.callback(process.close)
        return process


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with ExitStack() as closing:
        yield Run(tmp_path, closing)


def test_every_task_of_a_clients_ledger_is_accounted_for(
    spark: SparkSession, run: Run, tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = run.worker("w1"), run.worker("w2")
    client = run.client()
    wait_until(lambda: run.rows() > TASKS_MIN, 60, "a hundred tasks in the journal")
    first.signal(signal.SIGKILL)
    before = run.rows()
    run.worker("w3")
    wait_until(lambda: run.rows() > before + TASKS_MIN, 60, "a hundred more")
    dispatcher = run.broker.dispatcher
    os.kill(dispatcher, signal.SIGKILL)
    killed = time.monotonic()
    wait_until(lambda: len(run.ended_after(killed + 0.1)) > TASKS_MIN, 60, "a hundred with a new dispatcher")
    client.signal(signal.SIGTERM)
    assert client.wait(30) == 0
    assert run.broker.stop() == 0, run.broker.output

    registry = [table for table in ALL if table.name in ("task_facts", "service_minutes", "audit")]
    jobs.run(spark, Place(run.journal), tables.place, registry=registry)
    facts = {row["message_id"]: row for row in tables.rows("task_facts")}
    audit = tables.rows("audit")
    (window,) = [row for row in audit if row["kind"] == "crash_window"]
    sent, ended = run.ledger
    assert {each.message_id for each in sent} == {each.message_id for each in ended}

    # What the broker told the client is what the journal says, each task once.
    differing = [
        (each.message_id, each.outcome, facts[each.message_id]["outcome"])
        for each in ended
        if each.message_id in facts and each.outcome != "UNKNOWN" and facts[each.message_id]["outcome"] != each.outcome
    ]
    untold = [each for each in ended if each.message_id not in facts]
    for each in untold:
        late_s = GIVEN_UP_S if each.outcome == "UNKNOWN" else 0.2
        assert killed - UNTOLD_S < each.at < killed + late_s, f"{each} is not in the journal, and nothing had died"
    # A task that was open at a checkpoint and ended before the kill may have lost its row, but not its trace.
    assert all(outcome is None for _, _, outcome in differing), differing
    assert facts.keys() <= {each.message_id for each in sent}, "nobody else asked"
    assert len(facts) > 3 * TASKS_MIN

    # What nobody wrote a row for is counted, about: also of tasks that workers did.
    ran = set(names_of_calls(run.folder / name for name in ("w1", "w2", "w3")))
    nowhere = [each for each in sent if each.message_id in ran and each.message_id not in facts]
    for one in nowhere:
        assert killed - CHECKPOINT_S < one.at < killed, f"{one} came long before the kill, and no checkpoint saw it"
    assert len(nowhere) <= 5 * window["untold"] + CALLERS, window

    # And the audit finds the death, and nothing that it cannot explain.
    assert [row for row in audit if not row["explained"]] == []
    assert "SIGKILL" in window["explanation"]
    # So nobody says that every task is accounted for.
    headline = report.write(tables.folder, tmp_path / "report.html").read_text().split("<h2>")[1]
    assert headline.startswith("Every task that the journal knows of is accounted for</h2>")
    assert f"what a crash took with it before it was written down, up to about {window['untold']:,} task" in headline
    assert not [row for row in audit if row["kind"] in ("two_outcomes", "at_most_once") and row["severity"] == "error"]

    # However many rows Spark is set for, the tables are the same.
    for scale in (Scale.MEDIUM, Scale.LARGE):
        monkeypatch.setattr(jobs, "scale_for", lambda _, scale=scale: scale)
        others = Tables(tmp_path / f"tables-{scale.value}")
        jobs.run(spark, Place(run.journal), others.place, registry=registry)
        for table in registry:
            assert sorted(map(str, others.rows(table.name))) == sorted(map(str, tables.rows(table.name)))
