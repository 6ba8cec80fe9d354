"""Capacity, anomalies and findings: what follows from the other tables."""

from __future__ import annotations

import json
import math
from typing import Any

from tests.pipeline.tables.conftest import Makes, Rows, at

from famulus.core.config import schema as config

DAY = 86_400
HOUR_NS = 3_600_000_000_000
Row = dict[str, Any]


def test_capacity_is_by_the_hour_of_the_day_and_for_the_busiest_day(rows: Rows, make: Makes) -> None:
    hour = {"service": "echo", "family": "main", "hour": 12}
    service_hours = rows.of(
        "service_hours",
        # 3 slots busy all the hour, and a third as many tasks again were turned away.
        {**hour, "date": at().date(), "runs": 3600, "overloaded": 1200, "busy_ns": 3 * HOUR_NS},
        {**hour, "date": at(-DAY).date(), "runs": 3600, "busy_ns": 2 * HOUR_NS},
        {**hour, "date": at().date(), "hour": 13, "runs": 10, "busy_ns": 0},
        {**hour, "date": at().date(), "service": "idle"},
    )
    load = {**hour, "samples": 3600, "broker": "b1"}
    service_loads = rows.of(
        "service_loads",
        {**load, "date": at().date(), "slots_sum": 3 * 3600},
        {**load, "date": at().date(), "broker": "b2", "slots_sum": 2 * 3600},
        {**load, "date": at(-DAY).date(), "slots_sum": 5 * 3600},
    )
    busy, quiet = make("capacity", service_hours=service_hours, service_loads=service_loads)
    assert (busy["hour_of_day"], busy["days"], busy["runs"]) == (12, 2, 7200)
    assert math.isclose(busy["rate"], 8400 / 2 / 3600)
    assert math.isclose(busy["service_s"], 2.5)
    assert math.isclose(busy["erlangs"], 3.0)
    assert math.isclose(busy["erlangs_peak"], 4.0)
    assert (busy["slots"], busy["busy_share"]) == (5.0, 0.6)
    # C(5, 4), by the book.
    assert math.isclose(busy["wait_share"], 0.554113, rel_tol=1e-4)
    assert busy["slots_needed"] == 9
    assert busy["slots_missing"] == 4
    assert (quiet["hour_of_day"], quiet["slots"], quiet["slots_needed"], quiet["slots_missing"]) == (13, None, 0, None)


def test_a_minute_is_unusual_beside_its_own_hour(rows: Rows, make: Makes) -> None:
    """100 tasks a minute, give or take one; then a burst, a silence, errors, and a slow minute."""
    special: dict[int, Row] = {
        10: {"tasks": 400},
        30: {"errors": 30},
        40: {"total_p99_ns": 40_000_000},
        45: {"total_p99_ns": 10_000},
    }
    echo = [
        {"service": "echo", "broker": "b1", "date": at().date(), "minute": at(60 * n), "tasks": 100 + n % 3,
         "total_p99_ns": 4_000_000 + n * 1000, **special.get(n, {})}
        for n in range(60)
        if n != 20
    ]  # fmt: skip
    # A rare one: two tasks in one minute are no news.
    rare = [{"service": "rare", "broker": "b1", "date": at().date(), "minute": at(60 * n), "tasks": 1 + n % 7, "ok": 1}
            for n in range(0, 60, 7)]  # fmt: skip
    found = make("anomalies", service_minutes=rows.of("service_minutes", *echo, *rare))
    named = {(row["measure"], row["direction"]): row for row in found}
    assert {name: row["minute"] for name, row in named.items()} == {
        ("rate", "high"): at(600),
        ("rate", "low"): at(1200),
        ("error_share", "high"): at(1800),
        ("p99_ns", "high"): at(2400),
    }
    assert len(found) == 4
    silence = named["rate", "low"]
    assert (silence["value"], silence["baseline"], silence["spread"], silence["tasks"]) == (0.0, 101.0, 10.049876, 0)
    assert silence["score"] == -10.05


def failing(service: str, tasks: int, errors: dict[int, int], minutes: int = 120) -> list[Row]:
    """Two hours with so many tasks a minute, and so many errors in some of them."""
    return [
        {"service": service, "broker": "b1", "date": at().date(), "minute": at(60 * n), "tasks": tasks,
         "errors": errors.get(n, 0)}
        for n in range(minutes)
    ]  # fmt: skip


def test_a_burst_of_errors_is_more_than_chance_also_in_a_small_service(rows: Rows, make: Makes) -> None:
    """Two errors of 21 tasks are not; nor is one now and then; what a small service does is seen in several minutes."""
    few = dict.fromkeys(range(5, 120, 17), 1)
    service_minutes = rows.of(
        "service_minutes",
        *failing("chance", 21, few | {60: 2}),
        *failing("never", 20, {60: 1}),
        *failing("small", 16, few | dict.fromkeys(range(60, 64), 10)),
        *failing("tiny", 2, few | dict.fromkeys(range(60, 66), 2)),
        *failing("always", 16, dict.fromkeys(range(120), 8)),
    )
    found = [row for row in make("anomalies", service_minutes=service_minutes) if row["measure"] == "error_share"]
    minutes = {name: sorted(row["minute"] for row in found if row["service"] == name) for name in ("small", "tiny")}
    assert {row["service"] for row in found} == {"small", "tiny"}
    assert minutes == {"small": [at(60 * n) for n in range(60, 64)], "tiny": [at(60 * n) for n in range(60, 70)]}
    small = next(row for row in found if row["service"] == "small")
    assert (small["value"], small["direction"], small["tasks"]) == (10 / 16, "high", 16)
    assert 0.01 <= small["baseline"] < 0.05


def test_findings_and_the_edits_that_they_propose(rows: Rows, make: Makes) -> None:
    hour = {"service": "echo", "family": "main", "date": at().date(), "hour": 12, "at": at(), "tasks": 1000}
    found = make(
        "findings",
        service_hours=rows.of(
            "service_hours",
            {**hour, "overloaded": 10, "expired": 5},
            {**hour, "service": "slow", "expired": 20, "late": 15, "total_p999_ns": 7_400_000_000},
            {**hour, "service": "short", "overloaded": 500},
            # It hands over tasks, so it may have fallback families already.
            {**hour, "service": "short", "family": "north", "overloaded": 300, "delegated_out": 7},
            {**hour, "service": "gone", "no_worker": 900},
            {**hour, "service": "fine", "overloaded": 9, "expired": 100, "late": 3},
            {**hour, "service": "past", "date": at(-3 * DAY).date(), "at": at(-3 * DAY), "overloaded": 1000},
        ),
        service_loads=rows.of(
            "service_loads",
            *[{**_of(hour), "service": name, "samples": 1, "backlog_max": 600} for name in ("echo", "short")],
            {**_of(hour), "service": "short", "family": "north", "samples": 9, "slots_sum": 90, "busy_sum": 40,
             "saturated_s": 1},
            {**_of(hour), "service": "short", "family": "spare", "samples": 9, "slots_sum": 90, "busy_sum": 45},
            {**_of(hour), "service": "short", "family": "small", "samples": 9, "slots_sum": 20, "busy_sum": 0},
            {**_of(hour), "service": "short", "family": "busy", "samples": 9, "slots_sum": 900, "busy_sum": 451},
            {**_of(hour), "service": "other", "family": "idle", "samples": 9, "slots_sum": 900},
        ),
        worker_health=rows.of(
            "worker_health",
            {"worker": "w1", "service": "echo", "family": "main", "score": 20, "why": "all of it", "tasks": 7},
            {"worker": "w2", "service": "echo", "family": "main", "score": 60},
            # Most of those who do this are sick, and w3 is sick nowhere else.
            *[{"worker": name, "service": "pair", "family": "main", "score": 10} for name in ("w3", "w4")],
            {"worker": "w5", "service": "pair", "family": "main", "score": 90},
            *[{"worker": name, "service": "echo", "family": "main", "score": 90} for name in ("w3", "w5")],
        ),
        broker_minutes=rows.of(
            "broker_minutes",
            *[{"broker": "b1", "minute": at(60 * n), "dispatcher_deaths": 1} for n in range(3)],
            *[{"broker": "b8", "minute": at(60 * n)} for n in range(10)],
            # It was not there meanwhile.
            *[{"broker": "b9", "minute": at(60 * n)} for n in (0, 6)],
        ),
        failovers=rows.of(
            "failovers",
            {"kind": "worker_lost", "lost": "w9", "services": ["echo"], "seen": at(5)},
            {"kind": "worker_lost", "lost": "w8", "services": ["echo"], "seen": at(5), "recovery_s": 299.0},
            # The data end before anybody could say that it took long.
            {"kind": "worker_lost", "lost": "w7", "services": ["echo"], "seen": at(400)},
            {"kind": "dispatcher_died", "lost": "b1", "tasks_hit": 3, "seen": at(5), "recovery_s": 0.0},
            {"kind": "dispatcher_died", "lost": "b2", "tasks_hit": 0, "seen": at(5), "recovery_s": 0.0},
        ),
        config_convergence=rows.of(
            "config_convergence",
            {"edit": "e1", "key": "service/echo", "conflict_seen": at(7), "missing": ["b7"]},
            {"edit": "e2", "key": "service/other", "conflict_seen": at(7), "conflict_resolved": at(8)},
            {"edit": "e3", "key": "service/late", "accepted": at(1), "arrivals": [
                {"broker": "b1", "at": at(2), "delay_ms": 1000},
                {"broker": "b8", "at": at(361), "delay_ms": 360_000},
                {"broker": "b9", "at": at(361), "delay_ms": 360_000},
            ]},
        ),
        audit=rows.of(
            "audit",
            {"kind": "gap", "broker": "b2", "rows": 12, "explained": True, "at": at(1)},
            {"kind": "no_outcome", "broker": "b2", "message_id": "m", "explanation": "why", "at": at(2)},
            {"kind": "late_answer", "explained": True, "at": at(3)},
            {"kind": "crash_window", "broker": "b3", "rows": 7, "untold": 31, "explained": True, "at": at(4)},
            {"kind": "crash_window", "broker": "idle", "rows": 0, "untold": 0, "explained": True, "at": at(4)},
        ),
        capacity=rows.of(
            "capacity",
            {"service": "short", "family": "main", "hour_of_day": 9, "slots": 3.0, "erlangs_peak": 4.0,
             "wait_share": 1.0, "slots_needed": 9, "slots_missing": 6},
            {"service": "short", "family": "main", "hour_of_day": 8, "slots": 3.0, "erlangs_peak": 2.0,
             "wait_share": 0.9, "slots_needed": 5, "slots_missing": 2},
            {"service": "short", "family": "north", "hour_of_day": 9, "slots": 10.0, "erlangs_peak": 9.0,
             "wait_share": 0.7, "slots_needed": 12, "slots_missing": 2},
            {"service": "echo", "family": "main", "slots": 3.0, "wait_share": 0.1, "slots_missing": 2},
        ),
        anomalies=rows.of(
            "anomalies",
            {"minute": at(60), "service": "echo", "measure": "rate", "direction": "low", "value": 1.0, "baseline": 90.0,
             "score": -9.0},
            *[{"minute": at(60 * n), "service": name, "measure": "p99_ns", "direction": "high", "value": 9.0,
               "baseline": 1.0, "score": 7.0} for name, n in (("once", 1), ("twice", 1), ("twice", 9))],
        ),
    )  # fmt: skip
    named = {(row["kind"], row["subject"]): row for row in found}
    assert {name: (row["severity"], row["key"], row["value"]) for name, row in named.items()} == {
        ("audit", "no_outcome"): ("critical", None, None),
        ("bad_worker", "w1 echo"): ("critical", "worker/w1", '{"family":"main","state":"drained"}'),
        ("bad_worker", "w3 pair"): ("critical", None, None),
        ("bad_worker", "w4 pair"): ("critical", None, None),
        ("broker_unstable", "b1"): ("critical", "broker_state/b1", '{"state":"draining"}'),
        ("no_worker", "gone"): ("critical", None, None),
        ("too_few_slots", "short main"): ("critical", "family/main", '{"fallback_families":["spare"]}'),
        ("too_few_slots", "short north"): ("warning", None, None),
        ("backlog_full", "echo"): ("warning", "service/echo", '{"backlog_tasks_max":1200}'),
        ("backlog_full", "short"): ("warning", "family/main", '{"fallback_families":["spare"]}'),
        ("config_conflict", "service/echo"): ("warning", "service/echo", None),
        ("crash_lost_tasks", "b3"): ("warning", None, None),
        ("edits_late", "b8"): ("warning", None, None),
        ("edits_missing", "b7"): ("warning", None, None),
        ("journal_gaps", "b2"): ("warning", None, None),
        ("time_out_short", "slow"): ("warning", "service/slow", '{"timeout_ms":15000}'),
        ("slow_recovery", "worker_lost w9"): ("info", None, None),
        ("unusual", "echo rate low"): ("info", None, None),
        ("unusual", "twice p99_ns high"): ("info", None, None),
    }
    assert sorted(row["rank"] for row in found) == list(range(1, 20))
    by_rank = [row["severity"] for row in sorted(found, key=lambda row: row["rank"])]
    assert by_rank == ["critical"] * 7 + ["warning"] * 9 + ["info"] * 3
    assert (
        "7 tasks were open, and their outcomes are not known; up to about 31 more"
        in (named["crash_lost_tasks", "b3"]["evidence"])
    )
    assert named["audit", "no_outcome"]["evidence"] == "the first is task m at b2: why"
    assert named["edits_late", "b8"]["evidence"].endswith("that of service/late took 360 s")
    assert named["too_few_slots", "short main"]["evidence"].startswith("from 09:00 UTC tasks ask for 4.0 busy slots")
    # What they propose can be read by those who would apply it.
    for row in found:
        if row["value"] is not None:
            view = config.read(config.subject(row["key"]), json.loads(row["value"]))
            assert view.value is not None
            assert not view.warnings


def _of(hour: Row) -> Row:
    return {name: hour[name] for name in ("family", "date", "hour")}
