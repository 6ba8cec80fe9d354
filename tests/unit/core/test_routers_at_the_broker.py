"""Routers are lost, slow, or talk nonsense; the broker drains, and is stopped for a while itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.dispatch.questions import OFFERS_MAX, ROUTER_SILENCE_NS
from famulus.wire import headers, inner

if TYPE_CHECKING:
    from tests.unit.core.conftest import Broker, Client, Worker

LOST_MS = 3000


@pytest.fixture
def ann(broker: Broker) -> Client:
    return broker.client("ann")


@pytest.fixture
def bob(broker: Broker) -> Worker:
    return broker.worker("bob").starts()


# -- routers ------------------------------------------------------------------------------------------------------


def test_messages_wait_for_the_first_router(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with()
    broker.lose_router(b"router")
    ann, bob = broker.client("ann"), broker.worker("bob")
    bob.connects()
    ann.asks("echo", b"early")
    assert ann.hears() == bob.hears() == []
    broker.router(b"another")
    assert bob.hears_kinds() == ["CONFIG"]
    bob.says("PING")
    assert bob.hears()[1].body == b"early"


def test_what_a_lost_router_was_asked_another_is_asked(broker: Broker, ann: Client, bob: Worker) -> None:
    broker.routers_answer = False
    ann.asks("echo", b"body")
    broker.router(b"second")
    broker.lose_router(b"router")
    assert [router for router, _ in broker.asked] == [b"second"]
    assert broker.core.counters.asked_again == 1
    broker.decide()
    bob_task = bob.gets_task()
    assert bob_task.body == b"body"
    assert bob_task.fields["attempt"] == 1


def test_an_answer_that_a_lost_router_was_reading_is_read_by_another(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo")
    task = bob.gets_task()
    broker.routers_answer = False
    bob.answers(task, b"done")
    broker.lose_router(b"router")
    broker.router(b"second")
    broker.decide()
    assert ann.hears_one().body == b"done"


def test_the_first_decision_counts_and_the_second_is_dropped(broker: Broker, ann: Client, bob: Worker) -> None:
    """A router that was taken for lost and was only slow."""
    broker.routers_answer = False
    ann.asks("echo", b"once")
    ((_, slow),) = broker.decisions()
    broker.router(b"second")
    broker.lose_router(b"router")
    broker.decide()
    broker.hear(b"router", slow)
    assert bob.gets_task().body == b"once"
    assert broker.core.counters.stale_decisions == 1
    assert broker.core.counters.accepted == 1


def test_a_slow_router_may_still_decide_what_nobody_else_was_asked(broker: Broker, ann: Client, bob: Worker) -> None:
    broker.routers_answer = False
    ann.asks("echo", b"once")
    ((_, slow),) = broker.decisions()
    broker.lose_router(b"router")
    broker.hear(b"router", slow)
    assert bob.gets_task().body == b"once"
    broker.router(b"second")
    assert broker.asked == [], "it is decided, so the new router is not asked"
    assert len(broker.core.questions) == 0
    assert broker.core.questions.held_bytes == 0


def test_a_router_that_is_silent_while_it_owes_answers_is_lost(broker: Broker, ann: Client, bob: Worker) -> None:
    broker.routers_answer = False
    ann.asks("echo")
    broker.router(b"second")
    broker.asked.clear()
    assert broker.core.next_due_ns <= broker.now_ns + ROUTER_SILENCE_NS
    broker.later(ROUTER_SILENCE_NS // NS_PER_MS - 1)
    assert broker.core.questions.routers == [b"router", b"second"]
    broker.core.on_announcements([inner.write_announcement(inner.ROUTER_ALIVE, 0, b"second")])
    broker.later(1)
    assert broker.core.questions.routers == [b"second"]
    broker.decide()
    bob.gets_task()


@pytest.mark.parametrize(
    "nonsense", [[], [bytes(8)], [bytes(8), b"?"], [bytes(8), inner.PONG], [bytes(8), inner.PONG, b""]]
)
def test_a_router_that_talks_nonsense_is_not_asked_any_more(
    broker: Broker, ann: Client, bob: Worker, nonsense: list[bytes]
) -> None:
    broker.routers_answer = False
    ann.asks("echo")
    broker.router(b"second")
    broker.hear(b"router", nonsense)
    assert broker.core.questions.routers == [b"second"]
    broker.asked = [(router, question) for router, question in broker.asked if router == b"second"]
    broker.decide()
    bob.gets_task()


@pytest.mark.parametrize(
    "decision",
    [
        [inner.ACCEPT, b"echo", b"short", b"{", b"{", b'"id"', b""],
        [inner.ACCEPT, b"echo", inner.write_terms(inner.Terms(1, 5, False, 1, 1, 1, 1)), b"{", b"{", b'"id"', b"odd"],
        [inner.ANSWER, inner.OUTCOME_OK, inner.TAIL_OK],
        [inner.CONNECT, b"w", b"xx", b"", b"{}", b""],
        [inner.PONG, b"{}", b""],
        [inner.DISCONNECT, b"{}"],
    ],
)
def test_a_router_whose_decision_does_not_fit_the_question_is_not_asked_any_more(
    broker: Broker, ann: Client, bob: Worker, decision: list[bytes]
) -> None:
    broker.routers_answer = False
    ann.asks("echo")
    ((_, (number, *_)),) = broker.asked
    broker.router(b"second")
    broker.hear(b"router", [number, *decision])
    assert broker.core.questions.routers == [b"second"]
    broker.asked = [(router, question) for router, question in broker.asked if router == b"second"]
    broker.decide()
    bob.gets_task()
    assert ann.hears() == []


def test_a_repeated_connect_that_is_decided_after_the_ping_does_not_end_the_session(
    broker: Broker, ann: Client
) -> None:
    bob = broker.worker("bob")
    bob.connects()
    broker.routers_answer = False
    bob.connects()
    broker.later(1)
    bob.says("PING")
    (late, ping) = broker.asked
    broker.asked = [ping]
    broker.decide()
    broker.routers_answer = True
    ann.asks("echo")
    assert bob.hears_kinds() == ["CONFIG", "PONG", "TASK"]
    broker.asked = [late]
    broker.decide()
    assert bob.hears_kinds() == ["CONFIG"]
    assert ann.hears() == [], "its task goes on"


def test_routers_that_were_gone_before_they_were_asked_do_not_make_a_header_poison(
    broker: Broker, ann: Client, bob: Worker
) -> None:
    broker.routers_answer = False
    ann.asks("echo")
    for number in range(2 * OFFERS_MAX):
        ((gone, question),) = broker.asked
        broker.asked.clear()
        broker.router(b"next-%d" % number)
        broker.core.on_refused_router(gone, [question])
        broker.settle()
    broker.decide()
    bob.gets_task()


def test_a_header_that_three_routers_died_of_is_given_up(broker: Broker, ann: Client) -> None:
    broker.routers_answer = False
    ann.asks("echo", envelope=b"e")
    for number in range(OFFERS_MAX):
        assert ann.hears() == []
        dying = broker.core.questions.routers[0]
        broker.router(b"next-%d" % number)
        broker.lose_router(dying)
    answer = ann.hears_one()
    assert (answer.kind, answer.code, answer.envelope) == ("ERROR", "bad_header", b"e")
    assert broker.asked == []
    assert len(broker.core.questions) == 0


def test_a_task_whose_answer_is_poison_is_unknown(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo")
    task = bob.gets_task()
    broker.routers_answer = False
    bob.answers(task, remark="not plain, so that a router has to read it")
    for number in range(OFFERS_MAX):
        dying = broker.core.questions.routers[0]
        broker.router(b"next-%d" % number)
        broker.lose_router(dying)
    assert ann.hears_outcome() == "UNKNOWN bad_header"
    assert bob.is_in_lru()


def test_the_least_burdened_router_is_asked(broker: Broker, ann: Client) -> None:
    broker.routers_answer = False
    broker.router(b"second")
    for _ in range(6):
        ann.asks("echo")
    asked = [router for router, _ in broker.asked]
    assert sorted(asked) == [b"router"] * 3 + [b"second"] * 3


def reads(broker: Broker) -> tuple[bool, bool]:
    """Whether clients are read, and whether workers are."""
    return broker.core.questions.has_room_for_clients, broker.core.questions.has_room_for_workers


def test_clients_are_not_read_while_routers_are_behind_but_workers_are(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(Bounds(questions_max=2))
    ann = broker.client("ann")
    broker.routers_answer = False
    expected = [(True, True), (False, True), (False, True), (False, False)]
    for clients_and_workers in expected:
        ann.asks("echo")
        assert reads(broker) == clients_and_workers
    broker.decide()
    assert reads(broker) == (True, True)


def test_bytes_are_counted_too_while_routers_are_behind(broker_with: Callable[..., Broker]) -> None:
    header_bytes = len(headers.write("TASK", "REQUEST", service="echo"))
    broker = broker_with(Bounds(questions_bytes_max=1024))
    ann = broker.client("ann")
    broker.routers_answer = False
    for size, clients_and_workers in ((1023, (True, True)), (1, (False, True)), (1024, (False, False))):
        ann.asks("echo", b"x" * max(0, size - header_bytes))
        assert reads(broker) == clients_and_workers


# -- the broker stops ---------------------------------------------------------------------------------------------


def test_a_draining_broker_finishes_what_it_has_and_takes_nothing_new(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"running")
    ann.asks("echo", b"waiting")
    task = bob.gets_task()
    broker.core.drain(10 * NS_PER_S)
    assert not broker.core.drained()

    ann.asks("echo", envelope=b"new")
    refused = ann.hears_one()
    assert (refused.envelope, refused.fields["outcome"], refused.code) == (b"new", "REJECTED", "disabled")
    carol = broker.worker("carol")
    carol.connects()
    assert carol.hears_one().code == "disabled"

    bob.answers(task)
    bob.answers(bob.gets_task())
    assert [heard.fields["outcome"] for heard in ann.hears()] == ["OK", "OK"]
    assert broker.core.drained()


def test_when_the_time_to_drain_is_up_everything_ends(broker: Broker, ann: Client, bob: Worker) -> None:
    for name in (b"running", b"waiting"):
        ann.asks("echo", name, envelope=name)
    bob.gets_task()
    broker.core.drain(1 * NS_PER_S)
    assert broker.core.next_due_ns <= broker.now_ns + NS_PER_S
    broker.later(1000, bob)
    ended = {heard.envelope: (heard.fields["outcome"], heard.code) for heard in ann.hears()}
    assert ended == {b"waiting": ("REJECTED", "disabled"), b"running": ("UNKNOWN", "broker_lost")}
    assert broker.core.drained()


def test_a_question_under_way_is_answered_before_the_broker_is_drained(broker: Broker, ann: Client) -> None:
    broker.routers_answer = False
    ann.asks("echo")
    broker.core.drain(NS_PER_S)
    assert not broker.core.drained()
    broker.decide()
    assert ann.hears_outcome() == "REJECTED disabled"
    assert broker.core.drained()


def test_a_drained_broker_ends_when_all_that_it_read_is_answered(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo")
    task = bob.gets_task()
    broker.core.drain(10 * NS_PER_S)
    assert not broker.core.drained()
    ann.asks("echo")
    assert ann.hears_outcome() == "REJECTED disabled"
    assert not broker.core.drained()
    bob.answers(task)
    assert broker.core.drained()


# -- the broker was asleep ----------------------------------------------------------------------------------------


def test_a_drain_ends_in_time_even_if_no_router_is_left_to_decide(broker: Broker, ann: Client) -> None:
    broker.routers_answer = False
    ann.asks("echo")
    broker.lose_router(b"router")
    broker.core.drain(2 * NS_PER_S)
    broker.later(1000)
    assert not broker.core.drained()
    broker.later(1000)
    assert broker.core.drained()


def test_a_silence_that_the_broker_could_not_have_heard_is_forgiven(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", timeout_ms=20_000)
    task = bob.gets_task()
    broker.now_ns += 10 * NS_PER_S
    broker.core.on_pause(10 * NS_PER_S)
    broker.core.on_tick()
    broker.settle()
    assert broker.core.questions.routers == [b"router"]
    bob.answers(task)
    assert ann.hears_outcome() == "OK"
    broker.later(LOST_MS - 1)
    assert bob.is_in_lru()
    broker.later(1)
    assert not bob.is_in_lru(), "from then on silence counts again"


def test_without_forgiveness_the_same_silence_is_a_loss(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", timeout_ms=20_000)
    bob.gets_task()
    broker.now_ns += 10 * NS_PER_S
    broker.core.on_tick()
    broker.settle()
    assert ann.hears_outcome() == "UNKNOWN worker_lost"


def test_a_deadline_is_not_forgiven(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", timeout_ms=5000)
    bob.gets_task()
    broker.now_ns += 10 * NS_PER_S
    broker.core.on_pause(10 * NS_PER_S)
    broker.core.on_tick()
    broker.settle()
    assert ann.hears_outcome() == "UNKNOWN expired"


def test_after_a_crash_tasks_wait_for_the_workers_to_come_back(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with()
    broker.core = Dispatcher(Bounds(), 0, [], settled_at_ns=broker.now_ns + 3 * NS_PER_S)
    broker.router()
    ann = broker.client("ann")
    ann.asks("echo", b"early")
    ann.asks("gone", b"never")
    broker.later(1000)
    assert ann.hears() == []
    bob = broker.worker("bob", slots=2)
    bob.connects()
    bob.says("PING")
    assert [heard.body for heard in bob.hears() if heard.kind == "TASK"] == [b"early"]
    broker.later(2100, bob)
    assert ann.hears_outcome() == "REJECTED no_service"
    ann.asks("gone")
    assert ann.hears_outcome() == "REJECTED no_service", "and from now on at once"


def test_a_broker_with_nothing_to_do_has_no_deadline(broker: Broker) -> None:
    assert broker.core.next_due_ns == NEVER_NS
