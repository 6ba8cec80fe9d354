"""Ctrl-C: `run` stops at once, `follow` after the batch at hand, or at once if it is asked again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.longer import longer
from tests.pipeline.jobs.conftest import Journal, Tables

BEGUN = "making task_facts"
LIMIT_S = 120


@contextmanager
def command(name: str, journal: Journal, tables: Tables) -> Iterator[subprocess.Popen[str]]:
    journal.write(journal.tasks(0, 1), 1)
    places = ("--journal", str(journal.folder), "--tables", str(tables.folder), "--master", "local[1]")
    process = subprocess.Popen(
        [sys.executable, "-m", "famulus", "pipeline", name, *places],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def interrupt(process: subprocess.Popen[str]) -> None:
    """As a terminal does: the whole group."""
    os.killpg(process.pid, signal.SIGINT)


def wait_for_line(process: subprocess.Popen[str], words: str) -> None:
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if words in line:
            return
    raise AssertionError(f"{words!r} is not in {lines}")


@longer
def test_a_run_stops_and_says_so(journal: Journal, tables: Tables) -> None:
    with command("run", journal, tables) as process:
        wait_for_line(process, BEGUN)
        interrupt(process)
        _, said = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 130
        assert "stopped" in said
        assert "Traceback" not in said
        assert "findings" not in said


@longer
def test_to_follow_stops_at_the_second_time(journal: Journal, tables: Tables) -> None:
    with command("follow", journal, tables) as process:
        wait_for_line(process, BEGUN)
        interrupt(process)
        wait_for_line(process, "once more stops at once")
        interrupt(process)
        _, said = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 130
        assert "stopped" in said
        assert "findings" not in said
