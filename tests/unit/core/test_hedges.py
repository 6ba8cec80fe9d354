"""Second attempts: one leaves when the first takes long, the first answer counts, and callers hear of one outcome."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

import pytest

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.session.client import GRACE_NS, ClientSession, Done
from famulus.core.session.hedges import ENDED_MAX
from famulus.core.session.retries import FEW
from famulus.core.session.retry import Idempotent, Retry
from famulus.core.session.task_kind import TaskKind
from famulus.core.session.usual_times import ENOUGH, KEPT, SERVICES_MAX, Services, UsualTimes
from famulus.wire import headers, reasons

START_NS = 5 * NS_PER_S
AFTER_NS = 200 * NS_PER_MS
DUE_NS = START_NS + AFTER_NS
OK: dict[str, Any] = {"outcome": "OK"}
ERROR: dict[str, Any] = {"outcome": "ERROR", "reason": "ValueError: no"}
REJECTED: dict[str, Any] = {"outcome": "REJECTED", "reason": "overload: no other worker"}
UNKNOWN: dict[str, Any] = {"outcome": "UNKNOWN", "reason": "worker_lost: gone"}
ENDS = [OK, ERROR, REJECTED, UNKNOWN]


@pytest.fixture
def session() -> ClientSession:
    numbers = count(1)
    return ClientSession(new_id=lambda: f"uuid-{next(numbers)}", token="a secret", chance=lambda: 1.0)


def submit(
    session: ClientSession, token: object = "token", *, retry: Retry | None = None, now_ns: int = START_NS, **more: Any
) -> None:
    told: dict[str, Any] = {"service": "s", "timeout_ms": 10_000, "at_least_once": True} | more
    message_id = told.pop("message_id", "")
    session.submit(now_ns, token, TaskKind(retry=Idempotent(retry, AFTER_NS), **told), b"body", message_id)


def sent(session: ClientSession, now_ns: int = START_NS) -> list[list[bytes]]:
    messages = session.next_to_send(now_ns, 10_000)
    session.on_sent(len(messages))
    return messages


def hedged(session: ClientSession, token: object = "token", **more: Any) -> tuple[bytes, bytes]:
    """A task with two attempts under way: their envelopes."""
    submit(session, token, **more)
    ((first, _, _),) = sent(session)
    assert session.on_tick(DUE_NS) == []
    ((second, _, _),) = sent(session, DUE_NS)
    return first, second


def answer(envelope: bytes, body: bytes = b"", **fields: Any) -> list[bytes]:
    return [envelope, headers.write("TASK", "RESPONSE", **{"message_id": "m", **fields}), body]


def cancelled(session: ClientSession) -> list[bytes]:
    return [message[2] for message in session.take_cancels(session.leg)]


def nothing_left(session: ClientSession) -> bool:
    # Those that were waited with are forgotten when their time comes.
    session.on_tick(START_NS + 3600 * NS_PER_S)
    left = (len(session), session.unsent, len(session._hedges), session._bodies.spare_bytes - (64 << 20))
    return left == (0, 0, 0, 0) and session.next_due_ns == NEVER_NS


def test_it_leaves_after_that_time_under_an_envelope_that_says_whose_it_is(session: ClientSession) -> None:
    submit(session, more=b',"key":"k"', message_id="mine")
    ((first, _, _),) = sent(session)
    assert session.next_due_ns == DUE_NS
    session.on_tick(DUE_NS - 1)
    assert session.unsent == 0
    session.on_tick(DUE_NS)
    ((second, header, body),) = sent(session, DUE_NS)
    assert (second, body) == (first + headers.HEDGE_ENDING, b"body")
    assert headers.read_fields(header) == {
        "request": "TASK",
        "type": "REQUEST",
        "service": "s",
        "timeout_ms": 9800,
        "key": "k",
        "idempotent": True,
        "hedge": True,
    }, "an id of its own, or it would be told how the first one ends"
    session.on_tick(DUE_NS + 5 * NS_PER_S)
    assert session.unsent == 0, "there is one second attempt, and no third"


@pytest.mark.parametrize("end", [OK, ERROR])
@pytest.mark.parametrize("winner", [0, 1])
def test_the_first_answer_counts_and_the_other_is_cancelled(
    session: ClientSession, winner: int, end: dict[str, Any]
) -> None:
    envelopes = hedged(session)
    (done,) = session.on_messages([answer(envelopes[winner], b"answer", **end)], DUE_NS)
    assert (done.token, done.outcome, done.reason, done.body) == (
        "token",
        end["outcome"],
        end.get("reason", ""),
        b"answer",
    )
    assert done.envelope == envelopes[0], "callers know only the task"
    assert cancelled(session) == [envelopes[1 - winner]]
    assert session.on_messages([answer(envelopes[1 - winner], **OK)], DUE_NS) == []
    assert session.late == 1
    assert nothing_left(session)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("failure", [REJECTED, UNKNOWN])
@pytest.mark.parametrize("loser", [0, 1])
def test_if_one_fails_the_other_decides(
    session: ClientSession, loser: int, failure: dict[str, Any], end: dict[str, Any]
) -> None:
    envelopes = hedged(session)
    assert session.on_messages([answer(envelopes[loser], **failure)], DUE_NS) == []
    assert len(session) == 1
    (done,) = session.on_messages([answer(envelopes[1 - loser], **end)], DUE_NS)
    doubtful = failure is UNKNOWN and end is REJECTED
    assert done.outcome == ("UNKNOWN" if doubtful else end["outcome"])
    assert cancelled(session) == []
    assert nothing_left(session)


@pytest.mark.parametrize("second_first", [False, True])
@pytest.mark.parametrize("one", ENDS)
@pytest.mark.parametrize("other", ENDS)
def test_both_may_be_answered_in_one_batch(
    session: ClientSession, one: dict[str, Any], other: dict[str, Any], second_first: bool
) -> None:
    envelopes = hedged(session)
    batch = [answer(envelopes[0], b"1", **one), answer(envelopes[1], b"2", **other)]
    (done,) = session.on_messages(batch[::-1] if second_first else batch, DUE_NS)
    outcomes = {one["outcome"], other["outcome"]}
    if outcomes & {"OK", "ERROR"}:
        assert done.outcome in outcomes & {"OK", "ERROR"}
        assert done.body == (b"1" if done.outcome == one["outcome"] and one is not other else done.body)
    else:
        assert done.outcome == ("UNKNOWN" if "UNKNOWN" in outcomes else "REJECTED")
    assert nothing_left(session)


def test_if_both_fail_the_task_is_tried_again_and_has_a_second_attempt_no_more(session: ClientSession) -> None:
    envelopes = hedged(session, retry=Retry())
    for envelope in envelopes:
        assert session.on_messages([answer(envelope, **UNKNOWN)], DUE_NS) == []
    session.on_tick(DUE_NS + NS_PER_S)
    ((third, header, _),) = sent(session, DUE_NS + NS_PER_S)
    assert headers.read_fields(header)["message_id"] == "m"
    session.on_tick(DUE_NS + 5 * NS_PER_S)
    assert session.unsent == 0
    (done,) = session.on_messages([answer(third, **OK)], DUE_NS)
    assert done.outcome == "OK"


def test_none_leaves_while_the_task_is_unsent_and_then_the_time_begins_again(session: ClientSession) -> None:
    submit(session)
    session.on_tick(DUE_NS)
    assert session.unsent == 1
    sent(session, DUE_NS)
    session.on_tick(DUE_NS + AFTER_NS - 1)
    assert session.unsent == 0
    session.on_tick(DUE_NS + AFTER_NS)
    assert session.unsent == 1


def test_a_delay_comes_before_that_time_and_only_once(session: ClientSession) -> None:
    submit(session, delay_ms=3000)
    sent(session)
    session.on_tick(DUE_NS + 3 * NS_PER_S - 1)
    assert session.unsent == 0
    session.on_tick(DUE_NS + 3 * NS_PER_S)
    ((_, header, _),) = sent(session, DUE_NS + 3 * NS_PER_S)
    fields = headers.read_fields(header)
    assert (fields["hedge"], fields["timeout_ms"], "delay_ms" in fields) == (True, 9800, False)


def test_none_leaves_for_what_nobody_wants_and_what_has_ended(session: ClientSession) -> None:
    submit(session, "left")
    submit(session, "answered")
    _, (answered, _, _) = sent(session)
    session.cancel({"left"})
    session.on_messages([answer(answered, **OK)], START_NS)
    session.on_tick(DUE_NS)
    assert session.unsent == 0


def test_cancelling_cancels_both_and_has_one_outcome(session: ClientSession) -> None:
    envelopes = hedged(session)
    assert session.cancel({"token"}) == []
    assert cancelled(session) == [*envelopes]
    ends: dict[str, Any] = {"outcome": "UNKNOWN", "reason": "cancelled: by its client"}
    assert session.on_messages([answer(envelopes[0], **ends)], DUE_NS) == []
    (done,) = session.on_messages([answer(envelopes[1], **ends)], DUE_NS)
    assert (done.outcome, reasons.code_of(done.reason)) == ("UNKNOWN", "cancelled")
    assert nothing_left(session)


def test_a_second_attempt_that_has_not_left_is_dropped(session: ClientSession) -> None:
    submit(session)
    ((first, _, _),) = sent(session)
    session.on_tick(DUE_NS)
    assert session.cancel({"token"}) == []
    assert session.unsent == 0
    (done,) = session.on_messages([answer(first, **UNKNOWN)], DUE_NS)
    assert done.outcome == "UNKNOWN"
    assert nothing_left(session)


@pytest.mark.parametrize("end", [OK, REJECTED])
def test_nor_does_it_leave_when_the_first_is_answered_before(session: ClientSession, end: dict[str, Any]) -> None:
    submit(session)
    ((first, _, _),) = sent(session)
    session.on_tick(DUE_NS)
    (done,) = session.on_messages([answer(first, **end)], DUE_NS)
    assert done.outcome == end["outcome"]
    assert (session.unsent, session.cancels) == (0, {})
    assert nothing_left(session)


def test_when_the_connection_is_lost_the_task_is_sent_again_alone(session: ClientSession) -> None:
    hedged(session)
    assert session.on_lost(DUE_NS) == []
    ((again, header, _),) = sent(session, DUE_NS)
    assert headers.read_fields(header)["message_id"] == "uuid-1"
    (done,) = session.on_messages([answer(again, **REJECTED)], DUE_NS)
    assert done.outcome == "UNKNOWN", "the broker that is lost may have had it run"
    assert nothing_left(session)


def test_a_second_attempt_at_another_broker_goes_on_when_the_first_broker_is_lost(session: ClientSession) -> None:
    submit(session)
    sent(session)
    former, _ = session.next_leg()
    session.on_tick(DUE_NS)
    ((second, _, _),) = sent(session, DUE_NS)
    assert session.on_lost(DUE_NS, former) == []
    assert session.unsent == 0
    (done,) = session.on_messages([answer(second, **REJECTED)], DUE_NS)
    assert done.outcome == "UNKNOWN"
    assert nothing_left(session)


def test_a_broker_that_leaves_has_run_neither(session: ClientSession) -> None:
    hedged(session)
    assert session.on_messages([[b"", headers.LEAVING, b""]], DUE_NS) == []
    assert [done.token for done in session.refused] == ["token"]
    assert session.send_again(DUE_NS) == []
    ((again, header, _),) = sent(session, DUE_NS)
    assert "message_id" not in headers.read_fields(header)
    (done,) = session.on_messages([answer(again, **REJECTED)], DUE_NS)
    assert done.outcome == "REJECTED"
    assert nothing_left(session)


@pytest.mark.parametrize("closes", [False, True])
def test_silence_and_the_end_of_the_client_make_one_outcome(session: ClientSession, closes: bool) -> None:
    hedged(session)
    by_ns = START_NS + 10 * NS_PER_S + GRACE_NS
    done = session.close() if closes else session.on_tick(by_ns - GRACE_NS) + session.on_tick(by_ns)
    assert [(each.token, each.outcome) for each in done] == [("token", "UNKNOWN")]
    assert nothing_left(session)


def test_they_are_within_the_budget(session: ClientSession) -> None:
    for token in range(FEW + 5):
        submit(session, token)
    sent(session)
    session.on_tick(DUE_NS)
    assert session.unsent == FEW


def test_those_that_have_ended_are_forgotten(session: ClientSession) -> None:
    for token in range(5 * ENDED_MAX):
        submit(session, token)
        ((envelope, _, _),) = sent(session)
        session.on_messages([answer(envelope, **OK)], START_NS)
    assert len(session._hedges) <= ENDED_MAX


def test_others_are_never_sent_twice(session: ClientSession) -> None:
    hedged(session, "hedged")
    session.submit(START_NS, "plain", TaskKind("s", 10_000, retry=Retry()), b"")
    session.submit(START_NS, "again", TaskKind("s", 10_000, at_least_once=True, retry=Retry()), b"")
    session.submit(START_NS, "idempotent", TaskKind("s", 10_000, at_least_once=True, retry=Idempotent(Retry())), b"")
    sent(session)
    session.on_tick(DUE_NS + 5 * NS_PER_S)
    assert session.unsent == 0


# -- what is usual --------------------------------------------------------------------------------------------------


def ask_slowest(session: ClientSession, now_ns: int, took_ns: int | None) -> None:
    retry = Idempotent(Retry(), hedges_slowest=True)
    session.submit(now_ns, "t", TaskKind("s", 60_000, at_least_once=True, retry=retry), b"")
    messages = sent(session, now_ns)
    if took_ns is not None:
        session.on_messages([answer(message[0], **OK) for message in messages], now_ns + took_ns)


def test_the_slowest_of_a_service_are_those_that_take_longer_than_nearly_all_others(session: ClientSession) -> None:
    for number in range(ENOUGH):
        ask_slowest(session, START_NS, None)
        assert session.next_due_ns > START_NS + 60 * NS_PER_S - 1, "nobody knows yet what is usual"
        session.on_messages([answer((number + 1).to_bytes(8, "big"), **OK)], START_NS + (number + 1) * NS_PER_MS)
    ask_slowest(session, START_NS, None)
    assert session.next_due_ns == START_NS + (ENOUGH * 95 // 100 + 1) * NS_PER_MS
    other = TaskKind("other", 60_000, at_least_once=True, retry=Idempotent(None, hedges_slowest=True))
    session.submit(START_NS, "t", other, b"")
    session.on_tick(START_NS + NS_PER_S)
    assert session.unsent == 1 + 1, "the second attempt, and the task of the other service"


def test_what_was_usual_long_ago_is_forgotten() -> None:
    times = UsualTimes()
    for _ in range(KEPT):
        times.add(NS_PER_S)
    assert times.slow_ns == NS_PER_S
    for _ in range(KEPT):
        times.add(NS_PER_MS)
    assert times.slow_ns == NS_PER_MS
    services = Services()
    for number in range(10 * SERVICES_MAX):
        services.add(f"s{number}", 1)
    assert len(services._by_name) == SERVICES_MAX


# -- anything may happen ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, 300, 20))
def test_every_task_has_one_outcome_whatever_happens(first: int) -> None:
    for seed in range(first, first + 20):
        whatever_happens(seed)


def whatever_happens(seed: int) -> None:
    dice = random.Random(seed)
    numbers = count(1)
    session = ClientSession(new_id=lambda: f"uuid-{next(numbers)}", chance=dice.random)
    now_ns, out, ended = START_NS, list[tuple[int, bytes]](), list[Done]()
    former: set[int] = set()
    for token in range(60):
        retry = dice.choice([None, Retry(), Retry(attempts=2)])
        if dice.random() < 0.7:
            submit(session, token, retry=retry, now_ns=now_ns, timeout_ms=dice.choice([100, 1000, 5000]))
        else:
            session.submit(now_ns, token, TaskKind("s", 1000, retry=retry), b"body")
        for _ in range(dice.randrange(4)):
            now_ns += dice.randrange(300) * NS_PER_MS
            deed = dice.randrange(12)
            if deed < 4:
                out += [(session.leg, message[0]) for message in sent(session, now_ns)]
            elif deed < 8 and out:
                picked = [out.pop(dice.randrange(len(out))) for _ in range(dice.randint(1, min(3, len(out))))]
                leg = picked[0][0]
                batch = [answer(envelope, **dice.choice(ENDS)) for on, envelope in picked if on == leg]
                ended += session.on_messages(batch, now_ns, leg)
            elif deed == 8:
                ended += session.cancel({dice.randrange(token + 1)})
            elif deed == 9:
                former.add(session.next_leg()[0])
            elif deed == 10:
                leg = dice.choice([session.leg, 0, *former])
                ended += session.on_lost(now_ns, leg)
                out = [each for each in out if leg and each[0] != leg]
            elif dice.random() < 0.3:
                ended += session.on_messages([[b"", headers.LEAVING, b""]], now_ns)
                out = [each for each in out if each[0] != session.leg]
            if session.refused:
                ended += session.send_again(now_ns) if dice.random() < 0.5 else session.pass_on(now_ns)
            ended += session.on_tick(now_ns)
    ended += session.close()
    assert sorted(done.token for done in ended) == list(range(60))  # type: ignore[type-var]
    assert nothing_left(session)
    assert session._bodies.kept_bytes == -sum(4 for done in ended if isinstance(done.retry, Idempotent))
