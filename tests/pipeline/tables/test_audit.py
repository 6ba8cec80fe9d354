"""What must be explained.

Spark plans an audit for seconds, however few rows there are. So all tests of this file share one: each has a day of its
own, which no rule looks beyond.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.pipeline.tables.conftest import MS, Makes, Rows, at

Row = dict[str, Any]
Audit = Callable[..., list[Row]]


class Asked(Exception):
    """What a test would have audited."""

    def __init__(self, inputs: dict[str, list[Row]]) -> None:
        self.inputs = inputs


class Recorded(Rows):
    def of(self, table: str, *rows: Row) -> list[Row]:  # type: ignore[override]
        return Rows.whole(table, *rows)


def recorded(table: str, **inputs: list[Row]) -> list[Row]:
    assert table == "audit"
    raise Asked(inputs)


def moved(row: Row, days: int) -> Row:
    return {name: value + timedelta(days) if hasattr(value, "year") else value for name, value in row.items()}


@pytest.fixture(scope="module")
def audited(rows: Rows) -> dict[str, list[Row]]:
    """What the audit says to each test, by its name."""
    names = [name for name in vars(sys.modules[__name__]) if name.startswith("test_")]
    inputs: dict[str, list[Row]] = {}
    for day, name in enumerate(names):
        with pytest.raises(Asked) as asked:
            vars(sys.modules[__name__])[name](Recorded(rows.spark), recorded)
        for table, its in asked.value.inputs.items():
            inputs.setdefault(table, []).extend(moved(row, day) for row in its)
    made = Makes(rows)("audit", **{table: rows.of(table, *its) for table, its in inputs.items()})
    first = at().date()
    days = {name: [moved(row, -day) for row in made if (row["date"] - first).days == day]
            for day, name in enumerate(names)}  # fmt: skip
    assert sum(map(len, days.values())) == len(made)
    return days


@pytest.fixture(name="make")
def shared(request: pytest.FixtureRequest, audited: dict[str, list[Row]]) -> Audit:
    return lambda *_, **__: audited[request.node.name]


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
        {**once, "message_id": "bad", "outcome": "RETRY", "reason": "worker_lost", "ended": at(1)},
        {**once, "message_id": "bad", "worker": "w2", "ended": at(2)},
        # It was handed over, and one worker had it.
        {**once, "message_id": "good", "worker": None, "delegated_to": "b2"},
        {**once, "message_id": "good", "broker": "b2", "delegated_from": "b1"},
        {"message_id": "at least once", "outcome": "RETRY", "reason": "worker_lost", "ended": at(1)},
        {"message_id": "at least once", "worker": "w2", "ended": at(2)},
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


# -- rows that cannot be as they are, and rows that are not there ----------------------------------------------------


def kinds_of(made: list[Row]) -> list[tuple[str | None, str, bool]]:
    return sorted((row["message_id"] or "", row["kind"], row["explained"]) for row in made)


def test_rows_that_make_no_sense(rows: Rows, make: Makes) -> None:
    tasks = rows.of(
        "tasks",
        {"message_id": "fine", "arrived": at(1), "assigned": at(1), "ended": at(1)},
        {"message_id": "never assigned", "arrived": at(1), "assigned": None, "ended": at(2), "worker": None,
         "service_ns": None, "outcome": "REJECTED"},
        {"message_id": "strange", "outcome": "MAYBE"},
        {"message_id": "back", "arrived": at(2), "assigned": at(1), "ended": at(1)},
        {"message_id": "back unassigned", "arrived": at(2), "assigned": None, "ended": at(1)},
        {"message_id": "less than nothing", "service_ns": -1},
    )  # fmt: skip
    made = make("audit", tasks=tasks)
    assert kinds_of(made) == [
        ("back", "ended_before_arrived", False),
        ("back unassigned", "ended_before_arrived", False),
        ("less than nothing", "negative_duration", False),
        ("strange", "no_such_outcome", False),
    ]
    assert {row["severity"] for row in made} == {"error"}
    assert "there is no outcome MAYBE" in [row["explanation"] for row in made]


def test_the_same_row_twice_and_a_ticket_used_twice(rows: Rows, make: Makes) -> None:
    tasks = rows.of(
        "tasks",
        *[{"message_id": "copied", "ticket": 1}] * 3,
        {"message_id": "first", "ticket": 2, "ended": at(1)},
        {"message_id": "second", "ticket": 2, "ended": at(2)},
        # Another life, and an answer that brings its ticket back.
        {"message_id": "elsewhere", "ticket": 2, "boot": "boot2"},
        {"message_id": "first", "ticket": 2, "ended": at(3), "outcome": "LATE"},
    )
    made = make("audit", tasks=tasks)
    assert kinds_of(made) == [
        ("copied", "duplicate_row", False),
        ("first", "late_answer", True),
        ("second", "ticket_twice", False),
    ]
    assert [row["rows"] for row in made if row["kind"] == "duplicate_row"] == [3]


def test_a_retry_after_which_nothing_came(rows: Rows, make: Makes) -> None:
    retry: Row = {"outcome": "RETRY", "reason": "worker_lost"}
    tasks = rows.of(
        "tasks",
        {**retry, "message_id": "forgotten"},
        {**retry, "message_id": "died", "broker": "b2"},
        {**retry, "message_id": "tried again", "ticket": 1},
        {"message_id": "tried again", "ticket": 2, "worker": "w2", "ended": at(1)},
        {**retry, "message_id": "may yet come", "broker": "b3"},
    )
    brokers = rows.of(
        "brokers",
        {"event": "load", "at": at(200)},
        {**DIED, "broker": "b2"},
        {"event": "load", "broker": "b3", "at": at(100)},
    )
    made = make("audit", tasks=tasks, brokers=brokers)
    assert kinds_of([row for row in made if row["kind"] != "crash_window"]) == [
        ("died", "retry_without_end", True),
        ("forgotten", "retry_without_end", False),
    ]


def test_rejected_though_a_worker_had_it(rows: Rows, make: Makes) -> None:
    refused: Row = {"outcome": "REJECTED", "reason": "no_worker", "worker": None, "assigned": None, "ended": at(2)}
    tasks = rows.of(
        "tasks",
        {**refused, "message_id": "ran elsewhere"},
        {"message_id": "ran elsewhere", "broker": "b2", "delegated_from": "b1"},
        {"message_id": "ran elsewhere", "outcome": "RETRY", "worker": None, "delegated_to": "b2", "ended": at(1)},
        # Its client asked again afterwards.
        {**refused, "message_id": "asked again"},
        {"message_id": "asked again", "arrived": at(5), "assigned": at(5), "ended": at(6)},
        # The other one refused it as well.
        {**refused, "message_id": "refused by all"},
        {**refused, "message_id": "refused by all", "broker": "b2", "delegated_from": "b1", "ended": at(1)},
    )
    made = make("audit", tasks=tasks)
    assert kinds_of(made) == [
        ("asked again", "two_outcomes", True),
        ("ran elsewhere", "rejected_but_ran", False),
    ]
    assert "REJECTED at b1, but worker w1 had it at b2" in [row["explanation"] for row in made]


def test_one_half_of_a_handed_over_task_without_the_other(rows: Rows, make: Makes) -> None:
    given: Row = {"worker": None, "delegated_to": "b2"}
    taken: Row = {"broker": "b2", "delegated_from": "b1"}
    tasks = rows.of(
        "tasks",
        {**given, "message_id": "both"},
        {**taken, "message_id": "both"},
        {**given, "message_id": "given only"},
        {**taken, "message_id": "taken only"},
        # Who lost the other broker does not know whether it had it; who was refused has no row.
        {**given, "message_id": "lost", "outcome": "UNKNOWN", "reason": "broker_lost"},
        {**taken, "message_id": "refused", "outcome": "REJECTED", "worker": None, "assigned": None},
        # Nobody has the journal of this one, and the next one ended.
        {**given, "message_id": "of a stranger", "delegated_to": "b9"},
        {**given, "message_id": "died", "delegated_to": "b3"},
        # Its row may yet come.
        {**given, "message_id": "of the last moment", "ended": at(180)},
    )
    brokers = rows.of(
        "brokers",
        *[{"event": "load", "broker": broker, "at": at(200)} for broker in ("b1", "b2", "b3")],
        {**DIED, "broker": "b3", "at": at(1)},
    )
    made = make("audit", tasks=tasks, brokers=brokers)
    assert kinds_of([row for row in made if row["kind"] != "crash_window"]) == [
        ("died", "half_missing", True),
        ("given only", "half_missing", False),
        ("taken only", "half_missing", False),
    ]


def numbered(*numbers: int, **more: Any) -> list[Row]:
    return [{"message_id": f"{more.get('boot', '')} {n}", "row": n, "ended": at(n), **more} for n in numbers]


def test_rows_that_were_told_and_are_not_there(rows: Rows, make: Makes) -> None:
    """Also of tasks that nobody ever saw open; and a gap explains as many as it counts, of its own boot."""
    begins: Row = {"event": "start", "at": at()}
    tasks = rows.of(
        "tasks",
        *numbered(1, 2, 3, boot="whole"),
        *numbered(1, 2, 7, 8, boot="holed"),
        *numbered(3, 4, boot="headless"),
        *numbered(1, 2, boot="tailless"),
        *numbered(9, 10, boot="older than the journal"),
        *numbered(1, 2, 7, 8, boot="owned up to"),
        *numbered(1, 2, 7, 8, boot="owned up to less"),
        {"message_id": "of version 1", "row": None},
    )
    boots = ("whole", "holed", "headless", "tailless", "owned up to", "owned up to less")
    brokers = rows.of(
        "brokers",
        *[{**begins, "boot": boot} for boot in boots],
        {"event": "told", "boot": "whole", "table": "tasks", "rows": 3, "at": at(60)},
        {"event": "told", "boot": "tailless", "table": "tasks", "rows": 6, "at": at(60)},
        {"event": "gap", "boot": "owned up to", "table": "tasks", "rows": 4, "at": at(9)},
        {"event": "gap", "boot": "owned up to less", "table": "tasks", "rows": 3, "at": at(9)},
        {"event": "gap", "boot": "another", "table": "tasks", "rows": 1000, "at": at(9)},
    )
    made = [row for row in make("audit", tasks=tasks, brokers=brokers) if row["kind"] == "missing_rows"]
    assert {row["boot"]: row["rows"] for row in made} == {
        "holed": 4,
        "headless": 2,
        "tailless": 4,
        "owned up to less": 1,
    }
    assert {(row["explained"], row["severity"]) for row in made} == {(False, "error")}


def test_rows_are_missed_over_the_edge_of_an_hour(rows: Rows, make: Makes) -> None:
    hour = 3600
    tasks = rows.of(
        "tasks",
        *[{"message_id": f"a{n}", "row": n, "ended": at(hour - 10 + n)} for n in (1, 2, 3)],
        *[{"message_id": f"b{n}", "row": n, "ended": at(hour + n)} for n in (6, 7)],
        # A clock that was set back: rows of the next hour come before the last one of this.
        *[{"message_id": f"c{n}", "row": n, "ended": at(hour + n), "boot": "set back"} for n in (2, 3, 5)],
        *[{"message_id": f"d{n}", "row": n, "ended": at(hour - n), "boot": "set back"} for n in (1, 4)],
    )
    made = make("audit", tasks=tasks)
    assert [(row["boot"], row["rows"], row["hour"]) for row in made] == [("boot1", 2, 13)]


def test_a_whole_hour_that_was_taken_away_is_missed(rows: Rows, make: Makes) -> None:
    """By what was told at its end; an hour without tasks says nothing, and lacks nothing."""
    hour = 3600
    tasks = rows.of(
        "tasks",
        *[{"message_id": f"a{n}", "row": n, "ended": at(n)} for n in (1, 2, 3)],
        *[{"message_id": f"b{n}", "row": n, "ended": at(2 * hour + n)} for n in (9, 10)],
        *[{"message_id": f"c{n}", "row": n, "ended": at(n), "boot": "idle"} for n in (1, 2, 3)],
        *[{"message_id": f"d{n}", "row": n, "ended": at(2 * hour + n), "boot": "idle"} for n in (4, 5)],
    )
    ends = {"boot1": {hour: 3, 2 * hour: 8}, "idle": {hour: 3, 3 * hour: 5}}
    told = [
        {"event": "told", "boot": boot, "table": "tasks", "rows": count, "at": at(end - 0.001)}
        for boot, counts in ends.items()
        for end, count in counts.items()
    ]
    made = make("audit", tasks=tasks, brokers=rows.of("brokers", *told))
    assert [(row["kind"], row["boot"], row["rows"], row["hour"]) for row in made] == [("missing_rows", "boot1", 5, 13)]


def test_a_row_that_is_there_twice_hides_none_that_is_missing(rows: Rows, make: Makes) -> None:
    late: Row = {"message_id": "late", "ticket": 9, "outcome": "LATE", "ended": at(3)}
    twice = [{**row, "ticket": row["row"]} for row in numbered(1, 2, 4)]
    made = make("audit", tasks=rows.of("tasks", *twice, *twice, late, late))
    found = sorted((row["kind"], row["rows"]) for row in made)
    assert found == [*[("duplicate_row", 2)] * 4, ("late_answer", 1), ("missing_rows", 1)]


def test_a_gap_explains_no_more_tasks_than_it_counts_of_its_own_boot_and_time(rows: Rows, make: Makes) -> None:
    opened = [{"message_id": f"t{n}", "at": at(n)} for n in range(5)]
    opened.append({"message_id": "of another boot", "boot": "boot0", "at": at(1)})
    opened.append({"message_id": "after it", "at": at(50)})
    brokers = rows.of(
        "brokers",
        {"event": "gap", "table": "tasks", "rows": 2, "at": at(10)},
        {"event": "gap", "table": "peers", "rows": 1000, "at": at(10)},
        {"event": "load", "at": at(300)},
        {"event": "load", "at": at(300), "boot": "boot0"},
    )
    made = make("audit", open_tasks=rows.of("open_tasks", *opened), brokers=brokers)
    none = {row["message_id"]: row["explained"] for row in made if row["kind"] == "no_outcome"}
    assert {name for name, explained in none.items() if explained} == {"t0", "t1"}
    assert len(none) == 7


def test_a_crash_says_how_many_tasks_it_may_have_taken_along(rows: Rows, make: Makes) -> None:
    """Twenty tasks a second, and half a second from the last row to the death: of those that came then, none has a row.

    And of those that came in the 0.1 s from the checkpoint to the last row, which take longer than that, none has one.
    """
    slow = [{"message_id": f"t{n}", "ended": at(n / 20), "total_ns": 300 * MS} for n in range(401)]
    tasks = rows.of("tasks", *slow, *[{**row, "broker": "quick", "total_ns": 50 * MS} for row in slow])
    brokers = rows.of(
        "brokers",
        {**DIED, "at": at(20.5)},
        {"event": "load", "at": at(19.9)},
        {**DIED, "broker": "quick", "at": at(20.5)},
        {"event": "load", "broker": "quick", "at": at(19.9)},
        {**DIED, "broker": "idle", "at": at(20.5)},
        {"event": "load", "broker": "idle", "at": at(20)},
    )
    made = make("audit", tasks=tasks, open_tasks=rows.of("open_tasks", {"message_id": "open"}), brokers=brokers)
    windows = {row["broker"]: row for row in made if row["kind"] == "crash_window"}
    assert (windows["b1"]["rows"], windows["b1"]["untold"], windows["b1"]["severity"]) == (1, 12, "warning")
    assert windows["b1"]["explanation"] == (
        "the dispatcher died (signal 9); 1 task that was open at its last checkpoint has no outcome, and up to "
        "about 12 that came after it have no row: 20.0 a second, for 0.600 s"
    )
    assert windows["quick"]["untold"] == 11
    assert (windows["idle"]["rows"], windows["idle"]["untold"], windows["idle"]["severity"]) == (0, 0, "info")
    (none,) = [row for row in made if row["kind"] == "no_outcome"]
    assert none["explanation"].endswith("or its row was lost, and its outcome is not known")


def test_a_broker_that_was_gone_without_a_word_has_a_crash_too(rows: Rows, make: Makes) -> None:
    """It began anew, or others lost it and it wrote no more; one that stopped, and one that lives on, have none."""
    tasks = rows.of(
        "tasks",
        *[
            {"message_id": f"{b} {n}", "broker": b, "ended": at(n)}
            for b in ("killed", "away", "lost", "stopped", "cut off")
            for n in range(10)
        ],
    )
    brokers = rows.of(
        "brokers",
        {"broker": "killed", "event": "start", "boot": "boot2", "at": at(30)},
        # What it had not written was not more than a minute's, however long it was away.
        {"broker": "away", "event": "start", "boot": "boot2", "at": at(3000)},
        {"broker": "stopped", "event": "stop", "at": at(10)},
        {"broker": "stopped", "event": "start", "boot": "boot2", "at": at(30)},
        {"broker": "cut off", "event": "load", "at": at(60)},
    )
    lost = [{"event": "lost", "broker": "other", "peer": name, "at": at(13)} for name in ("lost", "cut off")]
    made = make("audit", tasks=tasks, brokers=brokers, peers=rows.of("peers", *lost))
    assert {(row["kind"], row["broker"], row["untold"]) for row in made} == {
        # Ten tasks in nine seconds; from the last one 21, 60 and 4 seconds.
        ("crash_window", "killed", 24),
        ("crash_window", "away", 67),
        ("crash_window", "lost", 5),
    }
