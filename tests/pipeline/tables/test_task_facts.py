"""One row per task, whatever happened to it."""

from __future__ import annotations

from pyspark.sql import SparkSession
from tests.pipeline.tables.conftest import MS, Makes, Rows, at

from famulus.pipeline.tables.scale import Scale, session_for

HOUR = 3600


def test_attempts_and_brokers_become_one_row(rows: Rows, make: Makes) -> None:
    tasks = rows.of(
        "tasks",
        # b1 gives it to a worker that is lost, then to b2, whose worker answers.
        {"message_id": "m", "ticket": 1, "outcome": "RETRY", "reason": "worker_lost", "worker": "w1", "ended": at(1)},
        {"message_id": "m", "ticket": 2, "attempt": 2, "worker": None, "delegated_to": "b2", "ended": at(3),
         "assigned": at(1), "total_ns": 3000 * MS},
        {"message_id": "m", "broker": "b2", "boot": "boot2", "ticket": 1, "delegated_from": "b1", "worker": "w2",
         "arrived": at(1), "assigned": at(2), "ended": at(2.9)},
        {"message_id": "m", "ticket": 1, "outcome": "LATE", "worker": "w1", "ended": at(5)},
        {"message_id": "other", "reason": None, "worker": "w3"},
    )  # fmt: skip
    fact, other = make("task_facts", tasks=tasks)
    assert (fact["message_id"], fact["broker"], fact["outcome"]) == ("m", "b1", "OK")
    assert (fact["worker"], fact["brokers"], fact["attempts"], fact["late"]) == ("w2", ["b1", "b2"], 2, 1)
    assert (fact["ended"], fact["total_ns"], fact["outcomes"], fact["hour"]) == (at(3), 3000 * MS, 1, 12)
    assert (other["worker"], other["brokers"], other["attempts"]) == ("w3", ["b1"], 1)


#: What befell a broker a second after a task was seen open there, and whether the task went with it.
FATES: dict[str, tuple[dict[str, object], bool]] = {
    "died": ({"event": "process_died", "process": "dispatcher"}, True),
    "restarted": ({"event": "start", "boot": "boot2"}, True),
    "stopped": ({"event": "stop"}, True),
    "a router died": ({"event": "process_died", "process": "router-1"}, False),
    "its own start": ({"event": "start", "boot": "boot1"}, False),
    "died before": ({"event": "process_died", "process": "dispatcher", "at": at(-1)}, False),
}


def test_a_task_that_was_open_when_its_broker_went_has_no_outcome(rows: Rows, make: Makes) -> None:
    opened: list[dict[str, object]] = [{"message_id": name, "broker": name, "worker": "w1"} for name in FATES]
    brokers = rows.of("brokers", *[{"at": at(1), "broker": name, **event} for name, (event, _) in FATES.items()])
    tasks = rows.of(
        "tasks",
        {"message_id": "ended", "broker": "died", "ended": at(0.5)},
        # Its client sent it again when the first one died.
        {"message_id": "went on", "broker": "b2", "ended": at(4)},
    )
    opened += [{"message_id": "ended", "broker": "died"}, {"message_id": "went on", "broker": "died"}]
    # Peers lost both; one of them wrote on.
    opened += [{"message_id": "lost", "broker": "b3"}, {"message_id": "cut off", "broker": "b4"}]
    lost = rows.of("peers", *[{"peer": peer, "event": "lost", "at": at(5)} for peer in ("b3", "b4")])
    brokers = brokers.union(rows.of("brokers", {"broker": "b4", "event": "load", "service": "echo", "at": at(6)}))
    made = make("task_facts", tasks=tasks, open_tasks=rows.of("open_tasks", *opened), brokers=brokers, peers=lost)
    facts = {fact["message_id"]: fact for fact in made}
    swallowed = {name for name, fact in facts.items() if fact["outcome"] is None}
    assert swallowed == {name for name, (_, goes) in FATES.items() if goes} | {"lost"}
    assert (facts["ended"]["outcome"], facts["went on"]["outcome"], facts["went on"]["broker"]) == ("OK", "OK", "b2")
    fact = facts["died"]
    assert (fact["worker"], fact["ended"], fact["attempts"], fact["outcomes"], fact["total_ns"]) == (
        "w1", at(), 1, 0, None,
    )  # fmt: skip


def test_an_hour_looks_no_further_than_its_neighbours(rows: Rows, make: Makes) -> None:
    """So it comes out alike, alone or with all others: what is two hours off is another task."""
    tasks = rows.of(
        "tasks",
        {"message_id": "m", "ended": at(), "outcome": "RETRY"},
        {"message_id": "m", "ended": at(HOUR), "ticket": 2, "worker": "w2"},
        {"message_id": "m", "ended": at(2 * HOUR), "ticket": 3, "worker": "w3", "assigned": at(2 * HOUR)},
        {"message_id": "m", "ended": at(4 * HOUR), "ticket": 4, "worker": "w4", "assigned": at(4 * HOUR)},
        # Without a word of the accountable broker the others tell.
        {"message_id": "n", "broker": "b2", "delegated_from": "b1", "outcome": "ERROR"},
    )
    facts = sorted(make("task_facts", tasks=tasks), key=lambda fact: fact["hour"])
    assert [(fact["hour"], fact["outcomes"], fact["attempts"], fact["worker"]) for fact in facts] == [
        (12, 0, 1, "w1"),
        (13, 2, 3, "w3"),
        (16, 1, 1, "w4"),
    ]


def test_a_task_with_one_row_is_told_as_one_with_several(spark: SparkSession, rows: Rows, make: Makes) -> None:
    tasks = rows.of(
        "tasks",
        {"message_id": "ok"},
        {"message_id": "unheard", "delegated_from": "b0"},
        {
            "message_id": "waited in vain",
            "outcome": "REJECTED",
            "reason": "no_worker",
            "worker": None,
            "assigned": None,
        },
        {"message_id": "only late", "outcome": "LATE"},
        {"message_id": "only once tried", "outcome": "RETRY", "reason": "worker_lost"},
        {"message_id": "again", "outcome": "RETRY", "reason": "worker_lost"},
        {"message_id": "again", "ticket": 2, "attempt": 2, "ended": at(1)},
    )
    few = session_for(spark, Scale.SMALL).createDataFrame(tasks.collect(), tasks.schema)
    together = make("task_facts", tasks=few)
    assert make("task_facts", tasks=tasks) == together
    assert [fact["message_id"] for fact in together if fact["attempts"] == 2] == ["again"]
