"""What the dispatcher tells its journal."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from famulus.core.dispatch import delegation
from famulus.core.dispatch import facts as facts_module
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.wire.rows import LAYOUTS, TABLES, Row

if TYPE_CHECKING:
    from tests.unit.core.conftest import Broker

Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture
def rows() -> Rows:
    return defaultdict(list)


@pytest.fixture
def watched(broker_with: Callable[..., Broker], rows: Rows) -> Broker:
    """A broker whose facts are kept."""
    broker = broker_with()

    def take(table: str, *values: object) -> None:
        row: dict[str, Any] = dict(zip([name for name, _ in LAYOUTS[table]], values, strict=True))
        assert row.get("at", row.get("ended")) == broker.now_ns, "it is told when it happens"
        rows[table].append(row)

    class Journal:
        task = staticmethod(partial(take, "tasks"))
        open_task = staticmethod(partial(take, "open_tasks"))

        def note(self, row: Row) -> None:
            take(TABLES[type(row)], *row)

    broker.core = Dispatcher(broker.core.bounds, 0, list(broker.core.services.by_name), journal=Journal())
    broker.router()
    return broker


def outcome(row: dict[str, Any]) -> tuple[str, str]:
    told = json.loads(b"{" + row["tail"][1:])
    return told["outcome"], told.get("reason", "").partition(":")[0]


def test_a_task_is_one_row_at_its_end(watched: Broker, rows: Rows) -> None:
    ann, bob = watched.client("ann"), watched.worker("bob").starts()
    came_ns = watched.now_ns
    ann.asks("echo", b"hello", priority=7)
    task = bob.gets_task()
    watched.later(5, bob)
    assert rows["tasks"] == []
    bob.answers(task, b"hello you")
    (row,) = rows["tasks"]
    assert outcome(row) == ("OK", "")
    assert (row["service"], row["worker"], row["client"]) == (b"echo", b"bob", b"c/ann")
    assert (row["arrived"], row["assigned"], row["ended"]) == (came_ns, came_ns, watched.now_ns)
    assert (row["attempt"], row["priority"], row["at_least_once"]) == (1, 7, False)
    assert (row["request_bytes"], row["response_bytes"]) == (5, 9)
    assert row["ticket"] == task.envelope


def test_what_nobody_offers_is_a_row_too(watched: Broker, rows: Rows) -> None:
    watched.client("ann").asks("nobody", b"hello")
    (row,) = rows["tasks"]
    assert outcome(row) == ("REJECTED", "no_service")
    assert (row["attempt"], row["assigned"], row["worker"], len(row["ticket"])) == (0, 0, b"", 8)


def test_another_attempt_follows_a_lost_worker(watched: Broker, rows: Rows) -> None:
    ann = watched.client("ann")
    bob = watched.worker("bob", "again").starts()
    ann.asks("again")
    bob.gets_task()
    eve = watched.worker("eve", "again").starts()
    watched.later(4000, eve)
    eve.answers(eve.gets_task())
    assert [(outcome(row)[0], row["attempt"], row["worker"]) for row in rows["tasks"]] == [
        ("RETRY", 1, b"bob"),
        ("OK", 2, b"eve"),
    ]
    assert [(row["worker"], row["event"], row["tasks"]) for row in rows["workers"] if row["event"] == b"lost"] == [
        (b"bob", b"lost", 1)
    ]


def test_an_answer_after_the_end_is_late(watched: Broker, rows: Rows) -> None:
    ann, bob = watched.client("ann"), watched.worker("bob").starts()
    ann.asks("echo", timeout_ms=100)
    task = bob.gets_task()
    watched.later(200, bob)
    bob.answers(task, b"too late")
    assert [outcome(row) for row in rows["tasks"]] == [("UNKNOWN", "expired"), ("LATE", "")]
    assert rows["tasks"][0]["ticket"] == rows["tasks"][1]["ticket"] == task.envelope


def test_a_checkpoint_notes_what_is_open_once_in_each_state(watched: Broker, rows: Rows) -> None:
    ann, bob = watched.client("ann"), watched.worker("bob").starts()
    ann.asks("echo", message_id="first")
    ann.asks("echo", message_id="second")
    task = bob.gets_task()
    for _ in range(3):
        list(watched.core.checkpoint(watched.core.work()))
    bob.answers(task)
    for _ in range(3):
        list(watched.core.checkpoint(watched.core.work()))
    assert [(row["message_id"], row["state"], row["worker"]) for row in rows["open_tasks"]] == [
        (b'"first"', b"running", b"bob"),
        (b'"second"', b"queued", b""),
        (b'"second"', b"running", b"bob"),
    ]


def test_a_checkpoint_is_bounded_and_says_what_it_left_out(
    watched: Broker, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not str(facts_module.__file__).endswith(".py"):
        pytest.skip("a constant of a compiled module cannot be replaced")
    monkeypatch.setattr(facts_module, "OPEN_ROWS_MAX", 2)
    ann = watched.client("ann")
    for _ in range(3):
        ann.asks("echo")
    list(watched.core.checkpoint(watched.core.work()))
    assert len(rows["open_tasks"]) == 2
    (gap,) = [row for row in rows["brokers"] if row["event"] == b"gap"]
    assert (gap["table"], gap["rows"]) == (b"open_tasks", 1)
    list(watched.core.checkpoint(watched.core.work()))
    assert len(rows["open_tasks"]) == 3


def test_the_load_of_services_that_have_any(watched: Broker, rows: Rows) -> None:
    watched.worker("bob", slots=3).starts()
    watched.client("ann").asks("echo")
    list(watched.core.checkpoint(watched.core.work()))
    (load,) = [row for row in rows["brokers"] if row["event"] == b"load"]
    assert (load["service"], load["slots_free"], load["slots_busy"], load["backlog"]) == (b"echo", 2, 1, 0)


def test_others_may_be_served_before_each_load_is_noted(watched: Broker, rows: Rows) -> None:
    for name in ("s1", "s2", "s3"):
        watched.worker(f"of {name}", name).starts()
    steps = watched.core.checkpoint(watched.core.work())
    assert [len([row for row in rows["brokers"] if row["event"] == b"load"]) for _ in steps] == [0, 1, 2]


def test_an_overload_begins_with_a_refusal_and_ends_after_some_quiet(watched: Broker, rows: Rows) -> None:
    ann = watched.client("ann")

    def events() -> list[bytes]:
        return [row["event"] for row in rows["brokers"] if row["event"].startswith(b"overload")]

    for _ in range(5):
        ann.asks("echo")  # three may wait
    list(watched.core.checkpoint(watched.core.work()))
    ann.asks("echo")
    list(watched.core.checkpoint(watched.core.work()))
    assert events() == [b"overload_on"]
    for _ in range(facts_module.CALM_CHECKPOINTS - 1):
        list(watched.core.checkpoint(watched.core.work()))
    assert events() == [b"overload_on"]
    list(watched.core.checkpoint(watched.core.work()))
    assert events() == [b"overload_on", b"overload_off"]


def test_tasks_for_other_brokers_are_counted_and_named(watched: Broker, rows: Rows) -> None:
    watched.core.on_peers("here", [("there", "tcp://there:7100", 0, {"echo": 2})])
    watched.core.on_delegate_link(b"there", True)
    ann = watched.client("ann")
    ann.asks("echo")
    ann.asks("echo")
    list(watched.core.checkpoint(watched.core.work()))
    assert [(row["peer"], row["event"], row["tasks"], row["service"]) for row in rows["peers"]] == [
        (b"there", b"delegated", 2, b"echo")
    ]
    assert {row["state"] for row in rows["open_tasks"]} == {b"delegated"}
    watched.core.on_delegate_link(b"there", False)
    assert [(outcome(row)[0], row["delegated_to"], row["worker"]) for row in rows["tasks"]] == [
        ("UNKNOWN", b"there", b"")
    ] * 2


def test_a_task_that_comes_back_from_a_broker_is_given_to_a_worker_then(watched: Broker, rows: Rows) -> None:
    watched.core.on_peers("here", [("there", "tcp://there:7100", 0, {"echo": 2})])
    watched.core.on_delegate_link(b"there", True)
    watched.client("ann").asks("echo")
    ((_, message),) = watched.for_delegates
    watched.for_delegates.clear()
    bob = watched.worker("bob").starts()
    watched.now_ns += 7
    delegation.undelivered(watched.core, b"there", message)
    given_ns = watched.now_ns
    watched.later(5, bob)
    bob.answers(bob.gets_task())
    (row,) = rows["tasks"]
    assert (row["worker"], row["assigned"], row["ended"]) == (b"bob", given_ns, watched.now_ns)


def test_workers_come_leave_and_are_listed(watched: Broker, rows: Rows) -> None:
    bob = watched.worker("bob", slots=3).starts()
    bob.says("DISCONNECT")
    eve = watched.worker("eve").starts()
    for _ in range(4):
        eve.sends(b"", b"{rubbish", b"")
    watched.core.forgive(b"eve")
    assert [(row["worker"], row["event"], row["reason"]) for row in rows["workers"]] == [
        (b"bob", b"connect", b""),
        (b"bob", b"ready", b""),
        (b"bob", b"disconnected", b""),
        (b"eve", b"connect", b""),
        (b"eve", b"ready", b""),
        (b"eve", b"error_listed", b"not_allowed"),
        (b"eve", b"lost", b"not_allowed"),
        (b"eve", b"cleared", b""),
    ]
    assert rows["workers"][0]["services"] == b"echo"
    assert rows["workers"][0]["slots"] == 3


def test_without_a_journal_nothing_is_told(broker: Broker) -> None:
    ann, bob = broker.client("ann"), broker.worker("bob").starts()
    ann.asks("echo")
    bob.answers(bob.gets_task())
    assert not broker.core.facts.on
