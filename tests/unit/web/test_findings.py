"""The pipeline's findings at the HTTP port: read when they are another file, and never in the way."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.unit.tables.conftest import finding, write
from tests.unit.web.conftest import Clock, Port

from famulus.broker.settings import Settings
from famulus.errors import NoAnswer
from famulus.tables import apart
from famulus.tables.finding import FILE, FILE_BYTES_MAX
from famulus.web import findings
from famulus.web.findings import ANSWER_BYTES_MAX, LOOK_NS, SHOWN_MAX, Findings, look, made_by

COMMAND = "famulus pipeline run"


@pytest.fixture
def shown(tmp_path: Path, clock: Clock) -> Findings:
    return Findings(tmp_path, COMMAND, clock)


def told(shown: Findings) -> Any:
    return json.loads(asyncio.run(shown.answer()))


def test_without_a_run_of_the_pipeline_there_is_the_command_that_makes_them(shown: Findings) -> None:
    assert told(shown) == {
        "there": False,
        "problem": "",
        "command": COMMAND,
        "made_ms": None,
        "accounted": None,
        "total": 0,
        "findings": [],
    }


def test_findings_are_told_with_their_edits_and_their_age(shown: Findings, tmp_path: Path) -> None:
    path = write(tmp_path, finding(2, key=None, value=None), finding(1))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    answer = told(shown)
    assert (answer["there"], answer["accounted"], answer["total"]) == (True, True, 2)
    assert answer["made_ms"] == 1_700_000_000_000
    first, second = answer["findings"]
    assert first["last_seen_ms"] == 1_794_729_600_000
    assert (first["rank"], first["key"], first["value"]) == (1, "service/echo", {"backlog_tasks_max": 5000})
    assert (len(first["digest"]), second["digest"]) == (16, "")


def test_a_file_is_read_again_only_if_it_is_another_one(
    shown: Findings, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    real = apart.read

    def noted(file: Any, rows_max: int) -> Any:
        reads.append(1)
        return real(file, rows_max)

    monkeypatch.setattr(apart, "read", noted)
    write(tmp_path, finding(1))
    for _ in range(5):
        told(shown)
        clock.now_ns += LOOK_NS
    assert len(reads) == 1
    write(tmp_path, finding(1), finding(2))
    assert told(shown)["total"] == 2
    write(tmp_path)
    assert told(shown)["total"] == 2, "one looks once a second at most"
    clock.now_ns += LOOK_NS
    assert (told(shown)["total"], len(reads)) == (0, 3)
    (tmp_path / FILE).unlink()
    clock.now_ns += LOOK_NS
    assert not told(shown)["there"]


def test_an_answer_is_bounded(shown: Findings, tmp_path: Path, clock: Clock) -> None:
    write(tmp_path, *(finding(rank) for rank in range(1, SHOWN_MAX + 10)))
    answer = told(shown)
    assert (len(answer["findings"]), answer["total"]) == (SHOWN_MAX, SHOWN_MAX + 9)
    clock.now_ns += LOOK_NS
    write(tmp_path, *(finding(rank, evidence=f"{rank:05}" * 2000) for rank in range(1, SHOWN_MAX)))
    assert len(asyncio.run(shown.answer())) < ANSWER_BYTES_MAX + 1000
    answer = told(shown)
    assert 50 < len(answer["findings"]) < answer["total"] == SHOWN_MAX - 1
    assert answer["findings"][0]["rank"] == 1


def rubbish(path: Path) -> None:
    path.write_bytes(b"rubbish" * 100)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)


@pytest.mark.parametrize(
    ("plant", "problem"),
    [
        (rubbish, "the findings cannot be read: "),
        (huge, "the findings cannot be read: it has 16,777,217 bytes, and 16,777,216 at most are read"),
        (os.mkfifo, "the findings cannot be read: it is not a file"),
        (Path.mkdir, "the findings cannot be read: "),
    ],
)
def test_what_is_no_file_of_findings_is_one_sentence(port: Port, tables: Path, plant: Any, problem: str) -> None:
    (tables / FILE).parent.mkdir(parents=True)
    plant(tables / FILE)
    answer = port.get("/api/v1/findings")
    assert answer.status_code == 200
    assert answer.json()["problem"].startswith(problem)
    assert not answer.json()["there"]


def test_another_store_is_left_to_the_command() -> None:
    assert b"famulus findings --tables shows them" in look("s3://bucket/tables", COMMAND, None).answer


def test_a_disk_that_hangs_holds_up_nobody_else(port: Port, shown: Findings, monkeypatch: pytest.MonkeyPatch) -> None:
    hang, started = threading.Event(), []

    def hanging(*_: object) -> findings.ShownFindings:
        started.append(1)
        hang.wait(20)
        return findings.ShownFindings(None, b"{}")

    monkeypatch.setattr(findings, "look", hanging)
    monkeypatch.setattr(findings, "WAIT_S", 0.05)

    async def story() -> bytes:
        for _ in range(3):
            with pytest.raises(NoAnswer, match="the folder of the tables does not answer"):
                await shown.answer()
        assert len(started) == 1, "one thread, however many ask"
        hang.set()
        monkeypatch.setattr(findings, "WAIT_S", 20.0)
        return await shown.answer()

    assert asyncio.run(story()) == b"{}"
    hang.clear()
    monkeypatch.setattr(findings, "WAIT_S", 0.05)
    assert port.get("/api/v1/findings").status_code == 503
    hang.set()


def test_a_herald_that_nobody_asks_does_without_arrow() -> None:
    """It would be most of its memory."""
    script = "import sys, famulus.web.herald; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0


def test_the_command_names_the_folders_that_the_broker_has() -> None:
    assert made_by(Settings(journal_folder="/a b/journal")) == "famulus pipeline run --journal '/a b/journal'"
    apart = Settings(journal_folder="/a/journal", tables_folder="/b/tables")
    assert made_by(apart) == "famulus pipeline run --journal /a/journal --tables /b/tables"
    assert apart.tables_path() == "/b/tables"
    assert Settings(journal_folder="/a/journal/").tables_path() == "/a/tables"
    assert Settings(folder="/b1").tables_path() == "/b1/tables"
