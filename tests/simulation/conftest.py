"""What the tests of the simulations share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from typer.testing import CliRunner

from famulus.cli import main
from famulus.lab.sim.invariants import Invariant

#: Few seeds show these, so one of them is tried first. Once worlds have changed, another one will: then all are tried.
SHOWN_BY = {
    "anybody-speaks-for-others": 10,
    "brokers-are-trusted": 30,
    "cancelled-again": 29,
    "cancelled-in-batch": 20,
    "credit-not-checked": 27,
    "first-end-counts": 202,
    "flows-forget-ids": 40,
    "flows-outlive-rights": 213,
    "ids-of-everybody": 19,
    "leaves-too-soon": 21,
    "lost-peer-again": 24,
    "newer-believed": 74,
    "no-hop-limit": 80,
    "replaced-keys-stay": 7,
    "router-takes-questions-along": 78,
    "started-task-rejected": 38,
    "streams-again": 73,
    "streams-for-nobody": 28,
}


def broken_runs(mutant: str, *args: str) -> list[dict[str, Any]]:
    """The failures of a core that is broken on purpose, in a process of its own: this one's may be compiled.

    In one only: other tests run meanwhile, and what a second one finds after the first catch is not looked at.
    """
    command = ["simulate", "--mutant", mutant, "--json", "--jobs", "1", *args]
    done = None
    if mutant in SHOWN_BY and "--seeds" in args:
        done = CliRunner().invoke(main.new_app(), [*command, "--seed", str(SHOWN_BY[mutant])])
    if done is None or done.exit_code != 0:
        done = CliRunner().invoke(main.new_app(), command)
    assert done.exit_code == 0, f"nobody noticed {mutant}: {done.output}{done.exception}"
    report = json.loads(done.stdout)
    failures: list[dict[str, Any]] = report["failures"]
    assert {failure["invariant"] for failure in failures} <= set(report["caught_by"])
    own = [what for what in report["failed_otherwise"] if not any(f": {each}: " in what for each in Invariant)]
    assert not own, f"{mutant} fails by its own mistakes: {own[0]}"
    return failures


def printed(script: str, hash_seed: str, *seeds: int) -> list[str]:
    """What a script prints in another process, where sets are ordered by other hashes, if one lets them."""
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, seeds)],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
