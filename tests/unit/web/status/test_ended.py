"""The last tasks, and what kinds of failures there were."""

from __future__ import annotations

import pytest
from tests.unit.web.status.conftest import failed, task_end

from famulus.web.status.board import Board
from famulus.web.status.ended import FAILED_MAX, KINDS_MAX, OK_MAX, EndedTasks, TaskFilter
from famulus.wire import status


def told(*tasks: status.TaskEnd, at_ms: int = 10_000) -> EndedTasks:
    board = Board()
    board.take(status.TaskEnds(tasks), 0, at_ms)
    return board.ended


def ids(ended: EndedTasks, wanted: TaskFilter | None = None, limit: int = 100) -> list[str]:
    return [task.message_id for task in ended.last(wanted or TaskFilter(), limit)]


def test_the_newest_is_first_whatever_became_of_it() -> None:
    ended = told(task_end("a", ended_ago_us=3000), failed("b", ended_ago_us=2000), task_end("c", ended_ago_us=1000))
    assert ids(ended) == ["c", "b", "a"]
    assert ids(ended, limit=2) == ["c", "b"]
    task = ended.find("b")
    assert task is not None
    assert (task.ended_ms, task.total_ms, task.queue_ms) == (9998.0, 5.0, 2.0)
    assert ended.find("nobody") is None


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (TaskFilter(service="resize"), ["b"]),
        (TaskFilter(outcomes=frozenset({"ERROR", "UNKNOWN"})), ["c", "b"]),
        (TaskFilter(reason="expired"), ["c"]),
        (TaskFilter(worker="w2"), ["c"]),
        (TaskFilter(principal="shop"), ["a"]),
        (TaskFilter(service="echo", worker="w1"), ["a"]),
        (TaskFilter(service="echo", reason="bad_order"), []),
    ],
)
def test_each_condition_narrows(wanted: TaskFilter, found: list[str]) -> None:
    ended = told(
        task_end("a", principal="shop", ended_ago_us=3),
        failed("b", service="resize", ended_ago_us=2),
        failed("c", "expired", "UNKNOWN", worker="w2", ended_ago_us=1),
    )
    assert ids(ended, wanted) == found


def test_tasks_that_went_well_do_not_push_out_those_that_failed() -> None:
    ended = told(failed("old"), *(task_end(f"t{number}") for number in range(2 * OK_MAX)))
    assert len(ended) == OK_MAX + 1
    assert ended.find("old") is not None
    ended.take(status.TaskEnds(tuple(failed(f"f{number}") for number in range(FAILED_MAX))), 10_000)
    assert ended.find("old") is None


def test_failures_are_counted_by_service_outcome_and_reason_with_the_last_one_of_each() -> None:
    ended = told(failed("a"), failed("b", "overload", "REJECTED"), failed("c"), task_end("d"), at_ms=1000)
    ended.take(status.TaskEnds((failed("e"),)), 2000)
    kinds = [(kind.service, kind.outcome, kind.reason, kind.times, kind.example.message_id) for kind in ended.kinds()]
    assert kinds == [("echo", "ERROR", "bad_order", 3, "e"), ("echo", "REJECTED", "overload", 1, "b")]
    assert (ended.kinds()[0].first_ms, ended.kinds()[0].example.ended_ms) == (1000.0, 2000.0)


def test_a_worker_that_makes_up_reasons_does_not_fill_the_memory() -> None:
    ended = told(failed("first", "always"))
    for number in range(KINDS_MAX):
        ended.take(status.TaskEnds((failed(f"t{number}", f"reason-{number}"),)), 10_000)
    kinds = ended.kinds()
    assert (len(kinds), kinds[0].reason) == (KINDS_MAX, f"reason-{KINDS_MAX - 1}")
    assert "always" not in {kind.reason for kind in kinds}
