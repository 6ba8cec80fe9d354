"""A broker that is not active: routers turn away tasks and workers, and pass on what admins want."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from famulus.core.config.schema import STATES, State
from famulus.core.routing.book import Book, BrokerAddress
from famulus.core.routing.router import Router
from famulus.wire import headers, inner, reasons

NUMBER = b"12345678"
HERE = BrokerAddress("b1", "a", "tcp://b1:7100", "tcp://b1:7101")
THERE = BrokerAddress("b2", "a", "tcp://b2:7100", "tcp://b2:7101")
NOT_ACTIVE = [state for state in STATES if state != "active"]


def decision(state: State, origin: bytes, request: str, kind: str = "REQUEST", **fields: Any) -> list[bytes]:
    book = Book(HERE, 1000, state=state, family=(THERE,), others=(replace(THERE, load=0.25),))
    ((number, *parts),) = Router(book, lambda: "made-here").decide(
        [[NUMBER, origin, b"", headers.write(request, kind, **fields)]]
    )
    assert number == NUMBER
    assert len(parts) == inner.DECISION_PARTS[parts[0]] - 1
    return parts


@pytest.mark.parametrize("state", NOT_ACTIVE)
def test_a_task_is_rejected_with_the_state_as_the_reason(state: State) -> None:
    verb, header, body = decision(state, inner.FROM_CLIENT, "TASK", service="echo")
    assert (verb, body) == (inner.REPLY, b"")
    answer = headers.read(header)
    assert isinstance(answer, headers.TaskResponse)
    assert (answer.outcome, answer.service, answer.message_id) == ("REJECTED", "echo", "made-here")
    assert answer.reason == f"disabled: this broker is {state}"


def test_a_rejected_task_keeps_its_own_id() -> None:
    _, header, _ = decision("disabled", inner.FROM_CLIENT, "TASK", service='e"cho', message_id='m"1')
    answer = headers.read(header)
    assert isinstance(answer, headers.TaskResponse)
    assert (answer.service, answer.message_id) == ('e"cho', 'm"1')


@pytest.mark.parametrize("state", NOT_ACTIVE)
@pytest.mark.parametrize("request_name", ["CONNECT", "PING", "CHECKCONFIG"])
@pytest.mark.parametrize("origin", [inner.FROM_WORKER, inner.FROM_STRANGER])
def test_workers_are_turned_away(state: State, request_name: str, origin: bytes) -> None:
    fields: dict[str, Any] = {} if request_name == "PING" else {"identity": "w1", "services": ["echo"]}
    verb, header, _ = decision(state, origin, request_name, **fields)
    assert verb == inner.REPLY, "nobody has broken the protocol"
    answer = headers.read(header)
    assert isinstance(answer, headers.ErrorResponse)
    assert reasons.code_of(answer.reason) == "disabled"


@pytest.mark.parametrize("state", STATES)
def test_admins_are_passed_on(state: State) -> None:
    assert decision(state, inner.FROM_CLIENT, "MANAGE", username="ann", command="show") == [inner.MANAGE]


@pytest.mark.parametrize("origin", [inner.FROM_WORKER, inner.FROM_STRANGER])
def test_admins_do_not_come_by_the_workers_door(origin: bytes) -> None:
    verb, header = decision("active", origin, "MANAGE", username="ann", command="show")
    assert verb == inner.FAULT
    assert b"unknown_request" in header


@pytest.mark.parametrize("state", STATES)
def test_answers_to_tasks_are_always_taken(state: State) -> None:
    """What is running may finish."""
    fields: dict[str, Any] = {"service": "echo", "message_id": "m"}
    assert decision(state, inner.FROM_WORKER_ANSWER, "TASK", "RESPONSE", **fields)[:2] == [
        inner.ANSWER,
        inner.OUTCOME_OK,
    ]
    assert decision(state, inner.FROM_WORKER, "TASK", "RESPONSE", **fields)[0] == inner.LATE


@pytest.mark.parametrize("state", STATES)
def test_who_leaves_may_leave(state: State) -> None:
    assert decision(state, inner.FROM_WORKER, "DISCONNECT")[0] == inner.DISCONNECT


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("origin", [inner.FROM_CLIENT, inner.FROM_WORKER, inner.FROM_STRANGER])
def test_who_asks_for_a_broker_is_told_of_others(state: State, origin: bytes) -> None:
    verb, _, body = decision(state, origin, "NEEDBROKER", services=["echo"])
    assert verb == inner.REPLY
    named = [broker["identity"] for broker in json.loads(body)["brokers"]]
    assert named == (["b1", "b2"] if state == "active" else ["b2"])


def test_what_breaks_the_protocol_is_a_fault_in_any_state() -> None:
    for state in STATES:
        verb, header = decision(state, inner.FROM_CLIENT, "TASK", service="")
        assert (verb, b"bad_header" in header) == (inner.FAULT, True)
