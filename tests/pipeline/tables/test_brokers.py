"""Minutes of brokers, what they lost, how they got over it, and how their config spread."""

from __future__ import annotations

from tests.pipeline.tables.conftest import Makes, Rows, at


def test_a_minute_of_a_broker(rows: Rows, make: Makes) -> None:
    load = {"event": "load", "slots_free": 1, "slots_busy": 1, "backlog": 0}
    brokers = rows.of(
        "brokers",
        {**load, "service": "echo"},
        {**load, "service": "other", "slots_free": 0, "slots_busy": 1, "backlog": 4},
        {**load, "service": "echo", "at": at(1)},
        {**load, "service": "echo", "at": at(130)},
        {"event": "process_died", "process": "router-1", "at": at(2)},
        {"event": "process_died", "process": "dispatcher", "at": at(3)},
        {"event": "gap", "table": "tasks", "rows": 5, "at": at(4)},
        {"event": "gap", "at": at(5)},
        {"event": "overload_on", "service": "other", "at": at(10)},
        {"event": "overload_off", "service": "other", "at": at(70)},
        {"event": "overload_on", "service": "echo", "at": at(65)},
    )
    peers = rows.of(
        "peers",
        {"peer": "b2", "event": "delegated", "tasks": 7},
        {"peer": "b2", "event": "delegated", "tasks": None},
        {"peer": "b2", "event": "lost"},
        {"peer": "b2", "event": "heard"},
    )
    first, second, third = make("broker_minutes", brokers=brokers, peers=peers)
    assert [row["minute"] for row in (first, second, third)] == [at(), at(60), at(120)]
    # In its two seconds: 3 slots, 2 of them busy, 4 waiting; then 2 slots, 1 busy.
    assert (first["load_samples"], first["slots"], first["slots_busy"], first["busy_share"]) == (2, 2.5, 1.5, 0.6)
    assert (first["backlog"], first["backlog_max"], first["saturated_s"]) == (2.0, 4, 1)
    assert (first["process_deaths"], first["dispatcher_deaths"], first["gaps"], first["gap_rows"]) == (2, 1, 2, 5)
    assert (first["delegated"], first["peers_lost"]) == (7, 1)
    # The last one has no end: it lasts as long as the broker is heard of.
    assert [row["overloads"] for row in (first, second, third)] == [1, 2, 1]
    assert (second["slots"], second["backlog_max"]) == (None, None)


def test_losses(rows: Rows, make: Makes) -> None:
    workers = rows.of(
        "workers",
        {"event": "lost", "services": "b\na", "tasks": 2},
        {"event": "lost", "worker": "w2", "services": "", "tasks": None},
        {"event": "ready"},
    )
    brokers = rows.of(
        "brokers", {"event": "process_died", "process": "dispatcher"}, {"event": "process_died", "process": "steward"}
    )
    peers = rows.of("peers", {"peer": "b2", "event": "lost"}, {"peer": "b2", "event": "heard"})
    found = make("losses", workers=workers, brokers=brokers, peers=peers)
    assert sorted((row["kind"], row["lost"], row["services"], row["tasks"]) for row in found) == [
        ("dispatcher_died", "b1", [], 0),
        ("peer_lost", "b2", [], 0),
        ("worker_lost", "w1", ["a", "b"], 2),
        ("worker_lost", "w2", [], 0),
    ]


def test_failovers(rows: Rows, make: Makes) -> None:
    losses = rows.of(
        "losses",
        {"kind": "worker_lost", "lost": "w1", "broker": "b1", "services": ["echo"], "tasks": 2, "at": at(30)},
        # Two peers lose b3 within a minute, and once more an hour later.
        {"kind": "peer_lost", "lost": "b3", "broker": "b1", "at": at(40)},
        {"kind": "peer_lost", "lost": "b3", "broker": "b2", "at": at(70)},
        {"kind": "peer_lost", "lost": "b3", "broker": "b2", "at": at(3600)},
        {"kind": "dispatcher_died", "lost": "b3", "broker": "b3", "at": at(38)},
    )
    lost = {"minute": at(), "service": "echo"}
    lost_attempts = rows.of(
        "lost_attempts",
        {**lost, "broker": "b1", "lost_kind": "worker", "lost": "w1", "retries": 2, "unknown": 1},
        {**lost, "broker": "b1", "lost_kind": "broker", "lost": "b3", "unknown": 4},
        {**lost, "broker": "b2", "lost_kind": "broker", "lost": "b3", "unknown": 5, "minute": at(60)},
        {**lost, "broker": "b1", "lost_kind": "worker", "lost": "other", "unknown": 100},
    )
    minute = {"service": "echo", "broker": "b3", "tasks": 100}
    service_minutes = rows.of(
        "service_minutes",
        {**minute, "minute": at(), "unknown": 6},
        {**minute, "minute": at(60), "rejected": 3, "retries": 3},
        {**minute, "minute": at(120), "retries": 5},
    )
    audit = rows.of("audit", {"kind": "crash_window", "broker": "b3", "at": at(38), "rows": 3})
    found = make("failovers", losses=losses, lost_attempts=lost_attempts, service_minutes=service_minutes, audit=audit)
    named = {(row["kind"], row["seen"]): row for row in found}
    assert len(named) == len({row["id"] for row in found}) == 4
    worker = named["worker_lost", at(30)]
    assert (worker["tasks_hit"], worker["retries"], worker["unknown"]) == (3, 2, 1)
    assert (worker["normal"], worker["recovery_s"], worker["services"]) == (at(120), 90.0, ["echo"])
    peer = named["peer_lost", at(40)]
    assert (peer["seen_by"], peer["unknown"], peer["tasks_hit"], peer["services"]) == (["b1", "b2"], 9, 9, ["echo"])
    died = named["dispatcher_died", at(38)]
    assert (died["tasks_hit"], died["unknown"], died["recovery_s"]) == (3, 0, 82.0)
    later = named["peer_lost", at(3600)]
    assert (later["services"], later["normal"], later["recovery_s"]) == ([], None, None)


def test_who_was_never_in_trouble_is_normal_at_once(rows: Rows, make: Makes) -> None:
    """However long it is until somebody asks; and who is in trouble when the journal ends is not normal."""
    lost = {"kind": "worker_lost", "broker": "b1", "at": at(30)}
    losses = rows.of(
        "losses",
        {**lost, "lost": "w1", "services": ["rare"]},
        {**lost, "lost": "w2", "services": ["never"]},
        {**lost, "lost": "w3", "services": ["rare", "fair", "never"]},
        {**lost, "lost": "w4", "services": ["rare", "ill"]},
    )
    service_minutes = rows.of(
        "service_minutes",
        {"service": "rare", "minute": at(600), "tasks": 1},
        {"service": "fair", "minute": at(60), "tasks": 100},
        {"service": "fair", "minute": at(120), "tasks": 100, "rejected": 100},
        {"service": "ill", "minute": at(60), "tasks": 100, "rejected": 6},
    )
    empty = {"lost_attempts": rows.of("lost_attempts"), "audit": rows.of("audit")}
    found = {row["lost"]: row for row in make("failovers", losses=losses, service_minutes=service_minutes, **empty)}
    assert {lost: (row["normal"], row["recovery_s"]) for lost, row in found.items()} == {
        "w1": (at(), 0.0),
        "w2": (at(), 0.0),
        "w3": (at(), 0.0),
        "w4": (None, None),
    }


def test_how_an_edit_spread_and_what_it_was_in_conflict_with(rows: Rows, make: Makes) -> None:
    config = rows.of(
        "config",
        {"event": "accepted", "edit": "e1"},
        {"event": "applied", "edit": "e1", "broker": "b2", "at": at(0.25)},
        {"event": "applied", "edit": "e1", "broker": "b2", "at": at(50)},
        # Its clock is behind.
        {"event": "applied", "edit": "e1", "broker": "b3", "at": at(-1)},
        {"event": "applied", "edit": "e2", "key": "family/main", "broker": "b2", "at": at(10)},
        {"event": "conflict", "edit": "e1", "at": at(2)},
        {"event": "conflict", "edit": "e1", "broker": "b2", "at": at(3)},
        {"event": "resolved", "edit": "e0", "at": at(1)},
        {"event": "resolved", "edit": "e3", "at": at(4)},
        {"event": "resolved", "edit": "e3", "key": "family/main", "at": at(3)},
    )
    there = {"b1": (0, 600), "b2": (0, 600), "b3": (0, 600), "b4": (-60, 600), "b5": (60, 600), "b6": (-60, 0)}
    # It began in the minute of the edit, by which it joined.
    there["joined"] = (0, 600)
    minutes = [{"broker": broker, "minute": at(second)} for broker, span in there.items() for second in span]
    first, second = make("config_convergence", config_events=config, broker_minutes=rows.of("broker_minutes", *minutes))
    assert (first["edit"], first["accepted"], first["brokers"], first["span_ms"]) == ("e1", at(), 3, 250)
    assert [(each["broker"], each["delay_ms"]) for each in first["arrivals"]] == [("b3", 0), ("b1", 0), ("b2", 250)]
    assert first["missing"] == ["b4"]
    assert (first["conflict_seen"], first["conflict_resolved"], first["resolved_by"]) == (at(2), at(4), "e3")
    assert first["conflict_ms"] == 2000
    assert (second["edit"], second["accepted"], second["conflict_seen"], second["conflict_ms"]) == (
        "e2", at(10), None, None,
    )  # fmt: skip
