"""Tasks with a delay, as their client's session sees them: it says how long is left, whenever it sends them."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
from tests.unit.core.test_client_session import START_NS, answer, submit, verdict

from famulus.core.clock import NS_PER_MS
from famulus.core.session.client import GRACE_NS, ClientSession
from famulus.core.session.retry import UNTIL_DEADLINE
from famulus.core.timers import TICK_NS
from famulus.wire import headers, reasons


@pytest.fixture
def session() -> ClientSession:
    numbers = count(1)
    return ClientSession(first_number=41, new_id=lambda: f"uuid-{next(numbers)}")


def after(ms: float) -> int:
    return START_NS + int(ms * NS_PER_MS)


def sent(session: ClientSession, ms: float) -> list[tuple[bytes, dict[str, Any]]]:
    """All that leaves at this time."""
    batch = session.next_to_send(after(ms), 1000)
    session.on_sent(len(batch))
    return [(envelope, json.loads(header)) for envelope, header, _ in batch]


def times(fields: dict[str, Any]) -> tuple[int | None, int]:
    return fields.get("delay_ms"), fields["timeout_ms"]


def test_the_broker_is_told_how_long_it_waits_and_how_much_time_it_has_then(session: ClientSession) -> None:
    submit(session, delay_ms=5000, timeout_ms=1000, more=b',"key":"k"')
    ((_, fields),) = sent(session, 0)
    assert (times(fields), fields["key"]) == ((5000, 1000), "k")


def test_a_task_without_a_delay_says_nothing_about_it(session: ClientSession) -> None:
    submit(session, delay_ms=5000)
    submit(session)
    (_, (_, fields)) = sent(session, 0)
    assert "delay_ms" not in fields


def test_its_client_waits_until_its_delay_and_its_time_out_are_over(session: ClientSession) -> None:
    submit(session, delay_ms=5000, timeout_ms=1000)
    sent(session, 0)
    assert session.next_due_ns >= after(6000)
    assert session.on_tick(after(6000)) == []
    (done,) = session.on_tick(after(6000) + GRACE_NS + 2 * TICK_NS)
    assert verdict(done) == ("token", "UNKNOWN", "broker_lost")


@pytest.mark.parametrize(
    ("ms", "told"),
    [
        (0.5, (5000, 1000)),
        (1.5, (4999, 1000)),  # rounded up: never before its time
        (4999.5, (1, 1000)),
        (5000, (None, 1000)),
        (5400, (None, 600)),
        (5999.5, (None, 1)),
    ],
)
def test_while_no_broker_is_there_its_time_comes_nearer(
    session: ClientSession, ms: float, told: tuple[int | None, int]
) -> None:
    submit(session, delay_ms=5000, timeout_ms=1000)
    ((_, fields),) = sent(session, ms)
    assert times(fields) == told


def test_it_comes_nearer_also_behind_one_that_has_just_come(session: ClientSession) -> None:
    submit(session, "plain", now_ns=after(2000))
    submit(session, "later", delay_ms=5000, timeout_ms=1000)
    (_, (_, fields)) = sent(session, 2000)
    assert times(fields) == (3000, 1000)


def test_what_a_broker_that_stops_gives_back_goes_elsewhere_with_the_delay_that_is_left(
    session: ClientSession,
) -> None:
    session.on_brokers(True, "")
    submit(session, delay_ms=5000, timeout_ms=1000)
    ((envelope, _),) = sent(session, 0)
    stops = answer(envelope, outcome="REJECTED", reason=reasons.reason(reasons.DISABLED, "it stops"))
    assert session.on_messages([stops], after(2000)) == []
    session.next_leg()
    assert session.send_again(after(2000)) == []
    ((envelope, fields),) = sent(session, 2000)
    assert times(fields) == (3000, 1000)
    stops = answer(envelope, outcome="REJECTED", reason=reasons.reason(reasons.DISABLED, "it stops, too"))
    session.on_messages([stops], after(5500))
    session.next_leg()
    session.send_again(after(5500))
    ((_, fields),) = sent(session, 5500)
    assert times(fields) == (None, 500)


def test_one_for_which_there_was_no_room_is_tried_again_with_the_delay_that_is_left(session: ClientSession) -> None:
    submit(session, delay_ms=5000, timeout_ms=1000, retry=UNTIL_DEADLINE)
    ((envelope, _),) = sent(session, 0)
    session.on_messages([answer(envelope, outcome="REJECTED", reason="overload: no room")], after(1000))
    session.on_tick(after(2000))
    ((_, fields),) = sent(session, 2000)
    assert times(fields) == (3000, 1000)


@pytest.mark.parametrize("at_least_once", [False, True])
def test_a_lost_broker_may_have_run_it_for_all_that_its_client_knows(
    session: ClientSession, at_least_once: bool
) -> None:
    """Even before its time, which the broker measures by its own clock."""
    submit(session, delay_ms=5000, timeout_ms=1000, at_least_once=at_least_once)
    sent(session, 0)
    ended = session.on_lost(after(2000))
    if at_least_once:
        ((_, fields),) = sent(session, 2000)
        assert times(fields) == (3000, 1000)
        (done,) = session.cancel({"token"}) or session.close()
        assert done.outcome == "UNKNOWN"
    else:
        assert [verdict(done) for done in ended] == [("token", "UNKNOWN", "broker_lost")]


def test_what_a_client_writes_into_its_own_headers_is_no_delay(session: ClientSession) -> None:
    submit(session, "later", delay_ms=5000)
    submit(session, "plain", more=headers.write_more(own={"x": ',"delay_ms":7', ',"delay_ms":': ""}))
    (_, (_, fields)) = sent(session, 100)
    assert times(fields) == (None, 1000)
