"""The journal of real brokers: what happened is in it, whatever dies, and it is never in the way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.processes import warm
from tests.processes.conftest import Book, BrokerProcess, WorkerProcess, wait_until

from famulus import Client
from famulus.journal.listing import last_rows
from famulus.journal.reading import JournalReader

TASKS = 300


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def start(brokers: Callable[..., BrokerProcess], tmp_path: Path, folder: Path) -> Callable[..., BrokerProcess]:
    """Brokers with a journal whose files are finished every second."""
    config = tmp_path / "broker.toml"
    config.write_text("journal_roll_s = 1\n")

    def begin(*flags: str, **more: Any) -> BrokerProcess:
        return brokers(
            *("--config", str(config), "--routers", "1", "--heartbeat-ms", "500", "--identity", "ann"),
            *("--journal-folder", str(folder), *flags),
            **more,
        )

    return begin


def rows_of(folder: Path, table: str) -> list[dict[str, Any]]:
    return last_rows(JournalReader(folder), table, 1_000_000)


def events(folder: Path, table: str) -> Counter[str]:
    return Counter(row["event"] for row in rows_of(folder, table))


def wait_for_rows(folder: Path, table: str, holds: Callable[[list[dict[str, Any]]], object], what: str) -> None:
    wait_until(lambda: folder.exists() and holds(rows_of(folder, table)), 60, what)


def ask(frontend: str, count: int = TASKS) -> None:
    with Client(frontend) as client:
        assert len(list(client.map("echo", [b"x" * 10] * count, window=50))) == count


def scribe_of(broker: BrokerProcess) -> int:
    wait_until(lambda: broker.children("scribe"), 20, "a scribe")
    return broker.children("scribe")[0]


def test_a_broker_that_is_stopped_has_written_everything_down(
    start: Callable[..., BrokerProcess], echo_workers: Callable[..., WorkerProcess], folder: Path
) -> None:
    broker = start()
    echo_workers(broker.backend)
    ask(broker.frontend)
    wait_for_rows(folder, "brokers", lambda rows: any(row["event"] == "load" for row in rows), "the load")
    with Client(broker.frontend) as client:
        book = Book(client)
        book.ask("nobody", b"")
        book.wait_for_all()
    assert broker.stop() == 0, broker.output
    rows = rows_of(folder, "tasks")
    assert Counter(row["outcome"] for row in rows) == {"OK": TASKS, "REJECTED": 1}
    (rejected,) = [row for row in rows if row["outcome"] == "REJECTED"]
    assert (rejected["message_id"], rejected["service"], rejected["reason"]) == ("task-0", "nobody", "no_service")
    assert (rejected["attempt"], rejected["worker"], rejected["assigned"]) == (0, None, None)
    assert len({row["ticket"] for row in rows}) == len({row["message_id"] for row in rows}) == TASKS + 1
    assert all(row["total_ns"] == row["queue_ns"] + row["service_ns"] for row in rows if row["outcome"] == "OK")
    assert {row["broker"] for row in rows} == {"ann"}
    assert events(folder, "workers").keys() >= {"connect", "ready"}
    happened = events(folder, "brokers")
    assert happened.keys() >= {"start", "stop", "state", "process_started", "load"}
    assert happened["gap"] == 0
    assert JournalReader(folder).verify().whole


def test_the_objective_of_a_service_is_told_at_the_start(
    start: Callable[..., BrokerProcess], tmp_path: Path, folder: Path
) -> None:
    objective = "[services.echo.objective]\nshare = 0.999\nwithin_ms = 500\n"
    (tmp_path / "broker.toml").write_text(f"journal_roll_s = 1\n{objective}[services.sum]\ntimeout_ms = 5\n")
    start()
    wait_for_rows(folder, "brokers", lambda rows: any(row["event"] == "objective" for row in rows), "the objective")
    told = [row for row in rows_of(folder, "brokers") if row["event"] == "objective"]
    assert [(row["service"], json.loads(row["detail"])) for row in told] == [
        ("echo", {"share": 0.999, "within_ms": 500, "days": 30})
    ]
    assert told[0]["boot"]


def test_without_a_journal_there_is_none(
    brokers: Callable[..., BrokerProcess], echo_workers: Callable[..., WorkerProcess], folder: Path
) -> None:
    broker = brokers("--routers", "1", "--no-journal", "--journal-folder", str(folder))
    echo_workers(broker.backend)
    ask(broker.frontend, 10)
    assert broker.children("scribe") == []
    broker.stop()
    assert not folder.exists()


def test_a_killed_scribe_is_replaced_and_what_it_had_is_a_gap(
    start: Callable[..., BrokerProcess], echo_workers: Callable[..., WorkerProcess], folder: Path
) -> None:
    broker = start()
    echo_workers(broker.backend)
    ask(broker.frontend)
    wait_for_rows(folder, "tasks", lambda rows: len(rows) == TASKS, "all rows")
    scribe = scribe_of(broker)
    os.kill(scribe, signal.SIGSTOP)  # so that it gets rows, and cannot write them
    ask(broker.frontend)
    os.kill(scribe, signal.SIGKILL)
    wait_until(lambda: broker.children("scribe") not in ([], [scribe]), 30, "a new scribe")
    ask(broker.frontend)
    broker.stop()
    written = len(rows_of(folder, "tasks"))
    gaps = Counter[str]()
    for row in rows_of(folder, "brokers"):
        if row["event"] == "gap":
            gaps[row["table"]] += row["rows"]
    assert written + gaps["tasks"] == 3 * TASKS, (written, gaps)
    assert events(folder, "brokers")["process_died"] == 1


def test_a_killed_dispatcher_leaves_its_open_tasks_in_the_journal(
    start: Callable[..., BrokerProcess], ledger_workers: Callable[..., WorkerProcess], folder: Path
) -> None:
    broker = start()
    ledger_workers(broker.backend, "once", slots=1)
    with Client(broker.frontend) as client:
        book = Book(client)
        running, queued = book.ask("once", b"sleep 30"), book.ask("once", b"sleep 30")
        wait_for_rows(folder, "open_tasks", lambda rows: len(rows) == 2, "both tasks at a checkpoint")
        dispatcher = broker.dispatcher
        os.kill(dispatcher, signal.SIGKILL)
        wait_until(lambda: broker.children("dispatcher") not in ([], [dispatcher]), 20, "a new dispatcher")
    states = {row["message_id"]: row["state"] for row in rows_of(folder, "open_tasks")}
    assert states == {running: "running", queued: "queued"} | states
    broker.stop()
    died = [row for row in rows_of(folder, "brokers") if row["event"] == "process_died"]
    assert [(row["process"], row["detail"]) for row in died] == [("dispatcher", "signal SIGKILL")]
    boots = {row["boot"] for row in rows_of(folder, "brokers")}
    assert len(boots) == 2
    assert died[0]["boot"] == rows_of(folder, "open_tasks")[0]["boot"]


def test_a_folder_that_cannot_be_written_is_a_warning_and_then_a_gap(
    start: Callable[..., BrokerProcess], echo_workers: Callable[..., WorkerProcess], folder: Path
) -> None:
    folder.write_text("this is not a folder")
    broker = start()
    echo_workers(broker.backend)
    ask(broker.frontend)
    broker.wait_for_line("the journal cannot be written")
    ask(broker.frontend)
    folder.unlink()
    wait_for_rows(folder, "brokers", lambda rows: any(row["event"] == "gap" for row in rows), "a gap")
    assert broker.stop() == 0
    found = JournalReader(folder).verify()
    assert found.gaps
    assert found.gaps.get("tasks", 0) + len(rows_of(folder, "tasks")) == 2 * TASKS


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    if os.getuid() != 0 or shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(path: Path) -> None:
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(512))


def test_a_full_disk_stops_nobody_and_is_a_gap_when_there_is_room(
    start: Callable[..., BrokerProcess], echo_workers: Callable[..., WorkerProcess], small_disk: Path
) -> None:
    full = small_disk / "filler"
    journal = small_disk / "journal"
    broker = start("--journal-folder", str(journal))
    echo_workers(broker.backend)
    ask(broker.frontend)
    wait_for_rows(journal, "tasks", lambda rows: len(rows) == TASKS, "all rows")
    fill(full)
    ask(broker.frontend)
    broker.wait_for_line("the journal cannot be written")
    ask(broker.frontend)
    full.unlink()
    wait_for_rows(journal, "brokers", lambda rows: any(row["event"] == "gap" for row in rows), "a gap")
    ask(broker.frontend)
    assert broker.stop() == 0
    found = JournalReader(journal).verify()
    accounted = found.gaps.get("tasks", 0) + len(rows_of(journal, "tasks"))
    assert accounted == 4 * TASKS, (found, broker.output)
    assert not found.broken


def test_the_commands_tell_of_it(
    start: Callable[..., BrokerProcess], echo_workers: Callable[..., WorkerProcess], folder: Path
) -> None:
    broker = start()
    echo_workers(broker.backend)
    ask(broker.frontend)
    wait_for_rows(folder, "tasks", lambda rows: len(rows) == TASKS, "all rows")
    broker.stop()

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "famulus", "journal", *words, "--folder", str(folder)]
        return warm.run(command, capture_output=True, text=True, timeout=60)

    assert json.loads(run("stat", "--json").stdout)["tables"]["tasks"]["rows"] == TASKS
    assert "it is whole" in run("verify").stdout
    lines = run("tail", "tasks", "--rows", "3", "--json").stdout.splitlines()
    assert [json.loads(line)["outcome"] for line in lines] == ["OK"] * 3
    assert "event=ready" in run("tail", "workers").stdout
    assert run("compact").returncode == 0
    path = next(folder.glob("tasks/*/*/*.parquet"))
    path.write_bytes(path.read_bytes()[:50])
    assert run("verify").returncode == 1
    missing = warm.run(
        [sys.executable, "-m", "famulus", "journal", "stat", "--folder", str(folder / "no")],
        capture_output=True,
        text=True,
    )
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)
    assert "there is no journal" in missing.stderr
