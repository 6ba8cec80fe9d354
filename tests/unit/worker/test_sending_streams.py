"""How parts get from functions to the session: at once if they come seldom, together if they come quickly."""

from __future__ import annotations

import pytest
from tests.unit.worker.conftest import Ready

from famulus.core.clock import NEVER_NS
from famulus.core.session.open_stream import OpenStream
from famulus.net.waiting import Bell
from famulus.worker.calls import Call
from famulus.worker.outgoing_parts import OutgoingParts
from famulus.worker.service import Service
from famulus.worker.streams import HOLD_NS, Streams

START_NS = 10**12


class Way:
    """The whole of it, with a function that is us."""

    def __init__(self, ready: Ready, bell: Bell) -> None:
        self.ready = ready
        self.streams = Streams(bell, [ready.session])

    def begin(self, credit: int = 1000) -> OutgoingParts:
        begun = self.streams.begin(self.call(credit))
        assert begun is not None
        return begun.parts

    def call(self, credit: int) -> Call:
        return Call(self.ready.given(credit), Service("test", bytes.upper), NEVER_NS)

    @property
    def tells(self) -> int:
        """How often it was told that there is something to look at, since it looked."""
        return len(self.streams._listed)


@pytest.fixture
def way(ready: Ready, bell: Bell) -> Way:
    return Way(ready, bell)


def test_one_part_goes_at_once(way: Way) -> None:
    parts = way.begin()
    parts.add(b"1")
    assert way.tells == 1
    way.streams.send(START_NS)
    assert way.ready.take() == [b"1"]


def test_what_comes_quickly_goes_together_and_nobody_is_woken_for_it(way: Way) -> None:
    parts = way.begin()
    now_ns = START_NS
    parts.add(b"0")
    way.streams.send(now_ns)
    way.ready.take()
    for look in range(1, 5):
        for body in (b"a", b"b", b"c"):
            parts.add(body)
            assert way.tells == 0, f"look {look}"
            way.streams.send(now_ns + 1)
        assert way.ready.take() == []
        assert way.streams.next_due_ns == now_ns + HOLD_NS
        now_ns += HOLD_NS
        way.streams.send(now_ns)
        assert way.ready.take() == [b"a", b"b", b"c"]
    way.streams.send(now_ns + HOLD_NS)
    assert way.streams.next_due_ns == NEVER_NS, "nothing comes any more, so nobody looks"
    parts.add(b"late")
    assert way.tells == 1
    way.streams.send(now_ns + 2 * HOLD_NS)
    assert way.ready.take() == [b"late"]


def test_the_last_one_that_is_wanted_does_not_wait_for_others(way: Way) -> None:
    parts = way.begin(credit=3)
    parts.add(b"1")
    way.streams.send(START_NS)
    parts.add(b"2")
    parts.add(b"3")
    assert way.tells == 1
    way.streams.send(START_NS + 1)
    assert way.ready.take() == [b"1", b"2", b"3"]


def test_what_is_there_at_the_end_goes_before_the_answer(way: Way) -> None:
    parts, other = way.begin(), way.begin()
    for each in (parts, other):
        each.add(b"1")
    way.streams.send(START_NS)
    parts.add(b"2")
    way.ready.take()
    way.streams.end(parts.given)
    assert way.ready.take() == [b"2"]
    assert parts.closed, "whoever goes on all the same hears of it"
    assert way.streams.next_due_ns == START_NS + HOLD_NS
    way.streams.end(other.given)
    assert way.streams.next_due_ns == NEVER_NS
    way.streams.end(other.given)


def test_what_was_given_by_a_lost_broker_does_not_begin(way: Way) -> None:
    call = way.call(1)
    way.ready.session.on_link_lost(START_NS)
    assert way.streams.begin(call) is None
    assert way.streams.running == {}


def test_credit_and_losses_reach_their_own_stream_only(way: Way) -> None:
    parts, other, ended = way.begin(), way.begin(), way.begin()
    way.streams.end(ended.given)
    session = way.ready.session
    for each in (parts, ended):
        wants_more = OpenStream(each.given)
        wants_more.last = 2000
        session.credited.append(wants_more)
    session.lost_streams += [other.given, ended.given]
    way.streams.follow(session)
    assert (parts.last, parts.closed) == (2000, "")
    assert other.last == 1000
    assert other.closed
    assert (session.credited, session.lost_streams) == ([], [])


def test_the_end_waits_for_functions_that_have_begun_and_for_no_others(way: Way) -> None:
    parts, waiting = way.begin(), way.begin()
    parts.given.has_begun = True
    parts.over.set()
    way.streams.close_all()
    assert parts.closed
    assert waiting.closed
