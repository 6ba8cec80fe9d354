"""A client's side: what was never sent is safe to try again, what was sent may have run."""

from __future__ import annotations

import json
import random
from itertools import count
from typing import Any

import pytest

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.session.client import GRACE_NS, ClientSession, Done
from famulus.core.session.kept_bodies import KEPT_BYTES_MAX, SPARE_BYTES_MAX
from famulus.core.session.task_headers import SERVICES_NAMED_MAX
from famulus.core.session.task_kind import TaskKind
from famulus.core.timers import TICK_NS
from famulus.wire import headers, reasons

START_NS = 1000 * NS_PER_S


@pytest.fixture
def session() -> ClientSession:
    numbers = count(1)
    return ClientSession(first_number=41, new_id=lambda: f"uuid-{next(numbers)}")


def submit(session: ClientSession, token: object = "token", *, now_ns: int = START_NS, **fields: Any) -> None:
    told: dict[str, Any] = {"service": "echo", "timeout_ms": 1000} | fields
    body, message_id, place = told.pop("body", b"body"), told.pop("message_id", ""), told.pop("place", 0)
    session.submit(now_ns, token, TaskKind(**told), body, message_id, place)


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
    kind = TaskKind("echo", 1000)
    session.submit(START_NS, "token", kind, b"body", "mine")
    session.submit(START_NS, "token", kind, b"body")
    session.submit(START_NS, "token", kind, b"body")
    submit(session, priority=1)
    submit(session, timeout_ms=7)
    submit(session, service="other")
    sent = [header for _, header, _ in session.next_to_send(0, 9)]
    assert sent[1] is sent[2]
    assert "message_id" not in json.loads(sent[1])
    assert len({bytes(header) for header in sent}) == 5


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


# -- another broker -----------------------------------------------------------------------------------------------

DISABLED: dict[str, Any] = {"outcome": "REJECTED", "reason": "disabled: this broker is shutting down"}


@pytest.fixture
def rich(session: ClientSession) -> ClientSession:
    """A session that knows of another broker."""
    session.on_brokers(True, "tcp://a:1, tcp://b:2")
    return session


def sent(session: ClientSession, now_ns: int = 0) -> list[tuple[dict[str, Any], bytes]]:
    """What leaves now: headers and bodies."""
    batch = session.next_to_send(now_ns, 1000)
    session.on_sent(len(batch))
    return [(json.loads(header), body) for _, header, body in batch]


def test_a_task_that_its_broker_refused_goes_to_the_next_one(rich: ClientSession) -> None:
    submit(rich, "refused", body=b"mine")
    submit(rich, "kept by the broker")
    first, second = send_all(rich)
    leg, owed = rich.next_leg()
    assert [each.token for each in owed] == ["refused", "kept by the broker"]
    assert rich.on_messages([answer(first, **DISABLED)]) == []
    assert rich.send_again(START_NS) == []
    assert len(rich) == 2
    assert [rich.is_open(each, leg) for each in owed] == [False, True]
    ((envelope, _, body),) = rich.next_to_send(0, 9)
    assert body == b"mine"
    rich.on_sent(1)
    (done,) = rich.on_messages([answer(envelope, outcome="OK")])
    assert (done.token, done.outcome) == ("refused", "OK")
    (done,) = rich.on_messages([answer(second, outcome="OK")])
    assert (done.token, done.outcome) == ("kept by the broker", "OK"), "the former broker still has its say"


def test_it_goes_first_and_says_what_is_left_of_its_time(rich: ClientSession) -> None:
    submit(rich, body=b"1", timeout_ms=1000)
    submit(rich, body=b"2", timeout_ms=1000)
    envelopes = send_all(rich)
    submit(rich, body=b"3", now_ns=START_NS + 390 * NS_PER_MS)
    rich.on_messages([answer(envelope, **DISABLED) for envelope in envelopes])
    rich.send_again(START_NS)
    left = [(body, header["timeout_ms"]) for header, body in sent(rich, START_NS + 400 * NS_PER_MS)]
    assert left == [(b"1", 600), (b"2", 600), (b"3", 1000)]


def test_what_a_broker_called_it_means_nothing_to_the_next_one(rich: ClientSession) -> None:
    submit(rich, "nameless")
    submit(rich, "named", message_id="mine")
    rich.on_messages([answer(envelope, **DISABLED) for envelope in send_all(rich)])
    rich.send_again(START_NS)
    names = [header.get("message_id") for header, _ in sent(rich)]
    assert names == [None, "mine"]
    assert [(done.token, done.message_id) for done in rich.on_lost()] == [("nameless", ""), ("named", "mine")]


def test_a_former_broker_has_no_say_in_a_task_that_it_refused(rich: ClientSession) -> None:
    submit(rich)
    (envelope,) = send_all(rich)
    rich.on_messages([answer(envelope, **DISABLED)])
    rich.send_again(START_NS)
    assert rich.on_messages([answer(envelope, outcome="OK")]) == []
    send_all(rich)
    assert rich.on_messages([answer(envelope, outcome="OK")]) == []
    assert rich.late == 2
    assert len(rich) == 1


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ("ERROR", "disabled: says the worker"),
        ("REJECTED", "overload: full"),
        ("REJECTED", "no_service: none"),
        ("UNKNOWN", "broker_lost: stopped"),
        ("UNKNOWN", "disabled: what"),
    ],
)
def test_other_outcomes_are_passed_on(rich: ClientSession, outcome: str, reason: str) -> None:
    submit(rich)
    (envelope,) = send_all(rich)
    (done,) = rich.on_messages([answer(envelope, outcome=outcome, reason=reason)])
    assert (done.outcome, done.reason) == (outcome, reason)
    assert rich.refused == []


def test_an_error_message_that_says_disabled_is_a_refusal_too(rich: ClientSession) -> None:
    submit(rich)
    (envelope,) = send_all(rich)
    assert rich.on_messages([[envelope, headers.write_error("disabled", "not now"), b""]]) == []
    assert len(rich.refused) == 1


def test_with_one_broker_only_a_refusal_is_passed_on_and_no_body_is_kept(session: ClientSession) -> None:
    submit(session)
    (pending,) = session._pending.values()
    (envelope,) = send_all(session)
    assert not pending.is_kept
    assert session.on_messages([answer(envelope, **DISABLED)]) == []
    (done,) = session.pass_on(START_NS)
    assert verdict(done) == ("token", "REJECTED", "disabled")


def test_with_one_broker_only_nothing_is_kept_but_what_is_to_run_at_least_once(session: ClientSession) -> None:
    submit(session)
    submit(session, at_least_once=True)
    plain, again = session._pending.values()
    send_all(session)
    assert not plain.is_kept
    assert again.is_kept


def test_with_nobody_who_would_have_it_a_refusal_is_passed_on(rich: ClientSession) -> None:
    submit(rich)
    (envelope,) = send_all(rich)
    rich.on_messages([answer(envelope, **DISABLED)])
    (done,) = rich.pass_on(START_NS)
    assert verdict(done) == ("token", "REJECTED", "disabled")
    assert len(rich) == 0
    assert rich.next_due_ns == NEVER_NS


def test_a_refusal_that_comes_too_late_is_passed_on(rich: ClientSession) -> None:
    submit(rich, timeout_ms=1000)
    (envelope,) = send_all(rich)
    rich.on_messages([answer(envelope, **DISABLED)])
    (done,) = rich.send_again(START_NS + NS_PER_S)
    assert verdict(done) == ("token", "REJECTED", "disabled")
    assert rich.unsent == 0


def test_bodies_that_were_sent_are_kept_within_bounds(rich: ClientSession) -> None:
    half = bytes(SPARE_BYTES_MAX // 2)
    for _ in range(2):
        for token in "abc":
            submit(rich, token, body=half)
        envelopes = send_all(rich)
        rich.on_messages([answer(envelope, **DISABLED) for envelope in envelopes])
        (done,) = rich.send_again(START_NS)
        assert verdict(done) == ("c", "REJECTED", "disabled"), "there was no room to keep the third"
        assert len(rich.on_messages([answer(envelope, outcome="OK") for envelope in send_all(rich)])) == 2
    assert rich._bodies.spare_bytes == SPARE_BYTES_MAX


def test_a_task_that_found_no_broker_in_time_says_where_it_looked(rich: ClientSession) -> None:
    submit(rich, timeout_ms=1000)
    (done,) = rich.on_tick(START_NS + NS_PER_S)
    assert verdict(done) == ("token", "REJECTED", "expired")
    assert done.reason.endswith("tried tcp://a:1, tcp://b:2")


LEAVING = [b"", headers.LEAVING, b""]


def test_what_a_broker_that_stops_has_not_read_goes_to_the_next_one(rich: ClientSession) -> None:
    for token in ("read", "unread", "unsent"):
        submit(rich, token)
    rich.on_sent(2)
    # What was not sent has nothing to do with it.
    assert rich.on_messages([answer((42).to_bytes(8, "big"), outcome="OK"), LEAVING]) != []
    assert [verdict(each) for each in rich.refused] == [("unread", "REJECTED", "disabled")]
    assert rich.late == 0
    rich.next_leg()
    assert rich.send_again(START_NS) == []
    assert [fields["service"] for fields, _ in sent(rich)] == ["echo", "echo"]
    assert rich.on_lost(START_NS, leg=1) == []


def test_only_what_was_sent_to_it_is_left_alone_by_a_broker_that_stops(rich: ClientSession) -> None:
    submit(rich, "first")
    send_all(rich)
    former, _ = rich.next_leg()
    submit(rich, "second")
    send_all(rich)
    rich.on_messages([LEAVING], START_NS, former)
    assert [each.token for each in rich.refused] == ["first"]
    rich.on_messages([LEAVING])
    assert [each.token for each in rich.refused] == ["first", "second"]


def test_with_one_broker_only_the_caller_hears_that_it_stopped(session: ClientSession) -> None:
    submit(session)
    send_all(session)
    session.on_messages([LEAVING])
    assert [verdict(each) for each in session.pass_on(START_NS)] == [("token", "REJECTED", "disabled")]
    assert len(session) == 0
    assert session.next_due_ns == NEVER_NS


def test_one_leg_may_be_lost_without_the_other(rich: ClientSession) -> None:
    submit(rich, "old")
    send_all(rich)
    leg, owed = rich.next_leg()
    assert [each.token for each in owed] == ["old"]
    submit(rich, "new")
    send_all(rich)
    assert rich.is_open(owed[0], leg)
    assert [verdict(done) for done in rich.on_lost(START_NS, leg)] == [("old", "UNKNOWN", "broker_lost")]
    assert not rich.is_open(owed[0], leg)
    assert rich.on_lost(START_NS, leg) == []
    assert [done.token for done in rich.on_lost(START_NS, rich.leg)] == ["new"]


# -- asking for brokers -------------------------------------------------------------------------------------------


def test_the_answer_to_a_question_is_no_task(session: ClientSession) -> None:
    envelope, header, body = session.question()
    assert json.loads(header) == {"request": "NEEDBROKER", "type": "REQUEST", "services": [], "role": "client"}
    assert body == b""
    response = [envelope, headers.write("NEEDBROKER", "RESPONSE"), b"those"]
    assert session.on_messages([response]) == []
    assert (session.told, session.late) == (b"those", 0)
    session.told = b""
    assert session.on_messages([response]) == []
    assert (session.told, session.late) == (b"", 1), "only one answer is believed"


def test_only_the_last_question_counts_and_only_on_its_leg(session: ClientSession) -> None:
    first, second = session.question(), session.question()
    session.on_messages([[first[0], b"", b"old"]])
    assert session.told == b""
    session.next_leg()
    session.on_messages([[second[0], b"", b"old"]])
    assert session.told == b""
    assert session.late == 2


# -- at least once ------------------------------------------------------------------------------------------------


def test_a_task_that_is_to_run_at_least_once_has_an_id_and_survives_its_broker(session: ClientSession) -> None:
    submit(session, "plain")
    submit(session, "again", body=b"mine", at_least_once=True)
    submit(session, "named", message_id="order-7", at_least_once=True)
    assert [header.get("message_id") for header, _ in sent(session)] == [None, "uuid-1", "order-7"]
    assert [verdict(done) for done in session.on_lost(START_NS)] == [("plain", "UNKNOWN", "broker_lost")]
    again = session.next_to_send(START_NS + 400 * NS_PER_MS, 9)
    assert [(json.loads(header)["message_id"], body) for _, header, body in again] == [
        ("uuid-1", b"mine"),
        ("order-7", b"body"),
    ]
    assert json.loads(again[0][1])["timeout_ms"] == 600
    session.on_sent(2)
    done = session.on_messages([answer(message[0], outcome="OK") for message in again])
    assert [told(each)[:3] for each in done] == [("again", "OK", "uuid-1"), ("named", "OK", "order-7")]


def test_it_is_tried_again_until_its_deadline(session: ClientSession) -> None:
    submit(session, timeout_ms=1000, at_least_once=True)
    for tenth in range(10):
        now_ns = START_NS + tenth * 100 * NS_PER_MS
        assert len(sent(session, now_ns)) == 1
        assert session.on_lost(now_ns) == []
    (done,) = session.on_tick(START_NS + NS_PER_S)
    assert verdict(done) == ("token", "UNKNOWN", "broker_lost"), "it may have run, so it is not REJECTED"
    assert "no broker took it within the time-out" in done.reason
    assert done.message_id == "uuid-1"
    assert session.on_lost(START_NS + NS_PER_S) == []


def test_a_loss_after_the_deadline_ends_it(session: ClientSession) -> None:
    submit(session, timeout_ms=1000, at_least_once=True)
    send_all(session)
    assert session.on_tick(START_NS + NS_PER_S) == []
    (done,) = session.on_lost(START_NS + NS_PER_S)
    assert verdict(done) == ("token", "UNKNOWN", "broker_lost")


def test_it_is_rejected_only_if_it_was_never_sent(session: ClientSession) -> None:
    submit(session, timeout_ms=1000, at_least_once=True)
    (done,) = session.on_tick(START_NS + NS_PER_S)
    assert verdict(done) == ("token", "REJECTED", "expired")
    submit(session, at_least_once=True)
    (done,) = session.on_messages([answer(*send_all(session), outcome="REJECTED", reason="no_service: none")])
    assert verdict(done) == ("token", "REJECTED", "no_service")


def test_what_the_second_broker_rejects_may_have_run_at_the_first(session: ClientSession) -> None:
    submit(session, at_least_once=True)
    send_all(session)
    session.on_lost(START_NS)
    (done,) = session.on_messages([answer(*send_all(session), outcome="REJECTED", reason="no_service: none")])
    assert verdict(done) == ("token", "UNKNOWN", "broker_lost")
    assert done.reason.endswith("no_service: none")


def test_a_broker_that_stops_in_the_middle_is_lost_as_well(rich: ClientSession) -> None:
    submit(rich, "again", at_least_once=True)
    submit(rich, "plain")
    stopped: dict[str, Any] = {"outcome": "UNKNOWN", "reason": "broker_lost: this broker stopped before the answer"}
    done = rich.on_messages([answer(envelope, **stopped) for envelope in send_all(rich)])
    assert [verdict(each) for each in done] == [("plain", "UNKNOWN", "broker_lost")]
    assert rich.send_again(START_NS) == []
    (envelope,) = send_all(rich)
    (end,) = rich.on_messages([answer(envelope, outcome="UNKNOWN", reason="worker_lost: gone")])
    assert verdict(end) == ("again", "UNKNOWN", "worker_lost"), "what became of a worker is the broker's to decide"


def test_what_may_have_run_and_nobody_will_have_waits_for_the_next_connection(session: ClientSession) -> None:
    submit(session, at_least_once=True)
    session.on_messages([answer(*send_all(session), outcome="UNKNOWN", reason="broker_lost: stopped")])
    assert session.pass_on(START_NS) == []
    assert session.unsent == 0, "the broker that we are with will not have it"
    assert len(session) == 1
    assert session.on_lost(START_NS) == []
    assert session.unsent == 1
    session.on_messages([answer(*send_all(session), **DISABLED)])
    assert session.pass_on(START_NS) == []
    session.next_leg()
    assert session.unsent == 1
    session.on_messages([answer(*send_all(session), **DISABLED)])
    session.pass_on(START_NS)
    (done,) = session.on_tick(START_NS + NS_PER_S)
    assert verdict(done) == ("token", "UNKNOWN", "broker_lost")
    session.next_leg()
    assert session.unsent == len(session) == 0


def test_what_is_kept_is_bounded_and_room_is_given_back_by_every_end(session: ClientSession) -> None:
    body = bytes(KEPT_BYTES_MAX // 8)

    def fill() -> None:
        for _ in range(8):
            assert session.keep(len(body))
            submit(session, body=body, timeout_ms=1000, at_least_once=True)
        assert not session.keep(1)

    fill()
    assert len(session.on_messages([answer(envelope, outcome="OK") for envelope in send_all(session)])) == 8
    fill()
    assert len(session.on_tick(START_NS + NS_PER_S)) == 8
    fill()
    refused = [answer(envelope, **DISABLED) for envelope in send_all(session)]
    session.on_messages(refused)
    assert len(session.pass_on(START_NS)) == 8
    fill()
    send_all(session)
    session.on_lost(START_NS)
    assert not session.keep(1), "they are still open"
    assert len(session.close()) == 8
    assert session.keep(KEPT_BYTES_MAX)
    assert not session.keep(1)


def test_close_ends_what_was_lost_and_what_was_refused(session: ClientSession) -> None:
    submit(session, "lost", at_least_once=True)
    send_all(session)
    session.on_lost(START_NS)
    submit(session, "resting", at_least_once=True)
    (_, envelope) = send_all(session)
    session.on_messages([answer(envelope, outcome="UNKNOWN", reason="broker_lost: stopped")])
    session.pass_on(START_NS)
    submit(session, "refused", at_least_once=True)
    session.on_messages([answer(*send_all(session), **DISABLED)])
    submit(session, "unsent", at_least_once=True)
    assert sorted(verdict(done) for done in session.close()) == [
        ("lost", "UNKNOWN", "broker_lost"),
        ("refused", "REJECTED", "disabled"),
        ("resting", "UNKNOWN", "broker_lost"),
        ("unsent", "REJECTED", "expired"),
    ]
    session.next_leg()
    assert len(session) == session.unsent == 0
    assert session.close() == []


ANSWERS: list[dict[str, Any]] = [
    {"outcome": "OK"},
    {"outcome": "ERROR", "reason": "ValueError: no"},
    {"outcome": "REJECTED", "reason": "overload: full"},
    {"outcome": "UNKNOWN", "reason": "broker_lost: stopped"},
    {"outcome": "UNKNOWN", "reason": "expired: late"},
    DISABLED,
    DISABLED,
]


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_whatever_brokers_do_every_task_ends_once_and_rejected_means_that_no_broker_was_lost_with_it(
    first: int,
) -> None:
    for seed in range(first, first + 20):
        whatever_happens(seed)


def whatever_happens(seed: int) -> None:
    dice = random.Random(seed)
    session = ClientSession(new_id=lambda: f"uuid-{dice.random()}")
    session.on_brokers(dice.random() < 0.8, "")
    now_ns, asked = START_NS, 0
    out: dict[bytes, tuple[int, bytes]] = {}  # by envelope: the leg, and which task it is
    doubtful: set[bytes] = set()
    once_only: set[bytes] = set()
    given: dict[bytes, int] = {}
    ended: dict[object, str] = {}

    def note(done: list[Done]) -> None:
        for each in done:
            assert each.token not in ended
            ended[each.token] = each.outcome
            assert each.outcome != "REJECTED" or each.token not in doubtful

    for _ in range(150):
        now_ns += dice.randrange(50 * NS_PER_MS)
        happens = dice.choice(["submit", "submit", "send", "send", "answer", "answer", "lose", "move", "tick"])
        if happens == "submit":
            asked, body = asked + 1, b"%d" % asked
            again = dice.random() < 0.5
            assert not again or session.keep(len(body))
            submit(session, body, now_ns=now_ns, body=body, timeout_ms=dice.choice([100, 1000]), at_least_once=again)
            if not again:
                once_only.add(body)
        elif happens == "send":
            batch = session.next_to_send(now_ns, dice.randint(1, 5))
            session.on_sent(len(batch))
            for envelope, _, body in batch:
                out[envelope] = session.leg, body
                given[body] = given.get(body, 0) + 1
        elif happens == "answer" and out:
            envelope = dice.choice(list(out))
            kind = dice.choice(ANSWERS)
            _, body = out.pop(envelope)
            if kind["outcome"] == "UNKNOWN":
                doubtful.add(body)
            elif kind is DISABLED:
                given[body] -= 1
            note(session.on_messages([answer(envelope, **kind)]))
            note(dice.choice([session.send_again, session.pass_on])(now_ns))
        elif happens == "lose":
            leg = dice.choice([session.leg, session.leg - 1])
            doubtful |= {body for of, body in out.values() if of == leg}
            out = {envelope: (of, body) for envelope, (of, body) in out.items() if of != leg}
            note(session.on_lost(now_ns, leg))
        elif happens == "move":
            session.next_leg()
        else:
            note(session.on_tick(now_ns))
    note(session.close())
    assert len(ended) == asked
    assert all(given.get(body, 0) <= 1 for body in once_only), "a plain task is sent again only if it was refused"
    assert session._bodies.kept_bytes == 0
    assert session._bodies.spare_bytes == SPARE_BYTES_MAX


def test_who_asks_for_brokers_says_for_which_services() -> None:
    session = ClientSession()

    def named() -> object:
        return json.loads(session.question()[1])["services"]

    assert named() == []
    for service, message_id in (("echo", ""), ("sum", "m1"), ("echo", "m2")):
        submit(session, service=service, message_id=message_id)
    submit(session, service="no\nname")
    assert named() == ["echo", "sum"]
    for number in range(SERVICES_NAMED_MAX):
        submit(session, service=f"service-{number}")
    assert named() == [], "too many to name"
