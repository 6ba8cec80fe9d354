"""Hours and health of workers."""

from __future__ import annotations

import math
from typing import Any

from tests.pipeline.tables.conftest import MS, Makes, Rows, at


def bucket(ns: int) -> int:
    """As `groups.bucket_of`, for values that are not at an edge."""
    return math.floor(math.log(ns + 1) * 16)


def hours(worker: str, tasks: int, ns: int, **more: Any) -> dict[str, Any]:
    histogram = [{"bucket": bucket(ns), "count": tasks}]
    return {"worker": worker, "service": "echo", "family": "main", "broker": "b1", "date": at().date(), "hour": 12,
            "tasks": tasks, "ok": tasks, "service_hist": histogram, **more}  # fmt: skip


def test_an_hour_of_a_worker(rows: Rows, make: Makes) -> None:
    tasks = rows.of(
        "tasks",
        {"service_ns": 2 * MS},
        {"outcome": "ERROR", "service_ns": 3 * MS},
        {"outcome": "UNKNOWN", "service_ns": 50 * MS},
        {"outcome": "RETRY", "service_ns": 4 * MS},
        {"outcome": "LATE", "service_ns": 90 * MS},
        {"worker": None, "outcome": "REJECTED", "assigned": None, "service_ns": None},
        {"worker": "w2", "outcome": "LATE"},
    )
    first, second = make("worker_hours", tasks=tasks)
    assert (first["worker"], first["tasks"], first["ok"], first["errors"]) == ("w1", 4, 1, 1)
    assert (first["unknown"], first["retries"], first["late"], first["busy_ns"]) == (1, 1, 1, 59 * MS)
    assert [entry["bucket"] for entry in first["service_hist"]] == [bucket(2 * MS), bucket(3 * MS)]
    assert (second["worker"], second["tasks"], second["late"], second["service_hist"]) == ("w2", 0, 1, [])


def test_health_is_beside_the_others(rows: Rows, make: Makes) -> None:
    """Two good ones, one that is three times as slow, one that fails, one that was never given anything else."""
    worker_hours = rows.of(
        "worker_hours",
        hours("good", 100, MS),
        hours("fine", 100, MS, hour=11),
        hours("slow", 100, 3 * MS),
        hours("failing", 100, MS, errors=20),
        hours("late", 0, MS, service_hist=[], late=1),
        hours("old", 100, 50 * MS, date=at(-48 * 3600).date()),
        hours("alone", 100, MS, service="other"),
    )
    workers = rows.of(
        "workers",
        {"worker": "fine", "event": "connect"},
        {"worker": "failing", "event": "lost", "tasks": 3},
        {"worker": "failing", "event": "lost", "tasks": None, "at": at(60)},
        {"worker": "failing", "event": "lost", "tasks": 9, "at": at(-48 * 3600)},
        {"worker": "slow", "event": "error_listed"},
    )
    found = {row["worker"]: row for row in make("worker_health", worker_hours=worker_hours, workers=workers)}
    assert found.keys() == {"good", "fine", "slow", "failing", "late", "alone"}
    assert (found["good"]["score"], found["good"]["why"], found["good"]["share"]) == (100, "", 0.25)
    assert (found["fine"]["connects"], found["fine"]["first_seen"], found["fine"]["last_seen"]) == (
        1,
        at(-3600),
        at(-3600),
    )
    slow = found["slow"]
    assert 2.8 < slow["slowness"] < 3.2
    assert slow["score"] == 100 - round((slow["slowness"] - 1) * 20) - 30
    assert slow["why"].startswith("its median service time is ")
    failing = found["failing"]
    assert (failing["error_share"], failing["others_error_share"], failing["losses"]) == (0.2, 0.0, 2)
    assert (failing["lost_tasks"], failing["score"]) == (3, 100 - 40 - 25)
    assert failing["why"] == "20.0 % of its tasks are errors, of the others' 0.0 %; lost 2 times, with 3 tasks"
    assert (found["late"]["score"], found["late"]["p50_ns"]) == (100, None)
    assert (found["alone"]["slowness"], found["alone"]["others_error_share"], found["alone"]["score"]) == (
        None,
        None,
        100,
    )


def test_attempts_that_were_lost(rows: Rows, make: Makes) -> None:
    tasks = rows.of(
        "tasks",
        {"outcome": "RETRY", "reason": "worker_lost"},
        {"outcome": "UNKNOWN", "reason": "worker_lost"},
        {"outcome": "UNKNOWN", "reason": "broker_lost", "worker": None, "delegated_to": "b2"},
        {"outcome": "UNKNOWN", "reason": "broker_lost", "worker": None},
        {"outcome": "UNKNOWN", "reason": "expired"},
        {"outcome": "OK", "reason": None},
    )
    of_broker, of_worker = make("lost_attempts", tasks=tasks)
    named = [(row["lost_kind"], row["lost"], row["retries"], row["unknown"]) for row in (of_broker, of_worker)]
    assert sorted(named) == [("broker", "b2", 0, 1), ("worker", "w1", 1, 1)]
