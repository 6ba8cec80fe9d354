"""The inner protocol: what is packed is unpacked again, and routers say what the table of decisions promises."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from famulus.core.delivery import ServicePolicy
from famulus.core.routing.book import Book, BrokerAddress
from famulus.core.routing.router import Router, _client_head
from famulus.errors import ProtocolError
from famulus.wire import headers, inner, limits, reasons

NUMBER = b"\x00\x00\x00\x00\x00\x00\x00\x07"

terms = st.builds(
    inner.Terms,
    timeout_ms=st.integers(1, limits.TIMEOUT_MS_MAX),
    priority=st.integers(0, limits.PRIORITY_MAX),
    at_least_once=st.booleans(),
    attempts_max=st.integers(1, limits.ATTEMPTS_MAX),
    backlog_tasks_max=st.integers(0, 10_000_000),
    backlog_bytes_max=st.integers(0, 1 << 40),
    backlog_age_ms=st.integers(1, limits.TIMEOUT_MS_MAX),
    policy=st.integers(0, len(inner.POLICIES) - 1),
    results_max=st.integers(0, 100_000_000),
    results_bytes_max=st.integers(0, 1 << 40),
    results_age_ms=st.integers(1, limits.TIMEOUT_MS_MAX),
    abandoned_is_cancelled=st.booleans(),
    credit=st.integers(0, limits.CREDIT_MAX),
    delay_ms=st.integers(0, limits.DELAY_MS_MAX),
)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=limits.NAME_CHARS_MAX)


@given(terms)
def test_terms_come_back(packed: inner.Terms) -> None:
    again = inner.read_terms(inner.write_terms(packed))
    assert again == packed
    assert type(again.at_least_once) is type(again.abandoned_is_cancelled) is bool


@given(terms, st.integers(1, limits.DELAY_MS_MAX))
def test_terms_get_a_delay_without_being_read(packed: inner.Terms, delay_ms: int) -> None:
    delayed = inner.with_delay(inner.write_terms(packed), delay_ms)
    assert inner.read_terms(delayed) == packed._replace(delay_ms=delay_ms)


def test_terms_with_a_policy_that_nobody_knows_are_refused() -> None:
    packed = inner.write_terms(inner.Terms(1, 1, False, 1, 1, 1, 1, len(inner.POLICIES)))
    with pytest.raises(ProtocolError, match="there is no policy 4"):
        inner.read_terms(packed)


def test_the_widest_policy_that_settings_allow_fits_into_terms() -> None:
    policy = ServicePolicy(
        timeout_ms=limits.TIMEOUT_MS_MAX,
        max_attempts=limits.ATTEMPTS_MAX,
        backlog_tasks_max=10_000_000,
        backlog_bytes_max=1 << 40,
        backlog_age_ms=limits.TIMEOUT_MS_MAX,
        results_max=100_000_000,
        results_bytes_max=1 << 40,
        results_age_ms=limits.TIMEOUT_MS_MAX,
    )
    widest = policy.terms(2**53, limits.PRIORITY_MAX)
    assert inner.read_terms(inner.write_terms(widest)) == widest


@given(st.integers(1, limits.SLOTS_MAX), st.integers(1, limits.HEARTBEAT_MS_MAX))
def test_session_terms_come_back(slots: int, heartbeat_ms: int) -> None:
    packed = inner.SessionTerms(slots, heartbeat_ms)
    assert inner.read_session_terms(inner.write_session_terms(packed)) == packed


@given(st.lists(names, max_size=20))
def test_names_come_back_in_order(packed: list[str]) -> None:
    assert inner.read_names(inner.write_names(packed)) == [name.encode() for name in packed]


def test_as_many_names_of_the_longest_kind_as_a_worker_may_have_come_back() -> None:
    longest = ["\U0001f600" * limits.NAME_CHARS_MAX] * limits.SERVICES_PER_WORKER_MAX
    assert len(inner.read_names(inner.write_names(longest))) == limits.SERVICES_PER_WORKER_MAX


def test_an_announcement_has_its_three_frames() -> None:
    assert inner.write_announcement(inner.ROUTER_GONE, 7, b"r1") == [b"gone", NUMBER, b"r1"]


@given(st.lists(st.lists(st.binary(max_size=300), max_size=8), max_size=8))
def test_a_batch_comes_back_in_one_frame(batch: list[list[bytes]]) -> None:
    assert inner.read_batch(inner.write_batch(batch)) == batch


@pytest.mark.parametrize("frame", [b"", b"\x93", b"\xc0", b"\x91\x91\x01", b"\x91\xc4\x00", b"\x90\x90", b"\xff" * 100])
def test_what_is_no_batch_is_a_protocol_error(frame: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        inner.read_batch(frame)
    assert caught.value.code == reasons.BAD_FRAMES


# -- tails --------------------------------------------------------------------------------------------------------

TAILS = {name: value for name, value in vars(inner).items() if name.startswith(("REJECTED_", "UNKNOWN_", "TAIL_OK"))}


def test_there_are_tails_to_look_at() -> None:
    assert {"TAIL_OK", "REJECTED_OVERLOAD", "UNKNOWN_WORKER_LOST"} <= set(TAILS)


@pytest.mark.parametrize("name", TAILS)
def test_a_tail_behind_a_prefix_is_a_strict_header(name: str) -> None:
    header = b'{"request":"TASK","type":"RESPONSE","service":"echo","message_id":"m-1"' + TAILS[name]
    answer = headers.read(header)
    assert isinstance(answer, headers.TaskResponse)
    assert answer.outcome == name.partition("_")[0].replace("TAIL", "OK")
    assert (answer.reason == "") == (answer.outcome == "OK")
    codes = {value for key, value in vars(reasons).items() if key.isupper()}
    assert not answer.reason or reasons.code_of(answer.reason) in codes


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_reason_may_hold_anything(reason: str) -> None:
    assert json.loads(b'{"a":1' + inner.tail("ERROR", reason)) == {"a": 1, "outcome": "ERROR", "reason": reason}


# -- decisions ----------------------------------------------------------------------------------------------------

BOOK = Book(BrokerAddress("b1", "family", "tcp://here:7100", "tcp://here:7101"), heartbeat_ms=1000)
TASK = headers.write("TASK", "REQUEST", service="echo")
CONNECT = headers.write("CONNECT", "REQUEST", identity="w", services=["echo"])
PING = headers.write("PING", "REQUEST")
NEED = headers.write("NEEDBROKER", "REQUEST", services=["echo"])
CHECK = headers.write("CHECKCONFIG", "REQUEST", identity="w", services=["echo"])
BYE = headers.write("DISCONNECT", "REQUEST")
ANSWER = headers.write("TASK", "RESPONSE", message_id="m-1", service="echo")
MANAGE = headers.write("MANAGE", "REQUEST", username="ada", command="show")
STOPPED = headers.write("TASK", "RESPONSE", outcome="UNKNOWN", reason="cancelled: it was stopped")

#: What a router makes of each message at each door; anything that is not here is a FAULT.
DECISIONS = {
    (inner.FROM_CLIENT, TASK): inner.ACCEPT,
    (inner.FROM_CLIENT, NEED): inner.REPLY,
    (inner.FROM_CLIENT, MANAGE): inner.MANAGE,
    (inner.FROM_CLIENT, headers.CANCEL): inner.CANCEL,
    (inner.FROM_WORKER_ANSWER, STOPPED): inner.ANSWER,
    (inner.FROM_DELEGATE, STOPPED): inner.ANSWER,
    (inner.FROM_WORKER, STOPPED): inner.LATE,
    (inner.FROM_STRANGER, STOPPED): inner.LATE,
    (inner.FROM_DELEGATE, ANSWER): inner.ANSWER,
    (inner.FROM_WORKER_ANSWER, ANSWER): inner.ANSWER,
    (inner.FROM_WORKER, ANSWER): inner.LATE,
    (inner.FROM_WORKER, PING): inner.PONG,
    (inner.FROM_WORKER, CONNECT): inner.CONNECT,
    (inner.FROM_WORKER, CHECK): inner.REPLY,
    (inner.FROM_WORKER, NEED): inner.REPLY,
    (inner.FROM_WORKER, BYE): inner.DISCONNECT,
    (inner.FROM_STRANGER, ANSWER): inner.LATE,
    (inner.FROM_STRANGER, PING): inner.REPLY,
    (inner.FROM_STRANGER, CONNECT): inner.CONNECT,
    (inner.FROM_STRANGER, CHECK): inner.REPLY,
    (inner.FROM_STRANGER, NEED): inner.REPLY,
    (inner.FROM_STRANGER, BYE): inner.DISCONNECT,
}


@pytest.fixture
def router() -> Router:
    return Router(BOOK, lambda: "made")


@pytest.mark.parametrize(
    "origin",
    [inner.FROM_CLIENT, inner.FROM_WORKER, inner.FROM_WORKER_ANSWER, inner.FROM_STRANGER, inner.FROM_DELEGATE],
)
@pytest.mark.parametrize(
    "header", [TASK, CONNECT, PING, NEED, CHECK, BYE, ANSWER, STOPPED, MANAGE, headers.CANCEL, b"rubbish"]
)
def test_a_router_decides_by_the_table_and_in_its_parts(router: Router, origin: bytes, header: bytes) -> None:
    (decision,) = router.decide([[NUMBER, origin, b"", header]])
    assert decision[0] == NUMBER
    assert decision[1] == DECISIONS.get((origin, header), inner.FAULT)
    assert len(decision) == inner.DECISION_PARTS[decision[1]]
    assert all(type(part) is bytes for part in decision)


def test_the_table_has_every_verb() -> None:
    # Those without rights are refused: see test_principals_at_the_broker.
    assert {*DECISIONS.values(), inner.HELLO, inner.FAULT, inner.REFUSE} == set(inner.DECISION_PARTS)


def test_a_fault_says_why_in_a_header(router: Router) -> None:
    (decision,) = router.decide([[NUMBER, inner.FROM_CLIENT, b"", PING]])
    error = headers.read(decision[2])
    assert isinstance(error, headers.ErrorResponse)
    assert reasons.code_of(error.reason) == reasons.UNKNOWN_REQUEST


def test_heads_become_headers_with_what_the_dispatcher_adds(router: Router) -> None:
    asked = headers.write("TASK", "REQUEST", service='a"b', message_id="m", timeout_ms=5, attempt=7, note={"x": [1]})
    (decision,) = router.decide([[NUMBER, inner.FROM_CLIENT, b"", asked]])
    _, _, service, packed, to_worker, to_client, message_id, epoch, visited, token, passed_for, mark = decision
    assert inner.read_epoch(epoch) == 1
    assert visited == token == passed_for == mark == b""
    assert service == b'a"b'
    assert inner.read_terms(packed).timeout_ms == 5
    assert json.loads(to_worker + message_id + b',"attempt":1,"timeout_ms":4}') == {
        "request": "TASK",
        "type": "REQUEST",
        "service": 'a"b',
        "message_id": "m",
        "note": {"x": [1]},
        "attempt": 1,
        "timeout_ms": 4,
    }
    assert json.loads(to_client + message_id + inner.TAIL_OK) == {
        "request": "TASK",
        "type": "RESPONSE",
        "service": 'a"b',
        "message_id": "m",
        "outcome": "OK",
    }


def test_a_router_remembers_within_bounds_and_decides_the_same_after_forgetting(router: Router) -> None:
    def decide(number: int) -> list[bytes]:
        header = headers.write("TASK", "REQUEST", service=f"s{number}", timeout_ms=1 + number)
        (decision,) = router.decide([[NUMBER, inner.FROM_CLIENT, b"", header]])
        return decision

    first = decide(0)
    for number in range(10_000):
        decide(number)
    assert decide(0) == first
    assert router._terms_of.cache_info().currsize <= 4096
    assert _client_head.cache_info().currsize <= 4096
