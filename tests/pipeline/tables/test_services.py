"""Minutes, hours and days of services, and how loaded they were."""

from __future__ import annotations

from tests.pipeline.tables.conftest import MS, Makes, Rows, at


def bucket_near(ns: int, buckets: list[dict[str, int]]) -> None:
    (entry,) = buckets
    assert abs(2.718281828 ** ((entry["bucket"] + 0.5) / 16) - 1 - ns) < 0.035 * ns


def test_a_minute_counts_each_task_once_and_by_its_outcome(rows: Rows, make: Makes) -> None:
    tasks = rows.of(
        "tasks",
        {"message_id": "ok", "service_ns": 2 * MS, "total_ns": 3 * MS, "queue_ns": MS},
        {"message_id": "error", "outcome": "ERROR", "ended": at(59.9)},
        {"message_id": "full", "outcome": "REJECTED", "reason": "overload", "worker": None, "assigned": None,
         "service_ns": None, "attempt": 0},
        {"message_id": "nobody", "outcome": "REJECTED", "reason": "no_worker", "worker": None, "assigned": None,
         "service_ns": None, "attempt": 0},
        {"message_id": "slow", "outcome": "UNKNOWN", "reason": "expired", "service_ns": 5 * MS},
        {"message_id": "slow", "outcome": "LATE", "service_ns": 9 * MS},
        {"message_id": "again", "outcome": "RETRY", "reason": "worker_lost", "service_ns": 4 * MS},
    )  # fmt: skip
    (row,) = make("service_minutes", tasks=tasks)
    assert (row["date"], row["hour"], row["minute"]) == (at().date(), 12, at())
    assert (row["tasks"], row["ok"], row["errors"], row["rejected"], row["unknown"]) == (5, 1, 1, 2, 1)
    assert (row["overloaded"], row["no_worker"], row["expired"]) == (1, 1, 1)
    assert (row["retries"], row["late"], row["runs"]) == (1, 1, 4)
    assert row["busy_ns"] == (2 + 1 + 5 + 4) * MS
    assert (row["request_bytes"], row["response_bytes"]) == (50, 100)
    assert sum(entry["count"] for entry in row["total_hist"]) == 5
    assert sum(entry["count"] for entry in row["service_hist"]) == 3
    assert [entry["bucket"] for entry in row["service_hist"]] == sorted(
        entry["bucket"] for entry in row["service_hist"]
    )


def test_a_task_that_was_handed_over_counts_where_its_client_asked(rows: Rows, make: Makes) -> None:
    tasks = rows.of(
        "tasks",
        {"broker": "b1", "delegated_to": "b2", "worker": None, "total_ns": 5 * MS},
        {"broker": "b2", "delegated_from": "b1", "service_ns": 3 * MS},
    )
    asked, ran = make("service_minutes", tasks=tasks)
    assert (asked["broker"], ran["broker"]) == ("b1", "b2")
    assert [(each["tasks"], each["delegated_out"], each["delegated_in"], each["runs"]) for each in (asked, ran)] == [
        (1, 1, 0, 0),
        (0, 0, 1, 1),
    ]
    assert (asked["busy_ns"], ran["busy_ns"]) == (0, 3 * MS)
    bucket_near(5 * MS, asked["total_hist"])
    assert (ran["total_hist"], ran["total_p50_ns"]) == ([], None)


def test_hours_and_days_are_sums_over_brokers(rows: Rows, make: Makes) -> None:
    tasks = rows.of(
        "tasks",
        {"broker": "b1", "total_ns": MS},
        {"broker": "b2", "total_ns": 100 * MS, "ended": at(60)},
        {"broker": "b2", "total_ns": 100 * MS, "ended": at(3600)},
    )
    hours = make("service_hours", tasks=tasks)
    first, second = sorted(hours, key=lambda row: row["hour"])
    assert (first["at"], first["tasks"], second["at"], second["tasks"]) == (at(), 2, at(3600), 1)
    assert len(first["total_hist"]) == 2
    (day,) = make("service_days", service_hours=rows.of("service_hours", *hours))
    assert (day["day"], day["tasks"], day["busy_ns"]) == (at().date(), 3, 3 * MS)
    assert [entry["count"] for entry in day["total_hist"]] == [1, 2]
    assert abs(day["total_p50_ns"] - 100 * MS) < 3.5 * MS


def test_the_load_of_a_service_is_summed_over_seconds(rows: Rows, make: Makes) -> None:
    load = {"event": "load", "service": "echo"}
    brokers = rows.of(
        "brokers",
        {**load, "slots_free": 2, "slots_busy": 1, "backlog": 0},
        {**load, "slots_free": 0, "slots_busy": 3, "backlog": 7, "at": at(1)},
        {**load, "slots_free": None, "slots_busy": None, "backlog": None, "at": at(2)},
        {"event": "start", "at": at(3)},
    )
    (row,) = make("service_loads", brokers=brokers)
    assert (row["samples"], row["slots_sum"], row["busy_sum"], row["backlog_sum"]) == (3, 6, 4, 7)
    assert (row["slots_max"], row["backlog_max"], row["saturated_s"]) == (3, 7, 1)
