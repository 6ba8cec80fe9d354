"""A supervisor's child: whatever state it is in, telling, hearing and burying it raises nothing."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from famulus.broker.child import Child


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Child:
    """A child that repeats its first line as a report and then waits for the end of its standard input."""
    (tmp_path / "parrot.py").write_text(
        "import sys\nprint(sys.stdin.readline(), end='', flush=True)\nsys.stdin.read()\nsys.exit(3)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return Child("parrot", "parrot")


def hear_once(child: Child) -> None:
    deadline = time.monotonic() + 10
    while not child.facts:
        assert time.monotonic() < deadline
        assert child.hear()
        time.sleep(0.01)


def wait_for_end(child: Child) -> None:
    deadline = time.monotonic() + 10
    while child.hear():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_hears_what_the_child_reports(child: Child) -> None:
    child.start({"ready": True, "port": 7})
    hear_once(child)
    assert child.ready
    assert child.facts["port"] == 7
    assert child.pid > 0
    assert child.bury() == "exit code 3"
    assert (child.running, child.ready, child.pid) == (False, False, 0)


def test_a_failure_is_kept_in_the_child_s_own_words(child: Child) -> None:
    child.start({"failed": "host: no such thing"})
    hear_once(child)
    assert child.failed == "host: no such thing"
    assert not child.ready
    child.bury()


def test_a_child_that_died_before_it_was_told_can_be_buried(child: Child) -> None:
    child.start({"ready": True})
    os.kill(child.pid, signal.SIGKILL)
    wait_for_end(child)
    child.tell({"drain_ms": 1})
    assert child.bury() == "signal SIGKILL"


def test_a_new_life_forgets_the_former_one(child: Child) -> None:
    child.start({"failed": "once"})
    hear_once(child)
    child.bury()
    child.start({"x": 1})
    assert child.failed == ""
    assert not child.ready
    child.kill()
    wait_for_end(child)
    assert child.bury() == "signal SIGKILL"
    child.kill()  # of nobody: nothing happens
