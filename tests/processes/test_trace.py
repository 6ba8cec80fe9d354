"""`famulus tasks` and `famulus trace` on the journals of real brokers, which lost workers or work together."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.processes import warm
from tests.processes.conftest import Book, BrokerProcess, WorkerProcess, retry, wait_until
from tests.processes.networks import Network

from famulus import Client
from famulus.journal.listing import last_rows
from famulus.journal.reading import JournalReader

SETTINGS = 'journal_roll_s = 1\n[services.again]\ndelivery = "at_least_once"\nmax_attempts = 3\n'


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def broker(brokers: Callable[..., BrokerProcess], tmp_path: Path, journal: Path) -> BrokerProcess:
    config = tmp_path / "broker.toml"
    config.write_text(SETTINGS)
    flags = ("--config", str(config), "--routers", "1", "--heartbeat-ms", "5000", "--identity", "ann")
    return brokers(*flags, "--journal-folder", str(journal))


def famulus(*words: str, code: int = 0) -> str:
    done = warm.run([sys.executable, "-m", "famulus", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done
    return str(done.stdout if code == 0 else done.stderr)


def trace(message_id: str, *journals: Path) -> dict[str, Any]:
    places = [word for each in journals for word in ("--journal", str(each))]
    story: dict[str, Any] = json.loads(famulus("trace", message_id, *places, "--json"))
    return story


def steps(story: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    return [(step["event"], step["broker"], step["worker"] or step["peer"]) for step in story["steps"]]


def test_a_task_whose_worker_was_lost_shows_both_attempts(
    broker: BrokerProcess, ledger_workers: Callable[..., WorkerProcess], journal: Path
) -> None:
    workers = [ledger_workers(broker.backend, "again") for _ in range(2)]
    with Client(broker.frontend) as client:
        book = Book(client)
        task = book.ask("again", b"sleep 1.0")
        wait_until(lambda: any(worker.ledger for worker in workers), 10, "that a worker has it")
        next(worker for worker in workers if worker.ledger).signal(signal.SIGKILL)
        failed = book.ask("again", b"fail")
        book.wait_for_all()
    # Its rows can be read a second later: until then, --wait looks again.
    waited = json.loads(famulus("trace", task, "--wait", "60", "--journal", str(journal), "--json"))
    assert broker.stop() == 0
    story = trace(task, journal)
    assert waited["outcome"] == story["outcome"]
    attempts = [step for step in story["steps"] if step["event"] in ("assigned", "retry", "answered")]
    assert [(step["event"], step["attempt"]) for step in attempts] == [
        ("assigned", 1),
        ("retry", 1),
        ("assigned", 2),
        ("answered", 2),
    ]
    assert attempts[0]["worker"] == attempts[1]["worker"] != attempts[2]["worker"] == attempts[3]["worker"]
    assert (story["outcome"], story["ran"], story["at_most_once"]) == ("OK", "yes", False)

    told = famulus("trace", task, "--journal", str(journal))
    assert told.startswith(f"task {task}: service again, at least once, priority 5\n")
    assert re.search(r"was lost, (silent for|it could not be reached).*: another attempt follows", told)
    assert re.search(r"^outcome +OK$", told, re.MULTILINE)

    # The list has the tasks, the lost attempt if somebody wants it, and finds what is looked for.
    listed = [json.loads(line) for line in famulus("tasks", "--journal", str(journal), "--json").splitlines()]
    assert {row["message_id"]: (row["outcome"], row["attempt"]) for row in listed}[task] == ("OK", 2)
    assert listed[-1]["message_id"] == task
    lost = famulus("tasks", "--outcome", "retry", "--reason", "worker_lost", "--journal", str(journal))
    assert [line.split()[2] for line in lost.splitlines()[1:]] == [task]
    errors = famulus("tasks", "--outcome", "ERROR", "--since", "10m", "--service", "again", "--journal", str(journal))
    assert failed in errors.splitlines()[-1]
    slow = famulus("tasks", "--slower", "900", "--limit", "1", "--json", "--journal", str(journal))
    assert json.loads(slow)["message_id"] == task

    # What is not there, or not clear, is one line.
    assert famulus("trace", "nobody", "--journal", str(journal), code=1).count("\n") == 1
    assert "begins several ids" in famulus("trace", "task", "--journal", str(journal), code=2)
    assert "there is no journal" in famulus("trace", task, "--journal", str(journal / "no"), code=2)
    assert "neither a time" in famulus("tasks", "--since", "soon", "--journal", str(journal), code=2)


def test_a_task_that_a_crash_swallowed_is_told_of_by_its_checkpoint(
    broker: BrokerProcess, ledger_workers: Callable[..., WorkerProcess], journal: Path
) -> None:
    ledger_workers(broker.backend, "once")
    with Client(broker.frontend) as client:
        book = Book(client)
        task = book.ask("once", b"sleep 30")
        wait_until(
            lambda: journal.exists() and last_rows(JournalReader(journal), "open_tasks", 1), 20, "a checkpoint with it"
        )
        story = trace(task, journal)
        assert (story["outcome"], story["fate"]) == (None, "open")
        dispatcher = broker.dispatcher
        os.kill(dispatcher, signal.SIGKILL)
        # A broker that is stopped before it has seen the death would not write it down.
        wait_until(lambda: broker.children("dispatcher") not in ([], [dispatcher]), 20, "a new dispatcher")
        book.wait_for_all()
    assert broker.stop() == 0
    story = trace(task, journal)
    assert (story["outcome"], story["fate"], story["ran"]) == (None, "died", "maybe")
    assert story["try_again"].startswith("Only if running it twice does no harm")
    assert [event for event, _, _ in steps(story)] == ["arrived", "assigned", "unseen"]


def test_a_task_that_was_handed_over_is_told_of_by_both_journals(
    tmp_path: Path, echo_workers: Callable[..., WorkerProcess]
) -> None:
    network = Network(tmp_path, journals=True)
    try:
        first, second = network.found("b1"), network.join("b2")
        network.wait_until_active()
        echo_workers(second.backend)
        with Client(first.frontend) as client:
            retry(client, "echo")
            assert client.request("echo", b"x", message_id="order-4711") == b"x"
        for member in (first, second):
            assert member.broker.stop() == 0
        story = trace("order-47", first.path, second.path)
    finally:
        network.close()
    told = [step for step in steps(story) if step[0] != "queued"]
    worker = told[-2][2]
    assert told == [
        ("arrived", "b1", None),
        ("delegated", "b1", "b2"),
        ("arrived", "b2", "b1"),
        ("assigned", "b2", worker),
        ("answered", "b2", worker),
        ("answered", "b1", "b2"),
    ]
    assert (story["message_id"], story["outcome"], story["notes"]) == ("order-4711", "OK", [])
