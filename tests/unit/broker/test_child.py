"""A supervisor's child: whatever state it is in, telling, hearing and burying it raises nothing."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from famulus.broker.child import Child, Policy
from famulus.core.clock import NEVER_NS
from famulus.core.hangs import HANG_NS


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Child:
    """A child that repeats its first line as a report and then waits for the end of its standard input."""
    (tmp_path / "parrot.py").write_text(
        "import sys\nprint(sys.stdin.readline(), end='', flush=True)\nsys.stdin.read()\nsys.exit(3)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return Child("parrot", "parrot", Policy())


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


def wait_until_asleep(child: Child) -> None:
    deadline = time.monotonic() + 10
    while child.work()[0] != "S":
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


@pytest.mark.parametrize(
    ("policy", "is_ready", "silent_ns", "hangs"),
    [
        (Policy(hang_ns=100, start_ns=200), True, 99, False),
        (Policy(hang_ns=100, start_ns=200), True, 100, True),
        (Policy(hang_ns=100, start_ns=200), False, 199, False),
        (Policy(hang_ns=100, start_ns=200), False, 200, True),
        # Nobody waits for it: what it does meanwhile is its own affair.
        (Policy(), True, HANG_NS - 1, False),
    ],
)
def test_how_long_it_may_say_nothing_is_in_its_policy(
    child: Child, policy: Policy, is_ready: bool, silent_ns: int, hangs: bool
) -> None:
    child.policy = policy
    child.start({})
    child.ready = is_ready
    assert child.hangs(child.seen_ns + silent_ns) is hangs
    child.bury()
    assert not child.hangs(child.seen_ns + silent_ns), "who is gone does not hang"


def test_one_that_everybody_waits_for_is_found_early(child: Child) -> None:
    """It sleeps, which the parrot does once it has said its line."""
    child.policy = Policy(is_waited_for=True)
    assert child.look_ns == NEVER_NS
    child.start({"ready": True})
    hear_once(child)
    wait_until_asleep(child)
    at_ns, looks = child.look_ns, 0
    while not child.hangs(at_ns):
        at_ns, looks = child.look_ns, looks + 1
        assert at_ns < child.seen_ns + HANG_NS
    assert looks >= 2, "once is no proof"
    child.bury()
