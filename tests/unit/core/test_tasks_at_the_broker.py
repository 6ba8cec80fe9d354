"""Tasks: who gets them, what they say on the way, and the one outcome that each of them has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from famulus.core.delivery import ServicePolicy
from famulus.core.dispatch.bounds import Bounds
from famulus.wire import headers, limits

if TYPE_CHECKING:
    from tests.unit.core.conftest import Broker, Client, Heard, Worker

HEARTBEAT_MS = 1000
LOST_MS = HEARTBEAT_MS * limits.HEARTBEATS_UNTIL_LOST


@pytest.fixture
def ann(broker: Broker) -> Client:
    return broker.client("ann")


@pytest.fixture
def bob(broker: Broker) -> Worker:
    return broker.worker("bob", "echo", "again").starts()


def bodies(heard: list[Heard]) -> list[bytes]:
    return [message.body for message in heard]


# -- there and back -----------------------------------------------------------------------------------------------


def test_a_task_goes_there_and_back(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"hello", envelope=b"ann-1", timeout_ms=5000, priority=7, message_id="m-1")
    task = bob.gets_task()
    assert task.body == b"hello"
    assert task.fields == {
        "request": "TASK",
        "type": "REQUEST",
        "service": "echo",
        "message_id": "m-1",
        "timeout_ms": 5000,
        "priority": 7,
        "attempt": 1,
    }
    bob.answers(task, b"HELLO")
    answer = ann.hears_one()
    assert answer.body == b"HELLO"
    assert answer.envelope == b"ann-1"
    assert answer.fields == {
        "request": "TASK",
        "type": "RESPONSE",
        "service": "echo",
        "message_id": "m-1",
        "outcome": "OK",
    }
    assert broker.core.counters.ok == broker.core.counters.accepted == 1


def test_a_plain_req_socket_will_do(ann: Client, bob: Worker) -> None:
    """Its envelope is the empty delimiter."""
    ann.asks("echo", b"x", envelope=b"")
    bob.answers(bob.gets_task())
    assert ann.hears_one().envelope == b""


def test_a_worker_may_say_that_it_went_wrong(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("again")
    bob.answers(bob.gets_task(), b"details", outcome="ERROR", reason="ValueError: no")
    answer = ann.hears_one()
    assert answer.fields["outcome"] == "ERROR"
    assert answer.fields["reason"] == "ValueError: no"
    assert answer.body == b"details"
    assert bob.hears() == [], "an ERROR is not tried again, also where the service is at-least-once"
    assert broker.core.counters.error == 1


def test_an_error_without_a_reason_gets_one_and_a_long_one_is_cut(ann: Client, bob: Worker) -> None:
    ann.asks("echo")
    bob.answers(bob.gets_task(), outcome="ERROR")
    assert ann.hears_one().fields["reason"]
    ann.asks("echo")
    bob.answers(bob.gets_task(), outcome="ERROR", reason="x" * 5000)
    assert len(ann.hears_one().fields["reason"]) == limits.REASON_CHARS_MAX


@pytest.mark.parametrize("outcome", ["OK", "ERROR"])
def test_fields_that_nobody_knows_travel_both_ways(ann: Client, bob: Worker, outcome: str) -> None:
    ann.asks("echo", traceparent="00-ab-cd-01", hints=["a", {"b": 1.5}])
    task = bob.gets_task()
    assert task.fields["traceparent"] == "00-ab-cd-01"
    assert task.fields["hints"] == ["a", {"b": 1.5}]
    bob.answers(task, outcome=outcome, reason="why", took_ms=7, notes={"c": [None, True]})
    answer = ann.hears_one()
    assert answer.fields["took_ms"] == 7
    assert answer.fields["notes"] == {"c": [None, True]}


def test_a_worker_cannot_overwrite_what_the_broker_says(ann: Client, bob: Worker) -> None:
    ann.asks("echo", message_id="mine")
    header = headers.write("TASK", "RESPONSE", message_id="forged", service="forged", protocol=1)
    bob.sends(bob.gets_task().envelope, header, b"")
    answer = ann.hears_one()
    assert (answer.fields["message_id"], answer.fields["service"]) == ("mine", "echo")
    assert "protocol" not in answer.fields


@pytest.mark.parametrize("given", [None, ""])
def test_a_task_without_a_message_id_gets_one_and_both_sides_see_it(
    ann: Client, bob: Worker, given: str | None
) -> None:
    ann.asks("echo", message_id=given)
    task = bob.gets_task()
    assert task.fields["message_id"]
    bob.answers(task)
    assert ann.hears_one().fields["message_id"] == task.fields["message_id"]


def test_what_a_client_says_about_attempts_is_not_believed(ann: Client, bob: Worker) -> None:
    ann.asks("echo", attempt=7)
    assert bob.gets_task().fields["attempt"] == 1


@pytest.mark.parametrize(("wish_ms", "given_ms"), [(None, 20_000), (50_000, 20_000), (700, 700)])
def test_the_service_gives_the_default_and_the_largest_time_out(
    ann: Client, bob: Worker, wish_ms: int | None, given_ms: int
) -> None:
    ann.asks("echo", timeout_ms=wish_ms)
    assert bob.gets_task().fields["timeout_ms"] == given_ms


def test_a_worker_is_told_the_time_that_is_left(broker: Broker, ann: Client) -> None:
    ann.asks("echo", timeout_ms=5000)
    broker.later(1500)
    bob = broker.worker("bob").starts()
    assert bob.gets_task().fields["timeout_ms"] == 3500


def test_time_that_a_router_took_is_gone_too(broker: Broker, ann: Client, bob: Worker) -> None:
    broker.routers_answer = False
    ann.asks("echo", timeout_ms=5000)
    broker.now_ns += 400_000_000
    broker.decide()
    assert bob.gets_task().fields["timeout_ms"] == 4600


def test_a_task_whose_time_ran_out_at_the_router_is_rejected(broker: Broker, ann: Client, bob: Worker) -> None:
    broker.routers_answer = False
    ann.asks("echo", timeout_ms=400)
    broker.now_ns += 400_000_000
    broker.decide()
    assert ann.hears_outcome() == "REJECTED expired"
    assert bob.hears() == []


# -- who gets it --------------------------------------------------------------------------------------------------


def test_workers_take_turns(broker: Broker, ann: Client) -> None:
    workers = [broker.worker(name).starts() for name in ("bob", "carol", "dan")]
    for turn in range(6):
        ann.asks("echo", b"%d" % turn)
        (heard,) = [(worker, task) for worker in workers for task in worker.hears()]
        assert heard[0] is workers[turn % 3]
        heard[0].answers(heard[1])


def test_a_worker_gets_as_many_tasks_as_it_has_slots(broker: Broker, ann: Client) -> None:
    bob = broker.worker("bob", slots=2).starts()
    for number in (b"1", b"2", b"3"):
        ann.asks("echo", number)
    first, second = bob.hears()
    bob.answers(second)
    assert bob.gets_task().body == b"3"
    bob.answers(first)
    assert bob.hears() == []


def test_a_slot_serves_all_services_of_its_worker_but_one_task_at_a_time(ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"1")
    ann.asks("again", b"2")
    bob.answers(bob.gets_task())
    assert bob.gets_task().body == b"2"


def test_nobody_ever_offered_it_no_service_at_once(broker: Broker, ann: Client) -> None:
    ann.asks("nonesuch", envelope=b"e", message_id="m")
    answer = ann.hears_one()
    assert (answer.fields["outcome"], answer.code) == ("REJECTED", "no_service")
    assert (answer.envelope, answer.fields["message_id"]) == (b"e", "m")
    assert broker.core.counters.rejected == broker.core.counters.accepted == 1


def test_a_declared_service_without_a_worker_waits_for_one(broker: Broker, ann: Client) -> None:
    ann.asks("echo", timeout_ms=20_000)
    broker.later(14_980)
    assert ann.hears() == []
    broker.later(20)
    assert ann.hears_outcome() == "REJECTED no_worker"


def test_a_task_that_waits_too_long_for_a_busy_worker_is_overload(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo")
    ann.asks("echo", timeout_ms=20_000, envelope=b"second")
    task = bob.gets_task()
    broker.later(15_000, bob)
    assert ann.hears_outcome() == "REJECTED overload"
    bob.answers(task)
    assert ann.hears_outcome() == "OK"


def test_a_task_that_expires_in_the_backlog_is_rejected_within_a_tick(broker: Broker, ann: Client) -> None:
    ann.asks("echo", timeout_ms=1000)
    broker.later(999)
    assert ann.hears() == []
    broker.later(21)
    assert ann.hears_outcome() == "REJECTED expired"
    broker.worker("bob").starts()
    assert broker.people[b"w/bob"].hears() == []


def test_a_backlog_is_full_by_count(broker: Broker, ann: Client) -> None:
    for number in range(3):
        ann.asks("echo", b"%d" % number)
    assert ann.hears() == []
    ann.asks("echo", b"one too many", envelope=b"4")
    answer = ann.hears_one()
    assert (answer.envelope, answer.fields["outcome"], answer.code) == (b"4", "REJECTED", "overload")

    bob = broker.worker("bob", slots=9).starts()
    assert bodies(bob.hears()) == [b"0", b"1", b"2"]


def test_a_backlog_is_full_by_bytes(broker: Broker, ann: Client) -> None:
    ann.asks("echo", b"x" * 60)
    ann.asks("echo", b"y" * 41)
    assert ann.hears_outcome() == "REJECTED overload"
    ann.asks("echo", b"z" * 40)
    assert ann.hears() == []


def test_the_broker_as_a_whole_has_bounds_too(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(Bounds(open_tasks_max=2))
    ann = broker.client("ann")
    bob = broker.worker("bob", slots=3).starts()
    for _ in range(3):
        ann.asks("echo")
    assert ann.hears_outcome() == "REJECTED overload"
    bob.answers(bob.hears()[0])
    ann.hears()
    ann.asks("echo")
    assert ann.hears() == []

    broker = broker_with(Bounds(open_bytes_max=1024), echo=ServicePolicy())
    ann = broker.client("ann")
    ann.asks("echo", b"x" * 1000)
    ann.asks("echo", b"y" * 25)
    assert ann.hears_outcome() == "REJECTED overload"
    assert broker.core.outcomes.open_bytes == 1000


def test_the_urgent_ones_first_and_then_the_oldest(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(echo=ServicePolicy())
    ann = broker.client("ann")
    for body, priority in ((b"a", 5), (b"b", 0), (b"c", 9), (b"d", None), (b"e", 9)):
        ann.asks("echo", body, priority=priority)
    bob = broker.worker("bob", slots=5).starts()
    assert bodies(bob.hears()) == [b"c", b"e", b"a", b"d", b"b"]


def test_a_worker_of_two_services_takes_the_more_urgent_task_then_the_older_one(broker: Broker, ann: Client) -> None:
    ann.asks("again", b"old")
    broker.later(500)
    ann.asks("echo", b"young")
    ann.asks("echo", b"urgent", priority=9)
    bob = broker.worker("bob", "echo", "again", slots=3).starts()
    assert bodies(bob.hears()) == [b"urgent", b"old", b"young"]


# -- late ---------------------------------------------------------------------------------------------------------


def test_at_the_deadline_a_running_task_is_unknown_and_the_late_answer_gives_the_slot_back(
    broker: Broker, ann: Client, bob: Worker
) -> None:
    ann.asks("echo", timeout_ms=2000)
    task = bob.gets_task()
    broker.later(2000, bob)
    assert ann.hears_outcome() == "UNKNOWN expired"

    ann.asks("echo", b"next")
    assert bob.hears() == [], "it is still busy with the first one"
    bob.answers(task, b"too late")
    assert ann.hears() == []
    assert broker.core.counters.late == 1
    assert bob.gets_task().body == b"next"


def test_an_at_least_once_task_that_runs_into_its_deadline_is_not_tried_again(
    broker: Broker, ann: Client, bob: Worker
) -> None:
    carol = broker.worker("carol", "again").starts()
    ann.asks("again", timeout_ms=2000)
    bob.gets_task()
    broker.later(2000, bob, carol)
    assert ann.hears_outcome() == "UNKNOWN expired"
    assert carol.hears() == []


def test_an_answer_that_is_judged_after_the_deadline_is_late(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", timeout_ms=1000)
    task = bob.gets_task()
    broker.routers_answer = False
    bob.answers(task, remark="not plain, so that a router has to read it")
    broker.later(1000)
    assert ann.hears_outcome() == "UNKNOWN expired"
    broker.decide()
    assert ann.hears() == []
    assert broker.core.counters.late == 1
    assert bob.is_in_lru()


def test_the_second_answer_to_a_task_is_dropped(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo")
    task = bob.gets_task()
    bob.answers(task, b"first")
    bob.answers(task, b"second")
    assert ann.hears_one().body == b"first"
    assert bob.hears() == []
    assert broker.core.counters.late == 1
    assert broker.core.sessions.by_peer[bob.peer].free == 1, "it has one slot and not two"


def test_nobody_answers_for_another(broker: Broker, ann: Client, bob: Worker) -> None:
    carol = broker.worker("carol").starts()
    ann.asks("echo")
    task = bob.gets_task()
    carol.answers(task, b"forged")
    assert ann.hears() == []
    bob.answers(task, b"true")
    assert ann.hears_one().body == b"true"


# -- bad answers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        b"rubbish",
        b'{"request":"TASK","type":"RESPONSE","outcome":"UNKNOWN"}',
        b'{"request":"TASK","type":"RESPONSE","outcome":"REJECTED"}',
        b'{"request":"TASK","type":"RESPONSE","outcome":"fine"}',
        b'{"request":"TASK","type":"RESPONSE","a":1,"a":2}',
        b'{"request":"PING","type":"REQUEST"}',
    ],
)
def test_an_answer_that_cannot_be_read_makes_the_task_unknown(
    broker: Broker, ann: Client, bob: Worker, header: bytes
) -> None:
    ann.asks("again")
    task = bob.gets_task()
    bob.sends(task.envelope, header, b"")
    assert ann.hears_outcome() == "UNKNOWN bad_header"
    told = bob.hears_one()
    assert told.kind == "ERROR"
    assert told.envelope == task.envelope
    assert broker.core.counters.faults == 1
    assert bob.is_in_lru(), "the slot is free again"


# Not so yet: the refusal leaves the ticket out, so the slot is lost until the worker connects again.
@pytest.mark.parametrize(
    "rest",
    [[b"x"], [b"x", b"y", b"z"], [b" " * (limits.HEADER_BYTES_MAX + 1), b""], [b"{}", b"x" * 2049]],
    ids=["too few frames", "too many frames", "long header", "long body"],
)
def test_an_answer_of_the_wrong_shape_is_an_answer_all_the_same(
    broker_with: Callable[..., Broker], rest: list[bytes]
) -> None:
    """The worker is done with it: the slot is free, and the task has no better outcome to wait for."""
    broker = broker_with(Bounds(body_bytes_max=2048))
    ann, bob = broker.client("ann"), broker.worker("bob").starts()
    ann.asks("echo")
    bob.sends(bob.gets_task().envelope, *rest)
    assert bob.hears_one().kind == "ERROR"
    assert ann.hears_one().fields["outcome"] == "UNKNOWN"
    assert bob.is_in_lru()


# -- workers are lost ---------------------------------------------------------------------------------------------


def test_a_task_of_a_lost_worker_is_unknown(broker: Broker, ann: Client, bob: Worker) -> None:
    carol = broker.worker("carol").starts()
    ann.asks("echo")
    bob.gets_task()
    broker.later(LOST_MS, carol)
    assert ann.hears_outcome() == "UNKNOWN worker_lost"
    assert carol.hears() == [], "at-most-once is given to nobody else"


def test_an_at_least_once_task_of_a_lost_worker_gets_another_attempt(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("again", b"body", message_id="m", timeout_ms=15_000)
    first = bob.gets_task()
    carol = broker.worker("carol", "again").starts()
    broker.later(LOST_MS, carol)
    second = carol.gets_task()
    assert second.body == b"body"
    assert second.fields == first.fields | {"attempt": 2, "timeout_ms": 12_000}
    assert second.envelope != first.envelope
    bob.answers(first, b"from the dead")
    carol.answers(second, b"alive")
    assert ann.hears_one().body == b"alive"
    assert broker.core.counters.attempts_again == 1


def test_a_lost_worker_does_not_inherit_its_own_task(broker: Broker, ann: Client) -> None:
    """It had a slot free, but it is not there any more."""
    bob = broker.worker("bob", "again", slots=2).starts()
    ann.asks("again")
    bob.gets_task()
    broker.later(LOST_MS)
    assert bob.hears() == []
    carol = broker.worker("carol", "again").starts()
    assert carol.gets_task().fields["attempt"] == 2


def test_attempts_end_with_unknown(broker: Broker, ann: Client) -> None:
    ann.asks("again")
    for attempt, name in enumerate(("bob", "carol", "dan"), start=1):
        assert ann.hears() == []
        worker = broker.worker(name, "again").starts()
        assert worker.gets_task().fields["attempt"] == attempt
        broker.later(LOST_MS)
    assert ann.hears_outcome() == "UNKNOWN worker_lost"
    assert broker.worker("eve", "again").starts().hears() == []


def test_a_started_task_that_waits_in_vain_for_its_second_worker_is_not_called_rejected(
    broker: Broker, ann: Client, bob: Worker
) -> None:
    ann.asks("again", timeout_ms=5000)
    bob.gets_task()
    broker.later(LOST_MS)
    assert ann.hears() == []
    broker.later(2020)
    assert ann.hears_one().fields["outcome"] == "UNKNOWN"


def test_a_second_attempt_goes_before_those_who_never_had_one(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("again", b"first")
    bob.gets_task()
    ann.asks("again", b"second")
    broker.later(LOST_MS)
    carol = broker.worker("carol", "again", slots=2).starts()
    assert bodies(carol.hears()) == [b"first", b"second"]


# Not so yet: each lost worker leaves the LRU only when it is its turn.
def test_the_time_that_a_worker_had_a_task_for_is_not_its_age_in_the_backlog(
    broker_with: Callable[..., Broker],
) -> None:
    policy = ServicePolicy(delivery="at_least_once", timeout_ms=60_000, backlog_age_ms=10_000)
    broker = broker_with(long=policy)
    ann, bob = broker.client("ann"), broker.worker("bob", "long").starts()
    ann.asks("long", b"body")
    bob.gets_task()
    broker.later(15_000, bob)
    broker.later(4_000)
    assert ann.hears() == [], "it waits for another worker"
    carol = broker.worker("carol", "long")
    carol.connects()
    carol.says("PING")
    assert [heard.fields["attempt"] for heard in carol.hears() if heard.kind == "TASK"] == [2]


def test_workers_that_are_lost_together_do_not_inherit_from_each_other(
    broker: Broker, ann: Client, bob: Worker
) -> None:
    """Else a task could use up its attempts in one instant, on workers that were all dead."""
    carol = broker.worker("carol", "again").starts()
    ann.asks("again")
    bob.gets_task()
    broker.later(LOST_MS)
    assert carol.hears() == []
    dan = broker.worker("dan", "again").starts()
    assert dan.gets_task().fields["attempt"] == 2


@pytest.mark.parametrize("service", ["echo", "again"])
def test_a_refused_send_takes_the_next_slot_and_was_no_attempt(
    broker: Broker, ann: Client, bob: Worker, service: str
) -> None:
    carol = broker.worker("carol", "echo", "again").starts()
    bob.gone = True
    ann.asks(service, b"body")
    task = carol.gets_task()
    assert task.body == b"body"
    assert task.fields["attempt"] == 1
    assert not bob.is_in_lru()
    carol.answers(task)
    assert ann.hears_outcome() == "OK"
    assert broker.core.counters.refused_by_worker == 1
    assert broker.core.outcomes.open_bytes == 0


def test_a_refused_send_waits_in_front_if_no_slot_is_free(broker: Broker, ann: Client, bob: Worker) -> None:
    bob.gone = True
    ann.asks("echo", b"first")
    ann.asks("echo", b"second")
    assert ann.hears() == []
    carol = broker.worker("carol", slots=2).starts()
    assert bodies(carol.hears()) == [b"first", b"second"]


def test_a_refused_send_that_finds_no_room_is_rejected_since_it_never_left(broker: Broker, ann: Client) -> None:
    bob = broker.worker("bob").starts()
    bob.gone = True
    broker.routers_answer = False
    for number in range(5):
        ann.asks("echo", b"%d" % number)
    broker.decide()
    outcomes = [(heard.fields["outcome"], heard.code) for heard in ann.hears()]
    assert outcomes == [("REJECTED", "overload")] * 2


def test_when_many_are_unreachable_at_once_a_task_skips_them_all(broker: Broker, ann: Client) -> None:
    dead = [broker.worker(name).starts() for name in ("a", "b", "c")]
    alive = broker.worker("alive").starts()
    for worker in dead:
        worker.gone = True
    ann.asks("echo", b"x")
    assert alive.gets_task().fields["attempt"] == 1
    assert ann.hears() == []


def test_tasks_of_unreachable_workers_are_not_passed_on_to_each_other(broker: Broker, ann: Client) -> None:
    workers = [broker.worker(name, slots=4).starts() for name in ("dead", "gone", "alive")]
    for worker in workers[:2]:
        worker.gone = True
    broker.routers_answer = False
    for number in range(3):
        ann.asks("echo", b"%d" % number)
    broker.decide()
    assert sorted(bodies(workers[2].hears())) == [b"0", b"1", b"2"]
    assert ann.hears() == []


def test_a_pong_that_is_refused_ends_the_session_and_its_tasks(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo")
    bob.gets_task()
    bob.gone = True
    bob.says("PING")
    assert ann.hears_outcome() == "UNKNOWN worker_lost", "the task had left before: it may have run"


def test_a_client_that_has_gone_is_counted_and_its_task_still_ends(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo")
    ann.gone = True
    bob.answers(bob.gets_task())
    assert broker.core.counters.refused_by_client == 1
    assert broker.core.outcomes.open_tasks == 0
    assert bob.is_in_lru()
