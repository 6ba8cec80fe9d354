"""A refused task is tried again: after a pause, until its deadline, and not without end where there is no room."""

from __future__ import annotations

from typing import Any

import pytest

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.session.client import ClientSession, Done
from famulus.core.session.retries import FEW, PAUSE_NS, SHARE, SPAN_NS, WORKERS_BACK_NS
from famulus.core.session.retry import PASSING, Retry
from famulus.core.session.task_kind import TaskKind
from famulus.wire import headers, reasons

START_NS = 5 * NS_PER_S
OVERLOAD = {"outcome": "REJECTED", "reason": "overload: no room"}
DISABLED = {"outcome": "REJECTED", "reason": "disabled: it stops"}
NO_SERVICE = {"outcome": "REJECTED", "reason": "no_service: nobody offers it"}
NO_WORKER = {"outcome": "REJECTED", "reason": "no_worker: none came"}


@pytest.fixture
def session() -> ClientSession:
    return ClientSession(chance=lambda: 1.0)


def submit(session: ClientSession, *, retry: Retry | None, timeout_ms: int = 10_000, times: int = 1) -> None:
    for number in range(times):
        session.submit(START_NS, number, TaskKind("s", timeout_ms, retry=retry), b"body")


def sent(session: ClientSession, now_ns: int = START_NS) -> list[bytes]:
    """The envelopes of what leaves now."""
    messages = session.next_to_send(now_ns, 10_000)
    session.on_sent(len(messages))
    return [message[0] for message in messages]


def answer(envelope: bytes, **fields: Any) -> list[bytes]:
    return [envelope, headers.write("TASK", "RESPONSE", **{"message_id": "x", **fields}), b""]


def refuse(session: ClientSession, fields: dict[str, str], now_ns: int = START_NS) -> list[Done]:
    """All that has left is answered so."""
    return session.on_messages([answer(envelope, **fields) for envelope in sent(session, now_ns)], now_ns)


@pytest.mark.parametrize("refusal", [OVERLOAD, NO_WORKER])
def test_it_rests_and_is_sent_again(session: ClientSession, refusal: dict[str, str]) -> None:
    submit(session, retry=Retry())
    assert refuse(session, refusal) == []
    assert session.next_due_ns == START_NS + PAUSE_NS[0]
    assert session.on_tick(START_NS + PAUSE_NS[0] - 1) == []
    assert not session.unsent
    assert session.on_tick(START_NS + PAUSE_NS[0]) == []
    (envelope,) = sent(session, START_NS + PAUSE_NS[0])
    (done,) = session.on_messages([answer(envelope, outcome="OK")])
    assert done.outcome == "OK"
    assert session.next_due_ns == NEVER_NS


def test_without_a_retry_it_ends(session: ClientSession) -> None:
    submit(session, retry=None)
    (done,) = refuse(session, OVERLOAD)
    assert (done.outcome, done.reason) == ("REJECTED", "overload: no room")


@pytest.mark.parametrize(
    "fields",
    [
        {"outcome": "UNKNOWN", "reason": "worker_lost: gone"},
        {"outcome": "UNKNOWN", "reason": "overload: odd"},
        {"outcome": "ERROR", "reason": "overload: says the function"},
        {"outcome": "REJECTED", "reason": "not_allowed: no"},
        {"outcome": "REJECTED", "reason": "expired: late"},
    ],
)
def test_nothing_else_is_tried_again(session: ClientSession, fields: dict[str, str]) -> None:
    submit(session, retry=Retry())
    (done,) = refuse(session, fields)
    assert done.outcome == fields["outcome"]
    assert session.next_due_ns == NEVER_NS


def test_each_pause_is_longer_up_to_a_bound(session: ClientSession) -> None:
    submit(session, retry=Retry(), timeout_ms=60_000)
    now_ns, pauses = START_NS, []
    for _ in range(8):
        assert refuse(session, NO_WORKER, now_ns) == []
        pauses.append(session.next_due_ns - now_ns)
        now_ns = session.next_due_ns
        session.on_tick(now_ns)
    assert pauses[:5] == [PAUSE_NS[0] << number for number in range(5)]
    assert pauses[5:] == [PAUSE_NS[1]] * 3


def test_not_longer_than_its_time_out_and_then_the_last_reason_is_told(session: ClientSession) -> None:
    submit(session, retry=Retry(), timeout_ms=150)
    refuse(session, OVERLOAD)
    session.on_tick(START_NS + PAUSE_NS[0])
    assert refuse(session, OVERLOAD, START_NS + PAUSE_NS[0]) == []
    (done,) = session.on_tick(START_NS + 200 * NS_PER_MS)
    assert (done.outcome, done.reason) == ("REJECTED", "overload: no room")
    assert (session.unsent, session.next_due_ns) == (0, NEVER_NS)


def test_its_broker_is_told_how_much_time_is_left(session: ClientSession) -> None:
    submit(session, retry=Retry(), timeout_ms=1000)
    refuse(session, NO_WORKER)
    session.on_tick(START_NS + 500 * NS_PER_MS)
    submit(session, retry=Retry(), timeout_ms=1000)
    first, second = session.next_to_send(START_NS + 500 * NS_PER_MS, 10)
    assert headers.read_fields(first[1])["timeout_ms"] == 500
    assert first[0] != second[0]


def test_only_so_many_attempts(session: ClientSession) -> None:
    submit(session, retry=Retry(attempts=2))
    assert refuse(session, NO_WORKER) == []
    session.on_tick(START_NS + NS_PER_S)
    (done,) = refuse(session, NO_WORKER, START_NS + NS_PER_S)
    assert done.outcome == "REJECTED"


def test_only_after_the_reasons_that_are_named(session: ClientSession) -> None:
    submit(session, retry=Retry(on=[reasons.NO_WORKER]))
    assert len(refuse(session, OVERLOAD)) == 1
    submit(session, retry=Retry(on=[reasons.NO_WORKER]))
    assert refuse(session, NO_WORKER) == []


def test_one_reason_may_stand_alone() -> None:
    assert Retry(on="overload").on == Retry(on=["overload"]).on == {"overload"}
    with pytest.raises(ValueError, match=r"^cannot try again after overlaod; only after"):
        Retry(on="overlaod")


# -- a broker that stops and starts again ---------------------------------------------------------------------------


def test_what_a_broker_that_stops_refuses_waits_for_the_next_connection(session: ClientSession) -> None:
    submit(session, retry=Retry(), times=3)
    assert refuse(session, DISABLED) == []
    assert session.pass_on(START_NS) == []
    assert not session.unsent
    assert session.on_lost(START_NS + 1) == []
    assert len(sent(session)) == 3


def test_or_is_asked_again_if_the_connection_stays(session: ClientSession) -> None:
    submit(session, retry=Retry(), times=3)
    refuse(session, DISABLED)
    session.pass_on(START_NS)
    session.on_tick(START_NS + PAUSE_NS[0])
    assert len(sent(session)) == 3


def test_without_a_retry_such_a_refusal_is_passed_on(session: ClientSession) -> None:
    submit(session, retry=None)
    refuse(session, DISABLED)
    (done,) = session.pass_on(START_NS)
    assert done.reason == "disabled: it stops"


def test_a_broker_that_is_just_back_may_not_know_its_workers_yet(session: ClientSession) -> None:
    session.on_up(START_NS)
    submit(session, retry=Retry())
    assert len(refuse(session, NO_SERVICE)) == 1, "at first nobody is missing: its name is wrong"
    session.on_lost(START_NS)
    session.on_up(START_NS)
    submit(session, retry=Retry())
    assert refuse(session, NO_SERVICE, START_NS + WORKERS_BACK_NS - 1) == []
    submit(session, retry=Retry())
    assert len(refuse(session, NO_SERVICE, START_NS + WORKERS_BACK_NS)) == 1


def test_closing_ends_what_rests(session: ClientSession) -> None:
    submit(session, retry=Retry())
    refuse(session, OVERLOAD)
    (done,) = session.close()
    assert done.outcome == "REJECTED"
    assert len(session) == 0


# -- the budget -----------------------------------------------------------------------------------------------------


def test_where_there_is_no_room_a_share_is_tried_again_and_no_more(session: ClientSession) -> None:
    calls = 2000
    submit(session, retry=Retry(), times=1)
    assert refuse(session, OVERLOAD) == []  # a span begins
    submit(session, retry=Retry(), times=calls)
    ended = refuse(session, OVERLOAD)
    rests = calls - len(ended)
    # Each that is sent again counts among those that are sent, too.
    assert FEW + calls // SHARE - 1 <= rests <= FEW + (calls + rests) // SHARE
    later_ns = START_NS + SPAN_NS
    assert refuse(session, OVERLOAD, later_ns) == []
    submit(session, retry=Retry(), times=FEW // 2, timeout_ms=60_000)
    assert refuse(session, OVERLOAD, later_ns) == [], "in another span there is another budget"


def test_the_budget_is_for_overload_alone(session: ClientSession) -> None:
    submit(session, retry=Retry(), times=2000)
    assert refuse(session, NO_WORKER) == []


# -- what callers say -----------------------------------------------------------------------------------------------


def test_only_what_did_not_run_can_be_named() -> None:
    with pytest.raises(ValueError, match="cannot try again after worker_lost; only after"):
        Retry(on=[reasons.WORKER_LOST])
    with pytest.raises(ValueError, match="not -1"):
        Retry(attempts=-1)
    assert Retry().on == PASSING
    assert repr(Retry(attempts=3, on=["overload"])) == "Retry(attempts=3, on=['overload'])"
