"""Ledgers with one broken promise each: the verdict names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from famulus.lab.chaos.ledgers import weigh
from famulus.lab.chaos.plan import Fault

CLEAN_CLIENT = [
    "sent c1.1-0-1 once 1.0",
    "ended c1.1-0-1 OK - 1.1",
    "sent c1.1-0-2 again 2.0",
    "ended c1.1-0-2 OK - 2.5",
]
CLEAN_WORKER = ["c1.1-0-1 1 chaos.once", "c1.1-0-2 1 chaos.again", "c1.1-0-2 2 chaos.again"]


def weighed(
    tmp_path: Path,
    client: list[str],
    worker: list[str],
    *,
    killed: bool = False,
    struck: tuple[tuple[float, Fault], ...] = (),
) -> tuple[list[str], dict[str, Any]]:
    clients, workers = tmp_path / "client", tmp_path / "worker"
    clients.write_text("\n".join(client) + "\n")
    workers.write_text("\n".join(worker) + "\n")
    return weigh({clients: killed}, [workers], struck)


def test_where_every_promise_was_kept_there_are_only_figures(tmp_path: Path) -> None:
    violations, figures = weighed(tmp_path, CLEAN_CLIENT, CLEAN_WORKER)
    assert violations == []
    assert (figures["tasks"], figures["outcomes"]["OK"], figures["ran_again"]) == (2, 2, 1)
    assert sum(figures["outcomes"].values()) == 2


@pytest.mark.parametrize(
    ("client", "worker", "said"),
    [
        (CLEAN_CLIENT[:-1], CLEAN_WORKER, "1 tasks lost: c1.1-0-2"),
        (CLEAN_CLIENT, CLEAN_WORKER[1:], "1 tasks lost: c1.1-0-1"),
        (CLEAN_CLIENT, [*CLEAN_WORKER, CLEAN_WORKER[0]], "1 tasks duplicated: c1.1-0-1"),
        ([*CLEAN_CLIENT, "ended c1.1-0-1 OK - 3.0"], CLEAN_WORKER, "1 tasks unexpected: c1.1-0-1"),
        ([CLEAN_CLIENT[0], "ended c1.1-0-1 REJECTED overload 1.1"], CLEAN_WORKER[:1], "1 tasks unexpected: c1.1-0-1"),
        (CLEAN_CLIENT, [*CLEAN_WORKER, "c9.1-0-1 1 chaos.once"], "1 tasks unexpected: c9.1-0-1"),
        (
            [CLEAN_CLIENT[0], "ended c1.1-0-1 WRONG - 1.1"],
            CLEAN_WORKER[:1],
            "1 answers belong to another task: c1.1-0-1",
        ),
        (
            [CLEAN_CLIENT[0], "ended c1.1-0-1 OK - 9.5"],
            CLEAN_WORKER[:1],
            "1 outcomes came more than 3.0 s after their deadline: c1.1-0-1",
        ),
    ],
)
def test_a_broken_promise_is_named(tmp_path: Path, client: list[str], worker: list[str], said: str) -> None:
    assert weighed(tmp_path, client, worker)[0] == [said]


def test_what_a_client_had_open_when_it_was_killed_needs_no_outcome_and_may_have_run(tmp_path: Path) -> None:
    violations, figures = weighed(tmp_path, CLEAN_CLIENT[:-1], CLEAN_WORKER, killed=True)
    assert violations == []
    assert figures["open_when_their_client_was_killed"] == 1


def test_a_client_that_was_stopped_may_hear_late(tmp_path: Path) -> None:
    late = [CLEAN_CLIENT[0], "ended c1.1-0-1 OK - 9.5"]
    stop = (2.0, Fault(1.0, "stop_client", ("c1",), 6.0))
    assert weighed(tmp_path, late, CLEAN_WORKER[:1], struck=(stop,))[0] == []
    other = (2.0, Fault(1.0, "stop_client", ("c2",), 6.0))
    assert weighed(tmp_path, late, CLEAN_WORKER[:1], struck=(other,))[0]


def test_recovery_is_the_time_to_the_first_answer_to_a_task_that_was_sent_after_the_fault(tmp_path: Path) -> None:
    kill = (1.05, Fault(0.0, "kill_broker", ("b1",)))
    _, figures = weighed(tmp_path, CLEAN_CLIENT, CLEAN_WORKER, struck=(kill,))
    assert figures["recovery"] == {"kill_broker": {"times": 1, "median_s": 1.45, "worst_s": 1.45}}
