"""Cancelling clients: what was never sent ends at once; of the rest, brokers are told. None of it is sent again."""

from __future__ import annotations

from itertools import count

import pytest
from tests.unit.core.test_client_session import START_NS, answer, send_all, submit, verdict

from famulus.core.clock import NS_PER_S
from famulus.core.session.client import ClientSession
from famulus.core.session.retry import UNTIL_DEADLINE
from famulus.wire import headers, reasons


@pytest.fixture
def session() -> ClientSession:
    numbers = count(1)
    return ClientSession(first_number=41, new_id=lambda: f"uuid-{next(numbers)}")


def rejection(envelope: bytes, code: str) -> list[bytes]:
    return answer(envelope, outcome="REJECTED", reason=reasons.reason(code, "no"))


def test_what_was_never_sent_ends_at_once(session: ClientSession) -> None:
    for token in "abc":
        submit(session, token)
    assert [verdict(done) for done in session.cancel({"b", "unknown"})] == [("b", "REJECTED", "cancelled")]
    assert len(send_all(session)) == len(session) == 2
    assert not session.cancels
    assert session.cancel({"b"}) == []


def test_of_what_was_sent_its_broker_is_told_and_says_how_it_ended(session: ClientSession) -> None:
    for token in "ab":
        submit(session, token)
    _, envelope = send_all(session)
    assert session.cancel({"b"}) == []
    assert session.take_cancels(session.leg) == [[b"", headers.CANCEL, envelope]]
    assert session.take_cancels(session.leg) == []
    (done,) = session.on_messages([rejection(envelope, reasons.CANCELLED)])
    assert verdict(done) == ("b", "REJECTED", "cancelled")


@pytest.mark.parametrize("code", [reasons.CANCELLED, reasons.OVERLOAD, reasons.NO_WORKER, reasons.DISABLED])
@pytest.mark.parametrize("at_least_once", [False, True])
def test_a_cancelled_task_is_not_tried_again(session: ClientSession, code: str, at_least_once: bool) -> None:
    submit(session, retry=UNTIL_DEADLINE, at_least_once=at_least_once)
    (envelope,) = send_all(session)
    session.cancel({"token"})
    done = session.on_messages([rejection(envelope, code)], START_NS) + session.pass_on(START_NS)
    assert [verdict(each) for each in done] == [("token", "REJECTED", code)]
    assert session.unsent == len(session) == 0


def test_nor_when_its_broker_is_lost(session: ClientSession) -> None:
    submit(session, at_least_once=True)
    send_all(session)
    session.cancel({"token"})
    (done,) = session.on_lost(START_NS)
    assert verdict(done) == ("token", "UNKNOWN", "broker_lost")
    assert session.unsent == len(session) == 0
    assert not session.cancels, "nobody is there who could be told"


def test_one_that_rests_before_it_is_tried_again_ends_at_once(session: ClientSession) -> None:
    submit(session, retry=UNTIL_DEADLINE)
    (envelope,) = send_all(session)
    assert session.on_messages([rejection(envelope, reasons.OVERLOAD)], START_NS) == []
    assert [verdict(done) for done in session.cancel({"token"})] == [("token", "REJECTED", "cancelled")]
    assert session.on_tick(START_NS + NS_PER_S) == []
    assert session.unsent == 0


def test_what_an_earlier_broker_may_have_run_is_not_called_rejected(session: ClientSession) -> None:
    submit(session, at_least_once=True)
    send_all(session)
    session.on_lost(START_NS)
    (done,) = session.cancel({"token"})
    assert (done.outcome, session.unsent) == ("UNKNOWN", 0)


def test_each_broker_is_told_of_what_it_has(session: ClientSession) -> None:
    submit(session, "before")
    (before,) = send_all(session)
    former, _ = session.next_leg()
    submit(session, "after")
    (after,) = send_all(session)
    session.cancel({"before", "after"})
    assert session.take_cancels(former) == [[b"", headers.CANCEL, before]]
    assert session.take_cancels(session.leg) == [[b"", headers.CANCEL, after]]
