"""A client's side: what was never sent is safe to try again, what was sent may have run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.session.client import GRACE_NS, ClientSession, Done
from famulus.core.timers import TICK_NS
from famulus.wire import headers, reasons

START_NS = 1000 * NS_PER_S


@pytest.fixture
def session() -> ClientSession:
    return ClientSession(first_number=41)


def submit(session: ClientSession, token: object = "token", *, now_ns: int = START_NS, **fields: Any) -> None:
    told: dict[str, Any] = {"service": "echo", "body": b"body", "timeout_ms": 1000} | fields
    session.submit(now_ns, token, **told)


def send_all(session: ClientSession) -> list[bytes]:
    """The connection takes everything; the envelopes in the order of sending."""
    batch = session.next_to_send(0, 1000)
    session.on_sent(len(batch))
    return [message[0] for message in batch]


def answer(envelope: bytes, body: bytes = b"", **fields: Any) -> list[bytes]:
    return [envelope, headers.write("TASK", "RESPONSE", **({"message_id": "m", "service": "echo"} | fields)), body]


def told(done: Done) -> tuple[object, str, str, str, bytes]:
    return done.token, done.outcome, done.message_id, done.reason, done.body


def verdict(done: Done) -> tuple[str, str, str]:
    return str(done.token), done.outcome, reasons.code_of(done.reason)


# -- the usual ----------------------------------------------------------------------------------------------------


def test_a_task_is_sent_once_and_ends_with_its_answer(session: ClientSession) -> None:
    submit(session, service="echo", body=b"hello", timeout_ms=250, priority=9, message_id="mine")
    ((envelope, header, body),) = session.next_to_send(0, 10)
    assert body == b"hello"
    assert json.loads(header) == {
        "request": "TASK",
        "type": "REQUEST",
        "service": "echo",
        "timeout_ms": 250,
        "priority": 9,
        "message_id": "mine",
    }
    session.on_sent(1)
    assert session.next_to_send(0, 10) == []
    assert len(session) == 1
    (done,) = session.on_messages([answer(envelope, b"HELLO", outcome="OK", message_id="mine")])
    assert told(done) == ("token", "OK", "mine", "", b"HELLO")
    assert len(session) == 0
    assert session.next_due_ns == NEVER_NS


def test_answers_find_their_tasks_in_any_order(session: ClientSession) -> None:
    for token in "abc":
        submit(session, token)
    envelopes = send_all(session)
    done = session.on_messages([answer(envelope) for envelope in reversed(envelopes)])
    assert [each.token for each in done] == ["c", "b", "a"]


def test_what_the_connection_did_not_take_is_offered_again_in_order(session: ClientSession) -> None:
    for token in range(5):
        submit(session, token, body=b"%d" % token)
    assert [body for _, _, body in session.next_to_send(0, 3)] == [b"0", b"1", b"2"]
    session.on_sent(2)
    assert session.unsent == 3
    assert [body for _, _, body in session.next_to_send(0, 9)] == [b"2", b"3", b"4"]


def test_tasks_of_one_kind_share_their_header_and_a_message_id_does_not_leak(session: ClientSession) -> None:
    submit(session, message_id="mine")
    submit(session)
    submit(session)
    submit(session, priority=1)
    submit(session, timeout_ms=7)
    submit(session, service="other")
    sent = [header for _, header, _ in session.next_to_send(0, 9)]
    assert sent[1] is sent[2]
    assert "message_id" not in json.loads(sent[1])
    assert len({bytes(header) for header in sent}) == 5


def test_remembered_headers_are_bounded(session: ClientSession) -> None:
    for number in range(5000):
        submit(session, service=f"s{number}")
    assert len(session._headers) <= 1024


@pytest.mark.parametrize("outcome", ["OK", "ERROR", "REJECTED", "UNKNOWN"])
def test_each_outcome_of_the_broker_is_passed_on(session: ClientSession, outcome: str) -> None:
    submit(session)
    (envelope,) = send_all(session)
    (done,) = session.on_messages([answer(envelope, b"more", outcome=outcome, reason="overload: full")])
    assert told(done) == ("token", outcome, "m", "overload: full", b"more")


# -- answers that are none ----------------------------------------------------------------------------------------


def test_an_error_response_means_that_nobody_was_given_the_task(session: ClientSession) -> None:
    submit(session, message_id="mine")
    (envelope,) = send_all(session)
    (done,) = session.on_messages([[envelope, headers.write_error("too_large", "no"), b""]])
    assert told(done) == ("token", "REJECTED", "mine", "too_large: no", b"")


@pytest.mark.parametrize(
    "header",
    [b"rubbish", headers.write("PONG", "RESPONSE"), b'{"request":"TASK","type":"RESPONSE","outcome":"fine"}'],
)
def test_an_answer_that_cannot_be_read_is_unknown(session: ClientSession, header: bytes) -> None:
    submit(session, message_id="mine")
    (envelope,) = send_all(session)
    (done,) = session.on_messages([[envelope, header, b"body"]])
    assert (done.outcome, done.message_id, done.body) == ("UNKNOWN", "mine", b"")
    assert reasons.code_of(done.reason) == "bad_header"


@pytest.mark.parametrize("message", [[], [b"a"], [b"a", b"b"], [b"a", b"b", b"c", b"d"], [bytes(8), b"{}", b""]])
def test_what_answers_nothing_is_counted_and_dropped(session: ClientSession, message: list[bytes]) -> None:
    submit(session)
    send_all(session)
    assert session.on_messages([message]) == []
    assert session.late == 1
    assert len(session) == 1


def test_the_second_answer_is_late(session: ClientSession) -> None:
    submit(session)
    (envelope,) = send_all(session)
    assert len(session.on_messages([answer(envelope), answer(envelope)])) == 1
    assert session.late == 1


def test_a_task_that_waited_for_its_connection_tells_what_is_left_of_its_time(session: ClientSession) -> None:
    submit(session, timeout_ms=1000)
    ((_, header, _),) = session.next_to_send(START_NS + 10 * NS_PER_MS, 9)
    assert json.loads(header)["timeout_ms"] == 1000, "a few milliseconds do not count"
    ((_, header, _),) = session.next_to_send(START_NS + 400 * NS_PER_MS, 9)
    assert json.loads(header)["timeout_ms"] == 600


def test_an_answer_to_what_was_never_sent_is_not_believed(session: ClientSession) -> None:
    submit(session)
    ((envelope, _, _),) = session.next_to_send(0, 1)
    assert session.on_messages([answer(envelope)]) == []
    assert session.late == 1
    assert session.unsent == 1


# -- time ---------------------------------------------------------------------------------------------------------


def test_a_task_that_was_not_sent_in_time_is_rejected(session: ClientSession) -> None:
    submit(session, "first", timeout_ms=1000)
    submit(session, "second", timeout_ms=9000)
    submit(session, "third", timeout_ms=1000)
    assert session.on_tick(START_NS + 999 * NS_PER_MS) == []
    assert session.next_due_ns == START_NS + 1000 * NS_PER_MS
    done = session.on_tick(START_NS + 1000 * NS_PER_MS)
    assert [verdict(each) for each in done] == [("first", "REJECTED", "expired"), ("third", "REJECTED", "expired")]
    assert session.unsent == 1
    assert len(send_all(session)) == 1


def test_a_task_that_was_sent_is_given_up_only_after_the_grace(session: ClientSession) -> None:
    submit(session, timeout_ms=1000)
    (envelope,) = send_all(session)
    deadline_ns = START_NS + 1000 * NS_PER_MS
    assert session.on_tick(deadline_ns) == []
    assert session.on_tick(deadline_ns + GRACE_NS - 1) == []
    assert session.next_due_ns <= deadline_ns + GRACE_NS + TICK_NS
    (done,) = session.on_tick(deadline_ns + GRACE_NS)
    assert verdict(done) == ("token", "UNKNOWN", "broker_lost")
    assert session.on_messages([answer(envelope)]) == []
    assert session.late == 1


def test_an_answer_within_the_grace_is_an_answer(session: ClientSession) -> None:
    submit(session, timeout_ms=1000)
    (envelope,) = send_all(session)
    assert session.on_tick(START_NS + 1500 * NS_PER_MS) == []
    (done,) = session.on_messages([answer(envelope, outcome="UNKNOWN", reason="expired: late")])
    assert done.reason == "expired: late"
    assert session.on_tick(START_NS + 60 * NS_PER_S) == []


# -- the connection -----------------------------------------------------------------------------------------------


def test_a_lost_connection_ends_what_was_sent_and_keeps_what_was_not(session: ClientSession) -> None:
    submit(session, "sent")
    (envelope,) = send_all(session)
    submit(session, "unsent")
    (done,) = session.on_lost()
    assert verdict(done) == ("sent", "UNKNOWN", "broker_lost")
    assert session.on_lost() == []
    assert session.on_messages([answer(envelope)]) == []
    (other,) = send_all(session)
    assert [each.token for each in session.on_messages([answer(other)])] == ["unsent"]


def test_close_ends_everything(session: ClientSession) -> None:
    submit(session, "sent")
    send_all(session)
    submit(session, "unsent")
    assert sorted(verdict(done) for done in session.close()) == [
        ("sent", "UNKNOWN", "broker_lost"),
        ("unsent", "REJECTED", "expired"),
    ]
    assert len(session) == session.unsent == 0
    assert session.next_to_send(0, 9) == []
    assert session.next_due_ns == NEVER_NS
    assert session.close() == []


def test_every_task_has_exactly_one_end_whatever_order_things_happen_in(session: ClientSession) -> None:
    for token in range(6):
        submit(session, token, timeout_ms=1000 + 500 * (token % 2))
    batch = session.next_to_send(0, 4)
    session.on_sent(4)
    done = session.on_messages([answer(batch[0][0])])
    done += session.on_tick(START_NS + 1000 * NS_PER_MS)
    done += session.on_lost()
    done += session.on_messages([answer(message[0]) for message in batch])
    done += session.on_tick(START_NS + 10 * NS_PER_S)
    done += session.close()
    assert sorted(str(each.token) for each in done) == list("012345")
