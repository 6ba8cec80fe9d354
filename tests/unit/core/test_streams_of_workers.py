"""A worker's session and its streams: never a part more than there is credit, and nothing is left at the end."""

from __future__ import annotations

import json

import pytest

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.session.header_cache import Given
from famulus.core.session.open_stream import OpenStream
from famulus.core.session.worker import SessionState, WorkerSession
from famulus.wire import headers, limits, stream
from famulus.wire.stream import PROGRESS

NOW_NS = 1000 * NS_PER_S


class Talk:
    """A session that may be given tasks."""

    def __init__(self) -> None:
        self.session = WorkerSession("bob", ["count"], 2, 700, lambda: 1.0)
        self.session.on_link(NOW_NS)
        self.hears(b"", headers.write("CONFIG", "RESPONSE", identity="bob", heartbeat_ms=1000, version=1, digest="d"))
        self.hears(b"", headers.write("PONG", "RESPONSE", version=1, digest="d"))
        assert self.session.state is SessionState.READY
        self.session.outbox.clear()

    def hears(self, envelope: bytes, header: bytes, body: bytes = b"") -> list[Given]:
        return self.session.on_messages(NOW_NS, [[envelope, header, body]])

    def given(self, ticket: bytes = b"t1", credit: int = 3) -> Given:
        more = {"credit": credit} if credit else {}
        (given,) = self.hears(
            ticket, headers.write("TASK", "REQUEST", service="count", message_id="m", attempt=1, **more)
        )
        return given

    def begun(self, ticket: bytes = b"t1", credit: int = 3) -> Given:
        given = self.given(ticket, credit)
        assert self.session.begin_stream(given) is not None
        return given

    def granted(self, last: int, ticket: bytes = b"t1") -> list[int]:
        """What was made of this credit."""
        self.hears(b"", headers.CREDIT, stream.write_credit(ticket, last))
        credited = [each.last for each in self.session.credited]
        self.session.credited.clear()
        return credited

    def says(self) -> list[tuple[bytes, bytes, bytes]]:
        said = [(envelope, header, body) for envelope, header, body in self.session.outbox]
        self.session.outbox.clear()
        return said


@pytest.fixture
def talk() -> Talk:
    return Talk()


def part(number: int, body: bytes, ticket: bytes = b"t1") -> tuple[bytes, bytes, bytes]:
    return ticket + number.to_bytes(4, "big"), headers.PART, body


def test_parts_are_counted_from_1_under_the_ticket(talk: Talk) -> None:
    given = talk.begun()
    talk.session.send_parts(given, [b"a", b"b"])
    talk.session.send_parts(given, [b"c"])
    assert talk.says() == [part(1, b"a"), part(2, b"b"), part(3, b"c")]
    assert talk.session.answer(given, "OK", "", b"")
    ((ticket, header, body),) = talk.says()
    assert (ticket, body) == (b"t1", b"")
    assert json.loads(header) == {
        "request": "TASK",
        "type": "RESPONSE",
        "message_id": "m",
        "service": "count",
        "outcome": "OK",
        "parts": 3,
    }


def test_the_answer_says_so_also_if_there_were_none_or_it_failed(talk: Talk) -> None:
    talk.session.answer(talk.begun(), "OK", "", b"")
    talk.session.answer(talk.begun(), "ERROR", "ValueError: no", b"")
    first, second = [json.loads(header) for _, header, _ in talk.says()]
    assert first["parts"] == 0
    assert (second["outcome"], second["reason"], second["parts"]) == ("ERROR", "ValueError: no", 0)


def test_more_than_is_wanted_is_our_own_fault(talk: Talk) -> None:
    given = talk.begun(credit=2)
    with pytest.raises(AssertionError):
        talk.session.send_parts(given, [b"a", b"b", b"c"])
    assert talk.says() == []


def test_the_last_part_that_is_wanted_only_grows(talk: Talk) -> None:
    given = talk.begun()
    assert talk.granted(5) == [5]
    assert talk.granted(5) == []
    assert talk.granted(4) == []
    assert talk.granted(0) == []
    assert talk.granted(6) == [6]
    talk.session.send_parts(given, [b"x"] * 6)
    assert len(talk.says()) == 6


def test_nobody_can_want_more_than_may_be_under_way(talk: Talk) -> None:
    given = talk.begun()
    assert talk.granted(limits.CREDIT_MAX + 1) == []
    assert talk.granted(limits.CREDIT_MAX) == [limits.CREDIT_MAX]
    talk.session.send_parts(given, [b"x"])
    assert talk.granted(limits.CREDIT_MAX + 1) == [limits.CREDIT_MAX + 1]


@pytest.mark.parametrize("body", [b"", b"abc", b"\0\0\0\5", b"\0\0\0\5t2", b"\0\0\0\5t1\0"])
def test_a_wrong_credit_is_ignored(talk: Talk, body: bytes) -> None:
    talk.begun()
    talk.hears(b"", headers.CREDIT, body)
    assert talk.session.credited == []
    assert talk.says() == []


def test_another_spelling_of_the_header_counts_too(talk: Talk) -> None:
    talk.begun()
    header = json.dumps({"type": "REQUEST", "request": "CREDIT"}, indent=1).encode()
    talk.hears(b"", header, stream.write_credit(b"t1", 9))
    assert [each.last for each in talk.session.credited] == [9]


def test_credit_that_comes_before_its_task_has_begun_is_kept(talk: Talk) -> None:
    given = talk.given(credit=1)
    assert talk.granted(5) == []
    begun = talk.session.begin_stream(given)
    assert begun is not None
    assert begun.last == 5


def test_who_has_asked_for_no_stream_has_no_credit(talk: Talk) -> None:
    talk.given(credit=0)
    assert talk.granted(5) == []
    assert talk.session._streams == {}


def test_a_plain_answer_is_plain_whatever_credit_there_is(talk: Talk) -> None:
    given = talk.given()
    assert talk.granted(5) == []
    talk.session.answer(given, "OK", "", b"x")
    assert talk.says() == [(b"t1", headers.write_task_response("m", "count", "OK", ""), b"x")]
    assert talk.session._streams == {}


def test_after_the_end_nothing_counts(talk: Talk) -> None:
    given = talk.begun()
    talk.session.answer(given, "OK", "", b"")
    talk.says()
    assert talk.granted(5) == []
    talk.session.send_parts(given, [b"late"])
    assert not talk.session.send_progress(given, b"late")
    assert talk.session.begin_stream(given) is None
    assert talk.says() == []


def test_a_lost_broker_takes_its_streams_along(talk: Talk) -> None:
    lost, waits = talk.begun(b"t1"), talk.given(b"t2")
    talk.session.credited.append(OpenStream(lost))
    talk.session.on_link_lost(NOW_NS)
    assert talk.session.lost_streams == [lost]
    assert talk.session.credited == []
    assert talk.session.begin_stream(waits) is None
    talk.session.send_parts(lost, [b"late"])
    assert talk.says() == []


def test_a_ticket_may_come_again_from_the_next_broker(talk: Talk) -> None:
    former = talk.begun()
    talk.hears(b"", headers.write_error("not_connected", "connect again"))
    assert talk.session.lost_streams == [former]
    talk.hears(b"", headers.write("CONFIG", "RESPONSE", identity="bob", heartbeat_ms=1000, version=1, digest="d"))
    talk.hears(b"", headers.write("PONG", "RESPONSE", version=1, digest="d"))
    talk.says()
    now = talk.begun()
    talk.session.send_parts(former, [b"late"])
    assert not talk.session.send_progress(former, b"late")
    assert talk.says() == []
    talk.session.send_parts(now, [b"x"])
    assert talk.says() == [part(1, b"x")]


def test_one_that_drains_or_moves_goes_on_with_its_streams(talk: Talk) -> None:
    given = talk.begun()
    talk.session.drain(NOW_NS + NS_PER_MS)
    talk.says()
    assert talk.granted(4) == [4]
    talk.session.send_parts(given, [b"x"] * 4)
    assert len(talk.says()) == 4


def test_progress_has_the_number_0_and_needs_no_stream(talk: Talk) -> None:
    given = talk.given(credit=0)
    assert talk.session.send_progress(given, b"half")
    assert talk.says() == [part(PROGRESS, b"half")]
