"""A task that may run twice is tried again whatever was lost; no other one ever is."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.session.client import ClientSession, Done
from famulus.core.session.retries import FEW, PAUSE_NS
from famulus.core.session.retry import PASSING, Idempotent, Retry
from famulus.core.session.task_kind import TaskKind
from famulus.wire import headers, reasons

START_NS = 5 * NS_PER_S
LATER_NS = START_NS + PAUSE_NS[0]
LOST = {"outcome": "UNKNOWN", "reason": "worker_lost: gone"}
OVERLOAD = {"outcome": "REJECTED", "reason": "overload: no room"}


@pytest.fixture
def session() -> ClientSession:
    numbers = count(1)
    return ClientSession(new_id=lambda: f"uuid-{next(numbers)}", token="a secret", chance=lambda: 1.0)


def submit(session: ClientSession, retry: Retry | None = None, token: object = "token", **fields: Any) -> None:
    told: dict[str, Any] = {"service": "s", "timeout_ms": 10_000, "at_least_once": True} | fields
    body, message_id = told.pop("body", b"body"), told.pop("message_id", "")
    wish = retry if isinstance(retry, Idempotent) else Idempotent(Retry())
    session.submit(START_NS, token, TaskKind(retry=wish, **told), body, message_id)


def sent(session: ClientSession, now_ns: int = START_NS) -> list[tuple[bytes, dict[str, Any]]]:
    messages = session.next_to_send(now_ns, 10_000)
    session.on_sent(len(messages))
    return [(message[0], headers.read_fields(message[1])) for message in messages]


def answer(envelope: bytes, **fields: Any) -> list[bytes]:
    return [envelope, headers.write("TASK", "RESPONSE", **{"message_id": "from-its-broker", **fields}), b""]


def end(session: ClientSession, fields: dict[str, str], now_ns: int = START_NS) -> list[Done]:
    """All that has left is answered so."""
    return session.on_messages([answer(envelope, **fields) for envelope, _ in sent(session, now_ns)], now_ns)


def verdict(done: Done) -> tuple[str, str]:
    return done.outcome, reasons.code_of(done.reason)


@pytest.mark.parametrize("code", ["worker_lost", "expired", "bad_header", "overload", "broker_lost"])
def test_after_an_unknown_it_rests_and_is_sent_again_under_the_id_that_its_broker_gave_it(
    session: ClientSession, code: str
) -> None:
    submit(session)
    ((envelope, header),) = sent(session)
    assert header["idempotent"] is True
    assert "message_id" not in header, "a header without one is cheap for its broker"
    assert session.on_messages([answer(envelope, outcome="UNKNOWN", reason=f"{code}: why")], START_NS) == []
    assert session.pass_on(START_NS) == []
    assert session.next_due_ns == LATER_NS
    session.on_tick(LATER_NS)
    ((again, header),) = sent(session, LATER_NS)
    assert again != envelope
    assert (header["message_id"], header["client_token"]) == ("from-its-broker", "a secret")
    (done,) = session.on_messages([answer(again, outcome="OK")], LATER_NS)
    assert done.outcome == "OK"
    assert session.next_due_ns == NEVER_NS


def test_its_own_id_stays(session: ClientSession) -> None:
    submit(session, message_id="order-7")
    end(session, LOST)
    session.on_tick(LATER_NS)
    assert [header["message_id"] for _, header in sent(session, LATER_NS)] == ["order-7"]


def test_with_at_least_once_it_has_an_id_from_the_beginning(session: ClientSession) -> None:
    submit(session, Idempotent(Retry(), is_named=True))
    assert [header["message_id"] for _, header in sent(session)] == ["uuid-1"]


def test_when_its_broker_is_lost_it_gets_an_id_and_keeps_it(session: ClientSession) -> None:
    submit(session)
    sent(session)
    assert session.on_lost(START_NS) == []
    assert [header["message_id"] for _, header in sent(session)] == ["uuid-1"]
    assert session.on_lost(START_NS) == []
    assert [header["message_id"] for _, header in sent(session)] == ["uuid-1"]


def test_what_was_only_refused_needs_no_id(session: ClientSession) -> None:
    submit(session)
    end(session, OVERLOAD)
    session.on_tick(LATER_NS)
    assert ["message_id" in header for _, header in sent(session, LATER_NS)] == [False]


def test_after_a_doubt_no_rejection_is_believed_and_the_first_reason_is_told(session: ClientSession) -> None:
    submit(session)
    end(session, LOST)
    session.on_tick(LATER_NS)
    (done,) = end(session, {"outcome": "REJECTED", "reason": "not_allowed: no"}, LATER_NS)
    assert (done.outcome, done.reason) == (
        "UNKNOWN",
        "worker_lost: an attempt before may have run, and then: not_allowed: no",
    )


def test_nor_the_one_that_it_ran_out_of_time(session: ClientSession) -> None:
    submit(session, timeout_ms=150)
    end(session, LOST)
    (done,) = session.on_tick(START_NS + 200 * NS_PER_MS)
    assert verdict(done) == ("UNKNOWN", "worker_lost")
    assert (len(session), session.unsent, session.next_due_ns) == (0, 0, NEVER_NS)


@pytest.mark.parametrize(
    ("retry", "fields"),
    [
        (Idempotent(Retry()), {"outcome": "UNKNOWN", "reason": "cancelled: nobody wants it"}),
        (Idempotent(Retry()), {"outcome": "UNKNOWN", "reason": "too_large: it ran"}),
        (Idempotent(Retry()), {"outcome": "ERROR", "reason": "worker_lost: says the function"}),
        (Idempotent(Retry(attempts=1)), LOST),
        (Idempotent(Retry(on="REJECTED")), LOST),
        (Idempotent(Retry(on="UNKNOWN")), OVERLOAD),
        (Idempotent(None), LOST),
        (Idempotent(None), OVERLOAD),
    ],
)
def test_some_ends_are_final(session: ClientSession, retry: Idempotent, fields: dict[str, str]) -> None:
    submit(session, retry)
    (done,) = end(session, fields)
    assert done.outcome == fields["outcome"]
    assert (len(session), session.next_due_ns) == (0, NEVER_NS)


@pytest.mark.parametrize("at_least_once", [False, True])
def test_nothing_that_may_have_run_is_tried_again_unless_it_is_idempotent(
    session: ClientSession, at_least_once: bool
) -> None:
    session.submit(START_NS, "token", TaskKind("s", 10_000, at_least_once=at_least_once, retry=Retry()), b"")
    (done,) = end(session, LOST)
    assert verdict(done) == ("UNKNOWN", "worker_lost")
    assert session.next_due_ns == NEVER_NS


def test_what_nobody_wants_is_not_tried_again(session: ClientSession) -> None:
    submit(session)
    ((envelope, _),) = sent(session)
    session.cancel({"token"})
    (done,) = session.on_messages([answer(envelope, **LOST)], START_NS)
    assert verdict(done) == ("UNKNOWN", "worker_lost")


def test_doubts_and_refusals_have_one_budget(session: ClientSession) -> None:
    for _ in range(FEW // 2):
        submit(session)
    assert end(session, OVERLOAD) == []
    session.on_tick(START_NS + NS_PER_S)
    assert end(session, LOST, START_NS + NS_PER_S) == []
    assert len(session) == FEW // 2
    session.on_tick(START_NS + 2 * NS_PER_S)
    now_ns = START_NS + 2 * NS_PER_S
    assert len(end(session, LOST, now_ns)) > FEW // 4, "of so few tasks a tenth is next to nothing"


def test_what_is_said_about_it() -> None:
    assert Retry().on == Retry(on="REJECTED").on == PASSING
    assert (Retry().doubts, Retry(on="REJECTED").doubts, Retry(on=["UNKNOWN", "overload"]).doubts) == (
        True,
        False,
        True,
    )
    assert Retry(on="UNKNOWN").on == frozenset()
    assert repr(Retry(2, on=["UNKNOWN", "overload"])) == "Retry(attempts=2, on=['UNKNOWN', 'overload'])"
