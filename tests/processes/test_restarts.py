"""The only broker, or the workers, are restarted while a client asks: nothing fails that did not have to."""

from __future__ import annotations

import pytest

from famulus.lab.bench.restarts import DEEDS, SLOTS, WINDOW, WORKERS, told

#: Enough for what is restarted to be missed: many times what is open at once.
BODIES = 20_000


@pytest.mark.parametrize("what", ["broker stopped", "broker killed", "workers killed"])
def test_of_tasks_that_should_run_at_least_once_none_fails(what: str) -> None:
    assert told(BODIES, DEEDS[what], at_least_once=True, times=1) == {"OK": BODIES}


@pytest.mark.parametrize("what", ["broker stopped", "workers stopped"])
def test_if_all_have_time_to_end_none_fails_either_that_runs_at_most_once(what: str) -> None:
    assert told(BODIES, DEEDS[what], at_least_once=False, times=1) == {"OK": BODIES}


@pytest.mark.parametrize(
    ("what", "reason", "at_most"),
    [("broker killed", "broker_lost", WINDOW), ("workers killed", "worker_lost", WORKERS * SLOTS)],
)
def test_if_they_are_killed_those_are_unknown_that_were_there_and_no_other(
    what: str, reason: str, at_most: int
) -> None:
    outcomes = told(BODIES, DEEDS[what], at_least_once=False, times=1)
    assert set(outcomes) <= {"OK", f"UNKNOWN {reason}"}
    assert outcomes.total() == BODIES
    assert outcomes[f"UNKNOWN {reason}"] <= at_most
