"""`famulus chaos`: some seconds of it in every test run; longer ones are a command (docs/testing.md)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.processes.conftest import Process, alive, wait_until

SECONDS = 12
CHAOS = (sys.executable, "-m", "famulus", "chaos")


@pytest.mark.timeout(300)
def test_every_promise_is_kept_while_everything_fails() -> None:
    seed = int.from_bytes(os.urandom(3))
    print(f"famulus chaos --seconds {SECONDS} --seed {seed}")
    done = subprocess.run(
        [*CHAOS, "--seconds", str(SECONDS), "--seed", str(seed), "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert report["violations"] == [], f"{report}\n{done.stderr}"
    assert done.returncode == 0
    assert report["outcomes"]["OK"] > 100
    # How many depends on how soon a busy machine has all of it running.
    assert report["faults"]


def test_a_broken_promise_is_an_exit_code_of_1_and_its_ledgers_are_kept(tmp_path: Path) -> None:
    """The ledger of a worker is gone, so that nothing seems to have run what ended well."""
    folder = tmp_path / "run"
    script = (
        "import sys; from famulus.lab.chaos import ledgers; ledgers.names_of_calls = lambda *_: [];"
        "from famulus.cli.main import run; sys.argv[0] = 'famulus'; run()"
    )
    command = [sys.executable, "-c", script, "chaos", "--seconds", "10", "--loopback", "--brokers", "2"]
    done = subprocess.run(
        [*command, "--workers", "1", "--clients", "1", "--callers", "2", "--folder", str(folder), "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 1, done.stderr
    assert any("tasks lost" in violation for violation in json.loads(done.stdout)["violations"])
    assert (folder / "b1.log").exists()


def test_ctrl_c_ends_all_of_it(processes: type[Process]) -> None:
    running = processes(*CHAOS, "--loopback", "--brokers", "2")
    running.wait_for_line(r"\d s  \w+ ", 60)
    everybody = _descendants(running.pid)
    assert len(everybody) > 10
    running.signal(signal.SIGINT)
    assert running.wait(60) == 130
    wait_until(lambda: not any(map(alive, everybody)), 20, "the end of everybody")
    assert "Traceback" not in running.output


def _descendants(pid: int) -> list[int]:
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*children, *(each for child in children for each in _descendants(child))]
