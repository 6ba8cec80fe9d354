"""Who asks very much at once keeps nobody else waiting: routers are asked by everybody in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from famulus.core.dispatch.accounts import Account
from famulus.core.dispatch.questions import ASKED_MAX, Question, Turns
from famulus.wire import inner

if TYPE_CHECKING:
    from tests.unit.core.conftest import Broker, Client, Worker


@pytest.fixture
def ann(broker: Broker) -> Client:
    return broker.client("ann")


@pytest.fixture
def bob(broker: Broker) -> Worker:
    return broker.worker("bob", slots=9).starts()


def flood(broker: Broker, messages: int = 5 * ASKED_MAX) -> Client:
    """Somebody whose headers no router has seen before, and all routers slow."""
    broker.routers_answer = False
    greedy = broker.client("greedy")
    for number in range(messages):
        greedy.asks("nobody", envelope=b"%d" % number, note=number)
    return greedy


def test_a_router_is_asked_only_so_much_at_a_time(broker: Broker) -> None:
    greedy = flood(broker)
    assert len(broker.asked) == ASKED_MAX
    assert len(broker.core.questions) == 5 * ASKED_MAX
    broker.decide()
    assert len(broker.asked) == ASKED_MAX
    for _ in range(4):
        broker.decide()
    assert [int(heard.envelope) for heard in greedy.hears()] == list(range(5 * ASKED_MAX)), "all, and in order"
    assert len(broker.core.questions) == broker.core.questions.held_bytes == 0


def test_another_client_waits_for_no_more_than_what_routers_have_already(
    broker: Broker, ann: Client, bob: Worker
) -> None:
    flood(broker)
    ann.asks("echo", b"first", message_id="1")
    ann.asks("echo", b"second", message_id="2")
    broker.decide()
    broker.decide()
    assert [heard.body for heard in bob.hears()] == [b"first", b"second"]


def test_a_worker_waits_for_no_more_however_many_clients_there_are(broker: Broker, bob: Worker) -> None:
    flood(broker, ASKED_MAX)
    for number in range(1000):
        broker.client(f"c{number}").asks("nobody", note=number)
    bob.says("CHECKCONFIG", **bob.who)
    broker.decide()
    broker.decide()
    assert bob.hears_kinds() == ["CONFIG"]


def test_what_a_lost_router_was_asked_is_asked_again_in_turn(broker: Broker, ann: Client, bob: Worker) -> None:
    greedy = flood(broker)
    ann.asks("echo", b"task", message_id="1")
    broker.lose_router(b"router")
    assert broker.asked == []
    broker.router(b"second")
    broker.decide()
    assert bob.gets_task().body == b"task"
    broker.routers_answer = True
    broker.decide()
    assert len(greedy.hears()) == 5 * ASKED_MAX
    assert len(broker.core.questions) == broker.core.questions.held_bytes == 0


def test_a_second_router_shares_what_waits(broker: Broker) -> None:
    flood(broker)
    broker.router(b"second")
    assert len(broker.asked) == 2 * ASKED_MAX
    assert {router for router, _ in broker.asked} == {b"router", b"second"}


def test_askers_and_doors_take_turns_and_each_keeps_its_order() -> None:
    turns = Turns()

    def add(origin: bytes, asker: bytes, *headers: bytes) -> None:
        for header in headers:
            turns.add(Question(Account(b""), origin, asker, b"", header, b"", 0))

    add(inner.FROM_CLIENT, b"greedy", b"g1", b"g2", b"g3", b"g4")
    add(inner.FROM_CLIENT, b"ann", b"a1")
    add(inner.FROM_STRANGER, b"stranger", b"s1", b"s2")
    add(inner.FROM_WORKER, b"bob", b"b1", b"b2")
    add(inner.FROM_WORKER_ANSWER, b"eve", b"e1")
    taken = [turns.take().header for _ in range(10)]
    assert taken[:6:2] == [b"g1", b"a1", b"s1"]
    assert taken[1:6:2] == [b"b1", b"e1", b"b2"]
    assert taken[6:] == [b"g2", b"s2", b"g3", b"g4"]
    assert not turns


# -- heartbeats ---------------------------------------------------------------------------------------------------


def test_a_ping_that_was_answered_before_is_answered_without_a_router(broker: Broker, bob: Worker) -> None:
    flood(broker)
    bob.says("PING", envelope=b"e")
    pong = bob.hears_one()
    assert (pong.kind, pong.envelope, pong.body) == ("PONG", b"e", b"")
    assert pong.fields["digest"] == broker.book.digest()


def test_the_first_ping_of_a_worker_makes_it_ready_without_a_router_too(broker: Broker, ann: Client) -> None:
    broker.worker("eve").starts()
    bob = broker.worker("bob")
    bob.connects()
    bob.hears()
    broker.routers_answer = False
    assert not bob.is_in_lru()
    bob.says("PING")
    assert bob.hears_kinds() == ["PONG"]
    assert bob.is_in_lru()


def test_a_stranger_who_pings_is_still_told_to_connect(broker: Broker, bob: Worker) -> None:
    stranger = broker.worker("stranger")
    stranger.says("PING")
    assert stranger.hears_one().code == "not_connected"


def test_another_config_means_another_pong(broker: Broker, bob: Worker) -> None:
    broker.routers_answer = False
    broker.core.on_announcements([inner.write_announcement(inner.CONFIG, 2, b"")])
    bob.says("PING")
    assert bob.hears() == [], "what a router said under the former one is void"
    broker.decide()
    assert bob.hears_kinds() == ["PONG"]
    bob.says("PING")
    assert bob.hears() == [], "and one that has not heard of the new one yet is not believed for long"


def test_pings_in_very_many_ways_are_not_all_remembered(broker: Broker, bob: Worker) -> None:
    for number in range(1000):
        bob.says("PING", note=number)
    bob.says("PING", note="x" * 2000)
    assert len(bob.hears()) == 1001
    assert len(broker.core.flows.pongs) == 64
