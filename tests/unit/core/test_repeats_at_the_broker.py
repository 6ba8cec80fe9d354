"""A task that is asked for again by its own id runs once, and whoever asked hears how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from famulus.core.clock import NS_PER_S
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.decisions import WAITERS_MAX
from famulus.core.dispatch.repeats import KEEP_NS, OVERHEAD_BYTES, Repeats

if TYPE_CHECKING:
    from tests.unit.core.conftest import Broker, Client, Worker


@pytest.fixture
def ann(broker: Broker) -> Client:
    return broker.client("ann")


@pytest.fixture
def bob(broker: Broker) -> Worker:
    return broker.worker("bob", "echo", "again", slots=3).starts()


def test_an_answered_task_is_told_again_and_not_run_again(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"hello", b"1", message_id="mine")
    bob.answers(bob.gets_task(), b"answer")
    first = ann.hears_one()
    ann.asks("echo", b"hello", b"2", message_id="mine")
    second = ann.hears_one()
    assert bob.hears() == []
    assert (second.envelope, second.fields, second.body) == (b"2", first.fields, first.body)
    assert broker.core.counters.repeated == 1
    assert broker.core.counters.accepted == 1


def test_an_error_is_told_again_too(ann: Client, bob: Worker) -> None:
    ann.asks("echo", message_id="mine")
    bob.answers(bob.gets_task(), outcome="ERROR", reason="ValueError: no")
    assert ann.hears_outcome() == "ERROR ValueError"
    ann.asks("echo", message_id="mine")
    assert ann.hears_outcome() == "ERROR ValueError"
    assert bob.hears() == []


def test_who_asks_again_while_it_runs_hears_it_with_the_first(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", envelope=b"1", message_id="mine")
    task = bob.gets_task()
    ann.asks("echo", envelope=b"2", message_id="mine")
    assert bob.hears() == []
    bob.answers(task, b"answer")
    assert [(heard.envelope, heard.body) for heard in ann.hears()] == [(b"1", b"answer"), (b"2", b"answer")]
    assert broker.core.outcomes.open_tasks == 0


def test_the_same_id_for_another_service_is_another_task(ann: Client, bob: Worker) -> None:
    ann.asks("echo", message_id="mine")
    bob.answers(bob.gets_task())
    assert ann.hears_outcome() == "OK"
    ann.asks("again", message_id="mine")
    assert bob.gets_task().fields["service"] == "again"


def test_what_was_rejected_did_not_run_and_may_be_asked_for_again(broker: Broker, ann: Client) -> None:
    ann.asks("echo", message_id="mine", timeout_ms=1000)
    broker.later(2000)
    assert ann.hears_outcome() == "REJECTED expired"
    bob = broker.worker("bob").starts()
    ann.asks("echo", message_id="mine")
    bob.answers(bob.gets_task())
    assert ann.hears_outcome() == "OK"


def test_an_unknown_of_an_at_most_once_service_stays_unknown(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", message_id="mine")
    bob.gets_task()
    broker.later(4000)  # silence: the worker is lost
    assert ann.hears_outcome() == "UNKNOWN worker_lost"
    carl = broker.worker("carl").starts()
    ann.asks("echo", message_id="mine")
    assert ann.hears_outcome() == "UNKNOWN worker_lost"
    assert carl.hears() == []


def test_an_unknown_of_an_at_least_once_service_may_run_again(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("again", message_id="mine", timeout_ms=3000)
    bob.gets_task()
    broker.later(4000)
    assert ann.hears_outcome() == "UNKNOWN expired"
    carl = broker.worker("carl", "again").starts()
    ann.asks("again", message_id="mine")
    carl.answers(carl.gets_task())
    assert ann.hears_outcome() == "OK"


def test_it_is_forgotten_after_a_while(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", message_id="mine")
    bob.answers(bob.gets_task())
    ann.hears()
    broker.later(KEEP_NS / 1_000_000, bob)
    ann.asks("echo", message_id="mine")
    bob.gets_task()


def test_an_answer_too_large_to_keep_is_told_to_be_gone(ann: Client, bob: Worker) -> None:
    ann.asks("echo", message_id="mine")
    bob.answers(bob.gets_task(), bytes(2 << 20))
    assert ann.hears_outcome() == "OK"
    ann.asks("echo", message_id="mine")
    assert ann.hears_outcome() == "UNKNOWN too_large"
    assert bob.hears() == []


def test_a_thousand_repeats_of_one_open_task_are_not_kept(broker: Broker, ann: Client, bob: Worker) -> None:
    for number in range(1000):
        ann.asks("echo", envelope=b"%d" % number, message_id="mine")
    assert {heard.code for heard in ann.hears()} == {"overload"}
    bob.answers(bob.gets_task())
    assert len(ann.hears()) == 101


def test_a_draining_broker_still_tells_what_it_knows(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", message_id="mine")
    bob.answers(bob.gets_task())
    assert ann.hears_outcome() == "OK"
    broker.core.drain(10 * NS_PER_S)
    ann.asks("echo", message_id="mine")
    assert ann.hears_outcome() == "OK"


def test_without_room_a_task_runs_and_is_not_remembered(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(Bounds(results_max=1))
    ann, bob = broker.client("ann"), broker.worker("bob", slots=2).starts()
    ann.asks("echo", message_id="first")
    ann.asks("echo", message_id="second")
    tasks = bob.hears()
    for task in tasks:
        bob.answers(task)
    assert [heard.fields["outcome"] for heard in ann.hears()] == ["OK", "OK"]
    assert len(broker.core.repeats._ended) == 1


def test_count_and_bytes_are_bounded_and_the_oldest_goes_first() -> None:
    repeats = Repeats(tasks_max=3, bytes_max=2 * (OVERHEAD_BYTES + 1000))
    for key in (b"a", b"b", b"c"):
        known = repeats.begin(key)
        assert known is not None
        repeats.end(known, b"tail", bytes(900), now_ns=1)
    assert [key for key in (b"a", b"b", b"c") if repeats.get(key, 1)] == [b"b", b"c"]
    for key in (b"d", b"e", b"f", b"g"):
        known = repeats.begin(key)
        assert known is not None
        repeats.end(known, b"", b"", now_ns=2)
    assert len(repeats._ended) == 3
    repeats.get(b"x", 2 + KEEP_NS)
    assert not repeats._ended
    assert repeats._bytes == 0


def test_what_begins_anew_takes_the_place_of_what_ended() -> None:
    repeats = Repeats(10, 10_000)
    known = repeats.begin(b"a")
    assert known is not None
    repeats.end(known, b"tail", b"body", 1)
    second = repeats.begin(b"a")
    assert second is not None
    assert repeats._bytes == 0
    repeats.drop(second)
    assert repeats.get(b"a", 1) is None


def test_one_too_many_to_ask_is_not_told_that_it_did_not_run(broker: Broker, ann: Client, bob: Worker) -> None:
    for _ in range(WAITERS_MAX + 1):
        ann.asks("echo", message_id="mine")
    task = bob.gets_task()
    ann.asks("echo", message_id="mine")
    assert ann.hears_outcome() == "UNKNOWN overload"
    bob.answers(task)
    assert len(ann.hears()) == WAITERS_MAX + 1


# -- whose they are -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hers", "his"), [(None, None), ("a" * 32, "b" * 32), ("a" * 32, None), (None, "b" * 32)])
@pytest.mark.parametrize("has_ended", [True, False])
def test_another_clients_id_brings_nobody_elses_answer_and_keeps_no_task_from_running(
    broker: Broker, ann: Client, bob: Worker, hers: str | None, his: str | None, has_ended: bool
) -> None:
    ann.asks("echo", b"hers", message_id="mine", client_token=hers)
    task = bob.gets_task()
    if has_ended:
        bob.answers(task, b"for ann")
    eve = broker.client("eve")
    eve.asks("echo", b"his", message_id="mine", client_token=his)
    assert eve.hears() == []
    other = bob.gets_task()
    assert (other.body, other.fields["message_id"]) == (b"his", "mine")
    bob.answers(other, b"for eve")
    if not has_ended:
        bob.answers(task, b"for ann")
    assert eve.hears_one().body == b"for eve"
    assert ann.hears_one().body == b"for ann"
    assert broker.core.counters.repeated == 0


def test_a_client_that_comes_back_with_its_token_finds_its_answer(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"hello", message_id="mine", client_token="a" * 32)
    bob.answers(bob.gets_task(), b"answer")
    again = broker.client("ann-again")
    again.asks("echo", b"hello", message_id="mine", client_token="a" * 32)
    assert again.hears_one().body == b"answer"
    assert bob.hears() == []


def test_a_client_without_a_token_is_known_by_its_connection_only(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", message_id="mine")
    bob.answers(bob.gets_task())
    broker.client("ann-again").asks("echo", message_id="mine")
    bob.gets_task()


@pytest.mark.parametrize("message_id", [None, "mine"])
def test_neither_workers_nor_clients_are_told_the_token(ann: Client, bob: Worker, message_id: str | None) -> None:
    ann.asks("echo", message_id=message_id, client_token="a" * 32)
    task = bob.gets_task()
    bob.answers(task)
    assert "client_token" not in task.fields
    assert "client_token" not in ann.hears_one().fields
