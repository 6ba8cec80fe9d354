"""What a broker records of those who come to it: who calls how much, and who wants what it may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.core.conftest import Broker, Client, Worker
from tests.unit.core.test_principals_at_the_broker import ANN, BOB, Config

from famulus.core import telling
from famulus.core.access import BACKEND, FRONTEND
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.rights import Rights
from famulus.wire import status
from famulus.wire.rows import LAYOUTS, AccessRow, Row

NAMES = [name for name, _ in LAYOUTS["access"]]


class Journal:
    """Keeps the rows of one table."""

    def __init__(self) -> None:
        self.rows: list[AccessRow] = []

    def task(self, *_: object) -> None:
        pass

    def open_task(self, *_: object) -> None:
        pass

    def note(self, row: Row) -> None:
        if isinstance(row, AccessRow):
            self.rows.append(row)


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def config(broker_with: Callable[..., Broker], journal: Journal) -> Config:
    broker = broker_with()
    broker.core = Dispatcher(broker.core.bounds, 0, list(broker.core.services.by_name), journal=journal)
    broker.router()
    return Config(broker)


@pytest.fixture
def ann(config: Config) -> Client:
    return config.client("ann")


@pytest.fixture
def bob(config: Config) -> Worker:
    return config.worker("bob").starts()


def told(config: Config, journal: Journal) -> list[dict[str, Any]]:
    """What was recorded since the last look, without what is missing."""
    list(config.broker.core.checkpoint({}))
    rows, journal.rows = journal.rows, []
    for row in rows:
        assert row.at == config.broker.now_ns
    return [{name: value for name, value in row._asdict().items() if value not in (b"", -1)} for row in rows]


def refused(config: Config, journal: Journal) -> list[tuple[object, ...]]:
    rows = [row for row in told(config, journal) if "why" in row]
    return [tuple(row[name] for name in NAMES if name in row and name != "at") for row in rows]


# -- who calls how much ---------------------------------------------------------------------------------------------


def test_what_a_principal_calls_is_summed_by_service(
    config: Config, journal: Journal, ann: Client, bob: Worker
) -> None:
    for _ in range(2):
        ann.asks("echo", b"hello")
        task = bob.gets_task()
        config.broker.later(30, bob)
        bob.answers(task, b"good day")
    (row,) = told(config, journal)
    assert row == {
        "at": config.broker.now_ns, "port": b"frontend", "wanted": b"call", "principal": b"ann", "service": b"echo",
        "times": 2, "request_bytes": 10, "response_bytes": 16, "busy_ns": 60_000_000,
    }  # fmt: skip
    assert told(config, journal) == []


def test_those_without_a_principal_are_not_counted(config: Config, journal: Journal) -> None:
    config.plain = True
    config.put()
    somebody, worker = config.broker.client("somebody"), config.broker.worker("worker").starts()
    somebody.asks("echo")
    worker.answers(worker.gets_task())
    assert told(config, journal) == []


def test_a_task_is_counted_where_it_was_asked_for_and_its_time_where_its_worker_is(
    config: Config, journal: Journal, bob: Worker
) -> None:
    config.rights["broker/b2"] = Rights()
    config.put()
    b2 = config.client("broker/b2", "b2")
    b2.asks("echo", b"hello", via=["b2"], principal="ann", message_id="m-1")
    task = bob.gets_task()
    config.broker.later(30, bob)
    bob.answers(task)
    (row,) = told(config, journal)
    assert (row["principal"], row["times"], row["request_bytes"], row["busy_ns"]) == (b"ann", 0, 0, 30_000_000)


def test_every_attempt_takes_time_and_the_task_counts_once(config: Config, journal: Journal) -> None:
    config.put(ann=Rights(call=("again",)))
    ann, first = config.client("ann"), config.worker("bob", "again").starts()
    ann.asks("again", b"hello")
    first.gets_task()
    config.broker.later(30)
    config.broker.core.sessions.gone([first.peer])
    second = config.worker("bob", "again", connection="second", identity="w2").starts()
    task = second.gets_task()
    config.broker.later(50, second)
    second.answers(task)
    rows = [row for row in told(config, journal) if row["wanted"] == b"call"]
    assert [(row["times"], row["request_bytes"], row["busy_ns"]) for row in rows] == [(1, 5, 80_000_000)]


def test_a_late_answer_is_not_counted_again(config: Config, journal: Journal, ann: Client, bob: Worker) -> None:
    ann.asks("echo", timeout_ms=100)
    task = bob.gets_task()
    config.broker.later(150, bob)
    assert ann.hears_outcome() == "UNKNOWN expired"
    bob.answers(task)
    assert config.broker.core.counters.late == 1
    (row,) = told(config, journal)
    assert row["times"] == 1


# -- who is refused -------------------------------------------------------------------------------------------------


def test_a_call_without_the_right(config: Config, journal: Journal, ann: Client) -> None:
    for _ in range(3):
        ann.asks("again")
    assert refused(config, journal) == [(FRONTEND, b"call", b"not_allowed", b"ann", b"again", 3)]


def test_a_worker_without_the_right_for_some_of_its_services(config: Config, journal: Journal) -> None:
    config.worker("bob", "echo", "no", "neither").connects()
    assert refused(config, journal) == [
        (BACKEND, b"serve", b"not_allowed", b"bob", b"no", 1),
        (BACKEND, b"serve", b"not_allowed", b"bob", b"neither", 1),
    ]


def test_a_worker_that_takes_the_identity_of_another(config: Config, journal: Journal, bob: Worker) -> None:
    config.put(eve=BOB)
    config.worker("eve").connects()
    assert refused(config, journal) == [(BACKEND, b"serve", b"not_allowed", b"eve", 1)]


@pytest.mark.parametrize("limit", [{"open_tasks": 1}, {"tasks_per_s": 1}])
def test_more_than_it_may_send(
    config: Config, journal: Journal, ann: Client, bob: Worker, limit: dict[str, int]
) -> None:
    config.limit("ann", **limit)
    for _ in range(3):
        ann.asks("echo")
    (row,) = told(config, journal)
    assert (row["why"], row["principal"], row["service"], row["times"]) == (b"overload", b"ann", b"echo", 2)
    bob.answers(bob.gets_task())
    (row,) = told(config, journal)
    assert row["times"] == 1, "what was refused was not called"


def test_whoever_is_revoked(config: Config, journal: Journal, ann: Client, bob: Worker) -> None:
    config.revoke("ann")
    config.revoke("bob")
    ann.asks("echo")
    bob.hears()
    bob.connects()
    assert refused(config, journal) == [
        (FRONTEND, b"call", b"unknown_key", b"ann", 1),
        (BACKEND, b"serve", b"unknown_key", b"bob", 1),
    ]


def test_one_without_a_key(config: Config, journal: Journal) -> None:
    config.broker.client("stranger").asks("echo")
    assert refused(config, journal) == [(FRONTEND, b"call", b"no_key", 1)]


def test_one_that_says_that_it_passes_on_a_task(config: Config, journal: Journal, ann: Client) -> None:
    ann.asks("echo", via=["b2"], principal="amy")
    assert refused(config, journal) == [(FRONTEND, b"delegate", b"not_allowed", b"ann", b"echo", 1)]


def test_a_broker_is_not_to_blame_for_whom_it_passes_on(config: Config, journal: Journal) -> None:
    config.rights["broker/b2"] = Rights()
    config.put()
    config.client("broker/b2", "b2").asks("again", via=["b2"], principal="ann", message_id="m-1")
    assert refused(config, journal) == [(FRONTEND, b"call", b"not_allowed", b"ann", b"again", 1)]


# -- for people -----------------------------------------------------------------------------------------------------


def snapshot(config: Config) -> status.Dispatcher:
    core = config.broker.core
    made = telling.Snapshot(core, core.count().all()).whole(7)
    assert status.read(status.write(made)) == made
    return made


def test_who_is_connected_as_whom(config: Config, ann: Client, bob: Worker) -> None:
    config.broker.later(50)
    config.client("ann", "another")
    assert snapshot(config).principals == (
        status.Presence("ann", "frontend", 2, 50),
        status.Presence("bob", "backend", 1, 50),
    )
    config.broker.core.accounts.gone(FRONTEND, [ann.peer, b"nobody"])
    config.broker.core.accounts.gone(BACKEND, [bob.peer])
    assert snapshot(config).principals == (status.Presence("ann", "frontend", 1, 50),)


def test_many_principals_are_only_counted(config: Config) -> None:
    config.put(**{f"p{number}": ANN for number in range(status.PRINCIPALS_MAX + 5)})
    for number in range(status.PRINCIPALS_MAX + 5):
        config.client(f"p{number}")
    told = snapshot(config)
    assert (len(told.principals), told.principals_total) == (status.PRINCIPALS_MAX, status.PRINCIPALS_MAX + 5)


def test_the_last_refusals_the_latest_first(config: Config, ann: Client) -> None:
    ann.asks("again")
    ann.asks("again")
    config.broker.later(40)
    ann.asks("other")
    config.broker.later(10)
    assert snapshot(config).refusals == (
        status.Refusal("frontend", "call", "not_allowed", "ann", "", "", "other", 1, 10),
        status.Refusal("frontend", "call", "not_allowed", "ann", "", "", "again", 2, 50),
    )
