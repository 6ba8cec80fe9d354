"""Headers that come again: the second time no router is asked, and nobody can tell the difference."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.flows import HEADER_BYTES_MAX, Flow, Flows
from famulus.core.dispatch.service import Service
from famulus.wire import inner

if TYPE_CHECKING:
    from tests.unit.core.conftest import Broker, Client, Worker

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}"


@pytest.fixture
def ann(broker: Broker) -> Client:
    return broker.client("ann")


@pytest.fixture
def bob(broker: Broker) -> Worker:
    return broker.worker("bob").starts()


def flow(name: bytes = b"echo") -> Flow:
    return Flow(Service(name), inner.Terms(1, 5, False, 1, 1, 1, 1), b"{", b"{")


def test_the_second_task_with_a_header_asks_no_router(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"first", traceparent="t", priority=7)
    first = bob.gets_task()
    bob.answers(first, b"one")
    broker.routers_answer = False
    ann.asks("echo", b"second", traceparent="t", priority=7)
    second = bob.gets_task()
    assert second.body == b"second"
    assert second.fields["message_id"] != first.fields["message_id"]
    assert {**second.fields, "message_id": ""} == {**first.fields, "message_id": ""}
    bob.answers(second, b"two")
    answers = ann.hears()
    assert [answer.body for answer in answers] == [b"one", b"two"]
    assert answers[1].fields["message_id"] == second.fields["message_id"]
    assert {**answers[0].fields, "message_id": ""} == {**answers[1].fields, "message_id": ""}
    assert broker.core.counters.by_flow == 1


def test_ids_that_the_dispatcher_makes_are_uuids_and_differ(broker: Broker, ann: Client, bob: Worker) -> None:
    seen = set()
    for _ in range(5):
        ann.asks("echo")
        task = bob.gets_task()
        seen.add(task.fields["message_id"])
        bob.answers(task)
    assert len(seen) == 5
    assert all(re.fullmatch(UUID, message_id) for message_id in seen)


def test_without_a_token_a_header_with_its_own_message_id_is_asked_about_every_time(
    broker: Broker, ann: Client, bob: Worker
) -> None:
    for number in range(2):
        ann.asks("echo", message_id=f"mine-{number}")
        bob.answers(bob.gets_task())
    assert broker.core.counters.by_flow == 0
    assert len(broker.core.flows) == 0


def test_a_service_that_nobody_offers_is_not_remembered(broker: Broker, ann: Client) -> None:
    for _ in range(2):
        ann.asks("nobody")
        assert ann.hears_outcome() == "REJECTED no_service"
    assert len(broker.core.flows) == 0


def test_an_unusual_answer_is_read_by_a_router(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo")
    broker.routers_answer = False
    bob.answers(bob.gets_task(), b"body", remark="unusual")
    assert ann.hears() == []
    broker.decide()
    assert ann.hears_one().fields["remark"] == "unusual"


def test_an_error_is_read_by_a_router(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo")
    bob.answers(bob.gets_task(), outcome="ERROR", reason="ValueError: no")
    assert ann.hears_outcome() == "ERROR ValueError"


def test_an_answer_that_names_another_task_is_not_taken_for_a_plain_one(
    broker: Broker, ann: Client, bob: Worker
) -> None:
    ann.asks("echo")
    task = bob.gets_task()
    broker.routers_answer = False
    task.fields["message_id"] = "another"
    bob.answers(task)
    assert len(broker.asked) == 1, "the bytes differ, so a router has a look"


def test_the_terms_hold_on_the_short_way_too(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", timeout_ms=300)
    bob.answers(bob.gets_task())
    ann.hears()
    ann.asks("echo", timeout_ms=300)
    bob.gets_task()
    ann.asks("echo", timeout_ms=300)
    broker.later(400, bob)
    assert sorted(answer.fields["outcome"] for answer in ann.hears()) == ["REJECTED", "UNKNOWN"]


def test_a_draining_broker_forgets_its_flows(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo")
    bob.answers(bob.gets_task())
    ann.hears()
    broker.core.drain(1)
    ann.asks("echo")
    assert ann.hears_outcome() == "REJECTED disabled"


def test_a_new_epoch_empties_the_table(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo")
    bob.answers(bob.gets_task())
    assert len(broker.core.flows) == 1
    broker.core.on_announcements([inner.write_announcement(inner.ROUTER_ALIVE, 2, b"router")])
    assert len(broker.core.flows) == 0
    ann.asks("echo")
    assert len(broker.core.flows) == 0, "this router still decides by the old configuration"


def test_with_no_room_for_flows_every_message_is_asked_about(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(bounds=Bounds(flows_max=0))
    ann, bob = broker.client("ann"), broker.worker("bob").starts()
    for _ in range(2):
        ann.asks("echo")
        broker.routers_answer = False
        bob.answers(bob.gets_task())
        assert len(broker.asked) == 1, "the answer is asked about, too"
        broker.decide()
        broker.routers_answer = True
    assert broker.core.counters.by_flow == 0


def test_a_full_table_forgets_its_oldest_flow() -> None:
    flows = Flows(flows_max=2)
    table = flows.table(b"")
    for header in (b"a", b"b", b"a", b"c"):
        flows.install(table, header, flows.epoch, flow())
    assert [header for header in (b"a", b"b", b"c") if table.plain.get(header)] == [b"b", b"c"]
    assert len(flows) == 2


# -- ids of the client's own ----------------------------------------------------------------------------------------

TOKEN = "t" * 32


def named(ann: Client, message_id: str, service: str = "echo", **fields: Any) -> None:
    ann.asks(service, message_id=message_id, client_token=TOKEN, **fields)


def test_headers_that_differ_in_their_id_alone_are_known(broker: Broker, ann: Client, bob: Worker) -> None:
    named(ann, "first", remark="hello")
    bob.answers(bob.gets_task())
    first = ann.hears_one()
    broker.routers_answer = False
    for message_id in ("second", "order 7/a:b#1", "x" * 128):
        named(ann, message_id, remark="hello")
        task = bob.gets_task()
        assert (task.fields["message_id"], task.fields["remark"]) == (message_id, "hello")
        assert "client_token" not in task.fields
        bob.answers(task, b"answer")
        heard = ann.hears_one()
        assert (heard.fields, heard.body) == (first.fields | {"message_id": message_id}, b"answer")
    assert broker.asked == []
    assert broker.core.counters.by_flow == 3


def test_a_repeat_by_a_known_flow_runs_nothing(broker: Broker, ann: Client, bob: Worker) -> None:
    named(ann, "first")
    bob.answers(bob.gets_task())
    ann.hears()
    named(ann, "second", envelope=b"1")
    task = bob.gets_task()
    named(ann, "second", envelope=b"2")
    assert bob.hears() == []
    bob.answers(task, b"answer")
    named(ann, "second", envelope=b"3")
    assert [(heard.envelope, heard.body) for heard in ann.hears()] == [
        (b"1", b"answer"),
        (b"2", b"answer"),
        (b"3", b"answer"),
    ]
    assert bob.hears() == []
    counters = broker.core.counters
    assert (counters.repeated, counters.accepted, counters.by_flow) == (2, 2, 1)


def test_a_repeat_is_known_whichever_way_the_first_one_came(broker: Broker, ann: Client, bob: Worker) -> None:
    named(ann, "by a router")
    bob.answers(bob.gets_task())
    named(ann, "by a flow")
    bob.answers(bob.gets_task())
    named(ann, "by a router")
    broker.core.flows.clear()
    named(ann, "by a flow")
    assert bob.hears() == []
    assert [heard.fields["outcome"] for heard in ann.hears()] == ["OK"] * 4


@pytest.mark.parametrize("message_id", ['a"b', "a\\b", "ü", "\t", "", "x" * 129])
def test_an_id_that_is_not_plain_is_for_a_router(broker: Broker, ann: Client, bob: Worker, message_id: str) -> None:
    named(ann, "first")
    bob.gets_task()
    broker.routers_answer = False
    named(ann, message_id)
    assert len(broker.asked) == 1
    broker.decide()
    assert broker.core.counters.by_flow == 0


def test_a_header_without_the_id_is_not_the_same_header(broker: Broker, ann: Client, bob: Worker) -> None:
    named(ann, "first")
    bob.gets_task()
    (rest,) = broker.core.accounts.others.flows.named
    ann.sends(b"", rest, b"")
    assert ann.hears_one().code == "bad_header"
    assert bob.hears() == []


@pytest.mark.parametrize(
    "header",
    [
        b'{"request":"TASK","type":"REQUEST","service":"echo","message_id": "%b","client_token":"t"}',
        b'{"request":"TASK","type":"REQUEST","service":"echo","message\\u005fid":"%b","client_token":"t"}',
        b'{"request":"TASK","type":"REQUEST","service":"echo","headers":{"message_id":"a"},"message_id":"%b",'
        b'"client_token":"t"}',
        b'{"request":"TASK","type":"REQUEST","service":"echo","headers":{"a":"message_id"},"message_id":"%b",'
        b'"client_token":"t"}',
        b'{"request":"TASK","type":"REQUEST","service":"echo","message_id":"%b"}',
    ],
)
def test_where_it_is_not_obvious_whose_or_where_the_id_is_a_router_is_asked(
    broker: Broker, ann: Client, bob: Worker, header: bytes
) -> None:
    for message_id in (b"first", b"second"):
        ann.sends(b"", header % message_id, b"")
        task = bob.gets_task()
        assert task.fields["message_id"] == message_id.decode()
        bob.answers(task)
    assert broker.core.counters.by_flow == 0
    assert not broker.core.accounts.others.flows.named


def test_streams_with_ids_are_for_routers(broker: Broker, ann: Client, bob: Worker) -> None:
    named(ann, "first", credit=5)
    bob.gets_task()
    assert not broker.core.accounts.others.flows.named


def test_long_headers_and_other_epochs_are_not_remembered() -> None:
    flows = Flows(flows_max=2)
    table = flows.table(b"")
    flows.install(table, b"x" * (HEADER_BYTES_MAX + 1), flows.epoch, flow())
    flows.install(table, b"x", flows.epoch + 1, flow())
    assert len(flows) == 0
