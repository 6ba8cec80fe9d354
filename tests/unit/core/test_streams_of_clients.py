"""Streams at a client's session: parts in order and within the credit, one outcome, and nothing is sent twice."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from tests.unit.core.test_client_session import START_NS, answer, send_all, submit, verdict

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.session.client import GRACE_NS, ClientSession, Done, Streamed
from famulus.core.session.kept_bodies import SPARE_BYTES_MAX
from famulus.core.session.retry import UNTIL_DEADLINE
from famulus.wire import headers, reasons, stream

Frames = list[bytes]


@pytest.fixture
def session() -> ClientSession:
    numbers = count(1)
    return ClientSession(first_number=41, new_id=lambda: f"uuid-{next(numbers)}")


def begin(session: ClientSession, token: object = "token", credit: int = 4, **fields: Any) -> bytes:
    """The envelope under which a stream was sent."""
    submit(session, token, credit=credit, **fields)
    (envelope,) = send_all(session)
    return envelope


def part(envelope: bytes, number: int, body: bytes = b"part") -> Frames:
    return [stream.write_place(envelope, number), headers.PART, body]


def parts(envelope: bytes, *numbers: int) -> list[Frames]:
    return [part(envelope, number, b"%d" % number) for number in numbers]


def end(envelope: bytes, said: int | None, outcome: str = "OK", reason: str = "") -> Frames:
    """As a broker writes it: what the worker says about parts comes before the outcome."""
    more = {} if said is None else {"parts": said}
    fields: dict[str, Any] = {"message_id": "m", "service": "echo", **more, "outcome": outcome}
    return [envelope, headers.write("TASK", "RESPONSE", **fields, reason=reason or None), b""]


def fed(session: ClientSession) -> Streamed:
    """The one stream that has news."""
    (streamed,) = session.take_fed()
    return streamed


def taken(streamed: Streamed) -> list[bytes]:
    return [streamed.take() for _ in range(len(streamed.parts))]


# -- what comes -----------------------------------------------------------------------------------------------------


def test_the_credit_is_in_the_header_and_the_header_is_always_the_same(session: ClientSession) -> None:
    for _ in range(2):
        submit(session, credit=7, more=b',"key":"a"')
    (first, second) = session.next_to_send(START_NS, 2)
    asked = headers.read_task_request(first[1])
    assert asked is not None
    assert (asked.credit, asked.key) == (7, "a")
    assert first[1] == second[1]
    assert len(first[0]) + stream.NUMBER_BYTES <= 255


def test_parts_are_given_in_order_and_the_end_says_ok(session: ClientSession) -> None:
    envelope = begin(session)
    assert session.on_messages(parts(envelope, 1, 2)) == []
    streamed = fed(session)
    assert taken(streamed) == [b"1", b"2"]
    (done,) = session.on_messages([*parts(envelope, 3), end(envelope, 3)])
    assert done is streamed
    assert verdict(done) == ("token", "OK", "")
    assert taken(streamed) == [b"3"]
    assert (len(session), session.next_due_ns) == (0, NEVER_NS)


def test_news_of_many_parts_is_told_once(session: ClientSession) -> None:
    one, other = begin(session, "one", 100), begin(session, "other", 100)
    session.on_messages(parts(one, *range(1, 51)) + parts(other, 1) + parts(one, *range(51, 100)))
    assert [each.token for each in session.take_fed()] == ["one", "other"]
    assert session.take_fed() == []
    session.on_messages(parts(one, 100))
    assert fed(session).came == 100


def test_a_plain_answer_is_the_only_part(session: ClientSession) -> None:
    envelope = begin(session)
    (done,) = session.on_messages([answer(envelope, b"whole", outcome="OK")])
    assert verdict(done) == ("token", "OK", "")
    assert isinstance(done, Streamed)
    assert taken(done) == [b"whole"]


def test_a_stream_may_have_no_parts_at_all(session: ClientSession) -> None:
    (done,) = session.on_messages([end(begin(session), 0)])
    assert isinstance(done, Streamed)
    assert (verdict(done), taken(done)) == (("token", "OK", ""), [])


@pytest.mark.parametrize("outcome", ["ERROR", "UNKNOWN", "REJECTED"])
def test_parts_that_came_before_an_error_are_kept_for_the_reader(session: ClientSession, outcome: str) -> None:
    envelope = begin(session, retry=UNTIL_DEADLINE)
    code = {"ERROR": "mine", "UNKNOWN": reasons.WORKER_LOST, "REJECTED": reasons.NO_WORKER}[outcome]
    (done,) = session.on_messages([*parts(envelope, 1), end(envelope, None, outcome, f"{code}: no")], START_NS)
    assert isinstance(done, Streamed)
    assert taken(done) == [b"1"]
    # What gave parts did run.
    assert verdict(done) == ("token", "UNKNOWN" if outcome == "REJECTED" else outcome, code)


@pytest.mark.parametrize("said", [None, 0, 1, 3])
def test_an_end_that_counts_otherwise_is_not_trusted(session: ClientSession, said: int | None) -> None:
    envelope = begin(session)
    (done,) = session.on_messages([*parts(envelope, 1, 2), end(envelope, said)])
    assert verdict(done) == ("token", "UNKNOWN", reasons.INCOMPLETE)


def test_nor_is_one_that_counts_parts_of_which_none_came(session: ClientSession) -> None:
    (done,) = session.on_messages([end(begin(session), 3)])
    assert verdict(done) == ("token", "UNKNOWN", reasons.INCOMPLETE)


@pytest.mark.parametrize("numbers", [(2,), (1, 1), (1, 3), (1, 2, 3, 4, 5)])
def test_what_is_not_the_next_part_or_was_not_asked_for_ends_the_stream(
    session: ClientSession, numbers: tuple[int, ...]
) -> None:
    envelope = begin(session, credit=4)
    (done,) = session.on_messages(parts(envelope, *numbers))
    assert verdict(done) == ("token", "UNKNOWN", reasons.INCOMPLETE)
    assert isinstance(done, Streamed)
    assert taken(done) == [b"%d" % number for number in numbers[:-1]]
    # Nobody wants the rest.
    assert session.take_cancels(session.leg) == [[b"", headers.CANCEL, envelope]]
    assert session.on_messages([*parts(envelope, 2), end(envelope, 2)]) == []
    assert session.late == 2


def test_parts_for_nobody_are_late(session: ClientSession) -> None:
    submit(session)
    (plain,) = send_all(session)
    envelope = begin(session)
    strays = [*parts(plain, 1), *parts(b"nobody", 1), [b"", headers.PART, b""], [b"x", headers.PART], []]
    assert session.on_messages(strays) == []
    assert session.late == len(strays)
    assert session.on_messages(parts(envelope, 1)) == []
    assert fed(session).came == 1


def test_a_part_for_one_that_is_not_sent_is_late(session: ClientSession) -> None:
    submit(session, credit=4)
    ((envelope, _, _),) = session.next_to_send(START_NS, 1)
    session.on_messages(parts(envelope, 1))
    assert (session.late, session.take_fed()) == (1, [])


def test_progress_costs_no_credit_and_the_latest_is_kept(session: ClientSession) -> None:
    envelope = begin(session, credit=1)
    told = [part(envelope, stream.PROGRESS, stream.write_progress(done, "reading")) for done in (0.1, 0.2, 0.3)]
    session.on_messages([told[0], *parts(envelope, 1), *told[1:]])
    streamed = fed(session)
    assert streamed.progress == stream.Progress(0.3, "reading")
    assert taken(streamed) == [b"1"]


def test_progress_that_cannot_be_read_ends_the_stream(session: ClientSession) -> None:
    (done,) = session.on_messages([part(begin(session), stream.PROGRESS, b"half")])
    assert verdict(done) == ("token", "UNKNOWN", reasons.INCOMPLETE)


# -- credit ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("credit", "first_asked_after"), [(1, 1), (2, 1), (3, 2), (4, 2), (64, 32)])
def test_more_is_wanted_when_half_of_the_credit_is_used_up(
    session: ClientSession, credit: int, first_asked_after: int
) -> None:
    envelope = begin(session, credit=credit)
    session.on_messages(parts(envelope, *range(1, credit + 1)))
    streamed = fed(session)
    asked_after = 0
    while not streamed.is_low():
        streamed.take()
        asked_after += 1
    assert asked_after == first_asked_after
    assert not streamed.is_low(), "it is told only once"
    session.want(streamed)
    (wanting,) = session.wanting.pop(session.leg)
    _, header, body = wanting.want()
    assert (header, stream.read_credit(body)) == (headers.CREDIT, (envelope, first_asked_after + credit))


def test_a_reader_that_takes_nothing_gets_no_more_than_the_credit(session: ClientSession) -> None:
    envelope = begin(session, credit=4)
    session.on_messages(parts(envelope, 1, 2, 3, 4))
    streamed = fed(session)
    taken(streamed)
    streamed.want()
    assert session.on_messages(parts(envelope, 5, 6, 7, 8)) == []
    assert len(streamed.parts) == 4
    (done,) = session.on_messages(parts(envelope, 9))
    assert verdict(done) == ("token", "UNKNOWN", reasons.INCOMPLETE)


def test_nothing_more_is_wanted_of_a_stream_that_has_ended(session: ClientSession) -> None:
    envelope = begin(session, credit=1)
    session.on_messages([*parts(envelope, 1), end(envelope, 1)])
    session.want(fed(session))
    assert not session.wanting


def test_credit_goes_to_the_broker_that_has_the_stream(session: ClientSession) -> None:
    envelope = begin(session, credit=1)
    former, _ = session.next_leg()
    session.on_messages(parts(envelope, 1), START_NS, former)
    streamed = fed(session)
    session.want(streamed)
    assert session.wanting == {former: [streamed]}
    session.on_lost(START_NS, former)
    assert not session.wanting


# -- one that is lost, refused or not wanted ------------------------------------------------------------------------


@pytest.mark.parametrize("retry", [None, UNTIL_DEADLINE])
def test_a_stream_whose_broker_is_lost_is_not_sent_again(session: ClientSession, retry: Any) -> None:
    session.on_brokers(True, "")
    envelope = begin(session, retry=retry)
    session.on_messages(parts(envelope, 1, 2))
    (done,) = session.on_lost(START_NS)
    assert verdict(done) == ("token", "UNKNOWN", reasons.BROKER_LOST)
    assert isinstance(done, Streamed)
    assert taken(done) == [b"1", b"2"]
    assert session.unsent == len(session) == 0


def test_one_that_was_refused_is_sent_again_under_another_envelope(session: ClientSession) -> None:
    envelope = begin(session, retry=UNTIL_DEADLINE)
    assert session.on_messages([end(envelope, None, "REJECTED", "overload: no")], START_NS) == []
    session.on_tick(START_NS + NS_PER_S // 2)
    (again,) = send_all(session)
    assert again != envelope
    session.on_messages([*parts(envelope, 1), *parts(again, 1)])
    assert session.late == 1
    assert fed(session).came == 1


def leave(session: ClientSession) -> list[Done]:
    """Its broker stops, and nobody else is there."""
    session.on_messages([[b"", headers.LEAVING, b""]], START_NS)
    return session.pass_on(START_NS)


def test_a_broker_that_leaves_has_not_run_what_has_no_parts(session: ClientSession) -> None:
    begin(session, retry=UNTIL_DEADLINE)
    assert leave(session) == []
    assert len(session) == 1
    begin(session, "other")
    assert [verdict(done) for done in leave(session)] == [("other", "REJECTED", reasons.DISABLED)]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_but_one_with_parts_is_unknown_and_not_sent_again(session: ClientSession, elsewhere: bool) -> None:
    session.on_brokers(elsewhere, "")
    envelope = begin(session, retry=UNTIL_DEADLINE)
    session.on_messages(parts(envelope, 1))
    session.on_messages([[b"", headers.LEAVING, b""]], START_NS)
    ended = session.send_again(START_NS) if elsewhere else session.pass_on(START_NS)
    assert [verdict(done) for done in ended] == [("token", "UNKNOWN", reasons.BROKER_LOST)]
    assert session.unsent == len(session) == 0


def test_its_body_is_let_go_with_the_first_part(session: ClientSession) -> None:
    envelope = begin(session, retry=UNTIL_DEADLINE, body=bytes(1000))
    session.on_messages([part(envelope, stream.PROGRESS, stream.write_progress(0.5))])
    assert session._bodies.spare_bytes == SPARE_BYTES_MAX - 1000
    session.on_messages(parts(envelope, 1))
    assert session._bodies.spare_bytes == SPARE_BYTES_MAX
    session.on_messages([end(envelope, 1)])
    assert session._bodies.spare_bytes == SPARE_BYTES_MAX


def test_what_comes_for_a_reader_that_has_left_is_dropped(session: ClientSession) -> None:
    envelope = begin(session)
    session.on_messages(parts(envelope, 1))
    streamed = fed(session)
    assert session.cancel({"token"}) == []
    assert session.take_cancels(session.leg) == [[b"", headers.CANCEL, envelope]]
    session.on_messages(parts(envelope, 2, 3))
    assert len(streamed.parts) == 1
    (done,) = session.on_messages([end(envelope, None, "UNKNOWN", "cancelled: it was")])
    assert verdict(done) == ("token", "UNKNOWN", reasons.CANCELLED)


def test_a_broker_that_is_silent_is_lost(session: ClientSession) -> None:
    envelope = begin(session, timeout_ms=1000)
    session.on_messages(parts(envelope, 1))
    assert session.on_tick(START_NS + NS_PER_S + NS_PER_S // 2) == []
    (done,) = session.on_tick(START_NS + NS_PER_S + GRACE_NS + NS_PER_S)
    assert verdict(done) == ("token", "UNKNOWN", reasons.BROKER_LOST)
