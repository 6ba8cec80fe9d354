"""What must be explained."""

from __future__ import annotations

from typing import Any

from tests.pipeline.tables.conftest import MS, Makes, Rows, at

Row = dict[str, Any]
DIED: Row = {"event": "process_died", "process": "dispatcher", "at": at(1), "detail": "signal 9"}


def short(rows: list[Row]) -> list[tuple[str, str, bool]]:
    return sorted((row["kind"], row["severity"], row["explained"]) for row in rows)


def test_a_quiet_hour_has_no_rows(rows: Rows, make: Makes) -> None:
    tasks = rows.of("tasks", {"message_id": "a"}, {"message_id": "b", "at_most_once": True, "reason": None})
    open_tasks = rows.of("open_tasks", {"message_id": "a"}, {"message_id": "running"})
    brokers = rows.of("brokers", {"event": "load", "service": "echo", "at": at(30)})
    assert make("audit", tasks=tasks, open_tasks=open_tasks, brokers=brokers) == []


def test_tasks_without_an_outcome(rows: Rows, make: Makes) -> None:
    """Two brokers die, one of them with two tasks; two stop in good order, one of them with a gap in its journal."""
    opened = [("died", "a"), ("died", "b"), ("died", "ended"), ("stopped", "c"), ("gap", "d"), ("alone", "ended")]
    events: list[Row] = [
        {**DIED, "broker": "died"},
        {**DIED, "broker": "alone"},
        {"broker": "stopped", "event": "stop", "at": at(1)},
        {"broker": "gap", "event": "stop", "at": at(1)},
        {"broker": "gap", "event": "gap", "table": "tasks", "rows": 12, "detail": "disk full", "at": at(1)},
    ]
    found = make(
        "audit",
        tasks=rows.of("tasks", {"message_id": "ended"}),
        open_tasks=rows.of("open_tasks", *[{"broker": broker, "message_id": name} for broker, name in opened]),
        brokers=rows.of("brokers", *events),
    )
    none = {row["message_id"]: (row["severity"], row["explained"]) for row in found if row["kind"] == "no_outcome"}
    assert none == {"a": ("warning", True), "b": ("warning", True), "c": ("error", False), "d": ("warning", True)}
    windows = {row["broker"]: row for row in found if row["kind"] == "crash_window"}
    assert {broker: (row["rows"], row["severity"]) for broker, row in windows.items()} == {
        "died": (2, "warning"),
        "alone": (0, "info"),
    }
    assert "signal 9" in windows["died"]["explanation"]
    (gap,) = [row for row in found if row["kind"] == "gap"]
    assert (gap["rows"], gap["explanation"]) == (12, "12 rows of tasks are missing: disk full")


def test_a_task_is_overdue_when_its_broker_goes_on_without_it(rows: Rows, make: Makes) -> None:
    """Beyond two minutes, and beyond twice what any task of the service takes."""
    cases = {"soon": (119, 1), "overdue": (121, 1), "slow service": (121, 90)}
    tasks = [
        {"message_id": f"{name} longest", "service": name, "total_ns": longest_s * 1000 * MS}
        for name, (_, longest_s) in cases.items()
    ]
    events: list[Row] = [{"broker": name, "event": "load", "at": at(lived_s)} for name, (lived_s, _) in cases.items()]
    # That it died afterwards is no excuse.
    events.append({**DIED, "broker": "overdue", "at": at(130)})
    found = make(
        "audit",
        tasks=rows.of("tasks", *tasks),
        open_tasks=rows.of("open_tasks", *[{"message_id": name, "broker": name, "service": name} for name in cases]),
        brokers=rows.of("brokers", *events),
    )
    assert short(found) == [("crash_window", "info", True), ("no_outcome", "error", False)]
    assert {row["message_id"] for row in found} == {"overdue", None}


def test_a_second_outcome_a_second_worker_and_an_answer_too_late(rows: Rows, make: Makes) -> None:
    once = {"at_most_once": True}
    tasks = rows.of(
        "tasks",
        {"message_id": "twice", "ended": at(1)},
        {"message_id": "twice", "ended": at(2), "outcome": "ERROR"},
        # Its client asked again.
        {"message_id": "asked", "ended": at(1)},
        {"message_id": "asked", "arrived": at(5), "ended": at(6), "broker": "b2"},
        {**once, "message_id": "bad", "ticket": 1, "outcome": "RETRY", "reason": "worker_lost", "ended": at(1)},
        {**once, "message_id": "bad", "ticket": 2, "worker": "w2", "ended": at(2)},
        # It was handed over, and one worker had it.
        {**once, "message_id": "good", "worker": None, "delegated_to": "b2"},
        {**once, "message_id": "good", "broker": "b2", "delegated_from": "b1"},
        {"message_id": "at least once", "ticket": 1, "outcome": "RETRY", "reason": "worker_lost", "ended": at(1)},
        {"message_id": "at least once", "ticket": 2, "worker": "w2", "ended": at(2)},
        {"message_id": "late", "outcome": "LATE", "total_ns": 61_000 * MS},
    )
    made = make("audit", tasks=tasks, brokers=rows.of("brokers", {"event": "gap"}))
    found = {row["message_id"]: row for row in made}
    assert {name: (row["kind"], row["explained"]) for name, row in found.items()} == {
        "twice": ("two_outcomes", False),
        "asked": ("two_outcomes", True),
        "bad": ("at_most_once", False),
        "late": ("late_answer", True),
        None: ("gap", True),
    }
    assert found["twice"]["explanation"] == "ERROR at b1 after OK at b1: one task was ended twice"
    assert found["bad"]["explanation"] == "worker w2 had it after worker w1: it may have run twice"
    assert found["late"]["explanation"].startswith("an answer of worker w1 after 61000 ms")
    assert found[None]["explanation"] == "0 rows of an unknown table are missing: nobody said why"
