"""Streams: parts go to whoever asked, each once and in order, and no more of them than are wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.core.test_delegation_at_the_broker import Neighbour, meet

from famulus.core.clock import NS_PER_MS
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.cancels import ANSWER_NS
from famulus.wire import headers, limits, stream

if TYPE_CHECKING:
    from tests.unit.core.conftest import Broker, Client, Heard, Worker

CREDIT = 3
TOO_LONG = b"e" * (limits.STREAM_ENVELOPE_BYTES_MAX + 1)
ANSWER_MS = ANSWER_NS // NS_PER_MS
STOPPED: dict[str, Any] = {"outcome": "UNKNOWN", "reason": "cancelled: it was stopped"}
NOT_BEGUN: dict[str, Any] = {"outcome": "REJECTED", "reason": "cancelled: it was still waiting"}


@pytest.fixture
def ann(broker: Broker) -> Client:
    return broker.client("ann")


@pytest.fixture
def bob(broker: Broker) -> Worker:
    return broker.worker("bob", "echo", "again").starts()


def ask(client: Client, worker: Worker, service: str = "echo", credit: int = CREDIT, **fields: Any) -> Heard:
    """What the worker gets, if somebody asks for a stream."""
    client.asks(service, b"", b"e1", credit=credit, **fields)
    return worker.gets_task()


def part(worker: Worker, task: Heard, number: int, body: bytes = b"") -> None:
    worker.sends(stream.write_place(task.envelope, number), headers.PART, body)


def parts_of(client: Client, envelope: bytes = b"e1") -> list[int]:
    """The numbers of the parts, and nothing else may be heard."""
    numbers = []
    for heard in client.hears():
        assert heard.fields == {"request": "PART", "type": "RESPONSE"}
        assert heard.envelope[:-4] == envelope
        numbers.append(int.from_bytes(heard.envelope[-4:], "big"))
    return numbers


def want(client: Client, last: int, envelope: bytes = b"e1") -> None:
    client.sends(b"", headers.CREDIT, stream.write_credit(envelope, last))


def told_to_cancel(worker: Worker) -> bytes:
    message = worker.hears_one()
    assert (message.kind, message.envelope) == ("CANCEL", b"")
    return message.body


def is_forgotten(broker: Broker) -> bool:
    return not broker.core.streams and not broker.core.streams._by_client


# -- parts and credit ---------------------------------------------------------------------------------------------


def test_parts_go_to_the_client_and_then_the_outcome(broker: Broker, ann: Client, bob: Worker) -> None:
    task = ask(ann, bob)
    assert task.fields["credit"] == CREDIT
    for number, body in ((1, b"one"), (2, b""), (3, b"three")):
        part(bob, task, number, body)
        heard = ann.hears_one()
        assert (heard.envelope, heard.body) == (stream.write_place(b"e1", number), body)
    bob.answers(task, parts=3)
    answer = ann.hears_one()
    assert (answer.envelope, answer.fields["outcome"], answer.fields["parts"]) == (b"e1", "OK", 3)
    assert is_forgotten(broker)
    assert broker.core.counters.late == broker.core.counters.faults == 0


def test_parts_need_no_router(broker: Broker, ann: Client, bob: Worker) -> None:
    task = ask(ann, bob)
    broker.routers_answer = False
    part(bob, task, 1)
    want(ann, 5)
    assert broker.asked == []


def test_the_second_stream_with_the_same_header_needs_no_router(broker: Broker, ann: Client, bob: Worker) -> None:
    bob.answers(ask(ann, bob))
    ann.hears()
    part(bob, ask(ann, bob), 1)
    assert parts_of(ann) == [1]
    assert broker.core.counters.by_flow == 1


def test_credit_goes_to_the_worker_and_lets_it_go_on(ann: Client, bob: Worker) -> None:
    task = ask(ann, bob)
    for number in (1, 2, 3):
        part(bob, task, number)
    want(ann, 5)
    credit = bob.hears_one()
    assert (credit.kind, credit.envelope, stream.read_credit(credit.body)) == ("CREDIT", b"", (task.envelope, 5))
    part(bob, task, 4)
    part(bob, task, 5)
    assert parts_of(ann) == [1, 2, 3, 4, 5]


def test_credit_that_says_nothing_new_goes_nowhere(broker: Broker, ann: Client, bob: Worker) -> None:
    task = ask(ann, bob)
    want(ann, 10)  # it has no part yet
    part(bob, task, 1)
    want(ann, 5)
    bob.hears_one()
    for last in (5, 4, 0):
        want(ann, last)
    want(ann, 7, b"e2")
    want(broker.client("eve"), 7)
    assert bob.hears() == []
    bob.answers(task, parts=1)
    want(ann, 8)
    assert bob.hears() == []
    assert broker.core.counters.faults == 0


@pytest.mark.parametrize("body", [b"", b"abc", stream.write_credit(b"e1", limits.CREDIT_MAX + 2)])
def test_nonsensical_credit_is_a_fault(broker: Broker, ann: Client, bob: Worker, body: bytes) -> None:
    part(bob, ask(ann, bob), 1)
    ann.hears()
    ann.sends(b"c", headers.CREDIT, body)
    heard = ann.hears_one()
    assert (heard.envelope, heard.code) == (b"c", "bad_frames")
    assert bob.hears() == []
    assert broker.core.counters.faults == 1


def test_credit_is_written_in_one_way_only(ann: Client, bob: Worker) -> None:
    part(bob, ask(ann, bob), 1)
    ann.hears()
    ann.sends(b"c", headers.CREDIT + b" ", stream.write_credit(b"e1", 9))
    heard = ann.hears_one()
    assert (heard.envelope, heard.code) == (b"c", "bad_header")
    assert headers.CREDIT.decode() in heard.fields["reason"]


def test_who_may_not_come_any_more_gives_no_credit(broker: Broker, ann: Client, bob: Worker) -> None:
    part(bob, ask(ann, bob), 1)
    ann.hears()
    broker.core.accounts.guard()
    want(ann, 9)
    assert ann.hears_one().code == "not_allowed"
    assert bob.hears() == []


@pytest.mark.parametrize("first", [True, False])
def test_an_envelope_must_leave_room_for_the_number(broker: Broker, ann: Client, bob: Worker, *, first: bool) -> None:
    if not first:
        bob.answers(ask(ann, bob))
        ann.hears()
    ann.asks("echo", b"", TOO_LONG, credit=CREDIT)
    refusal = ann.hears_one()
    assert (refusal.envelope, refusal.kind, refusal.code) == (TOO_LONG, "ERROR", "bad_frames")
    assert "251" in refusal.fields["reason"]
    assert bob.hears() == []
    assert broker.core.outcomes.open_tasks == 0


def test_a_plain_task_may_have_a_longer_envelope(ann: Client, bob: Worker) -> None:
    for _ in range(2):
        ann.asks("echo", b"", TOO_LONG)
        bob.answers(bob.gets_task())
        assert ann.hears_one().envelope == TOO_LONG


def test_the_longest_envelope_has_parts(ann: Client, bob: Worker) -> None:
    envelope = TOO_LONG[:-1]
    ann.asks("echo", b"", envelope, credit=CREDIT)
    part(bob, bob.gets_task(), 1)
    assert parts_of(ann, envelope) == [1]


# -- what workers must not do -------------------------------------------------------------------------------------


@pytest.mark.parametrize("numbers", [[2], [1, 1], [1, 3], [1, 2, 3, 4]])
def test_a_part_that_is_not_next_or_not_wanted_ends_it(
    broker: Broker, ann: Client, bob: Worker, numbers: list[int]
) -> None:
    task = ask(ann, bob, "again")
    for number in numbers[:-1]:
        part(bob, task, number)
    assert parts_of(ann) == numbers[:-1]
    part(bob, task, numbers[-1])
    assert ann.hears_outcome() == "UNKNOWN bad_header"
    cancel, told = bob.hears()
    assert (cancel.kind, cancel.body) == ("CANCEL", task.envelope)
    assert (told.kind, told.code) == ("ERROR", "bad_frames")
    assert is_forgotten(broker)
    # Its slot is taken until it says that it has stopped.
    ann.asks("again", b"next", b"e2")
    assert bob.hears() == []
    part(bob, task, 2)
    bob.answers(task, **STOPPED)
    assert bob.gets_task().body == b"next"
    assert ann.hears() == []


def test_who_did_not_ask_for_a_stream_gets_none(ann: Client, bob: Worker) -> None:
    part(bob, ask(ann, bob, credit=0), 1)
    assert ann.hears_outcome() == "UNKNOWN bad_header"


def test_a_part_that_is_too_large_ends_it(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(Bounds(body_bytes_max=2000))
    ann, bob = broker.client("ann"), broker.worker("bob").starts()
    task = ask(ann, bob)
    part(bob, task, 1, b"x" * 2000)
    part(bob, task, 2, b"x" * 2001)
    assert [heard.kind for heard in ann.hears()] == ["PART", "TASK"]
    assert [heard.kind for heard in bob.hears()] == ["CANCEL", "ERROR"]


def test_a_part_under_the_bare_ticket_is_a_bad_answer(ann: Client, bob: Worker) -> None:
    task = ask(ann, bob)
    bob.sends(task.envelope, headers.PART, b"")
    assert ann.hears_outcome() == "UNKNOWN bad_header"


def test_a_part_written_otherwise_is_a_fault(ann: Client, bob: Worker) -> None:
    task = ask(ann, bob)
    bob.sends(stream.write_place(task.envelope, 1), headers.PART + b" ", b"")
    assert bob.hears_one().code == "bad_header"
    assert ann.hears() == []


def test_whose_session_is_gone_is_told_so(broker: Broker) -> None:
    eve = broker.worker("eve")
    eve.sends(stream.write_place(bytes(8), 1), headers.PART, b"")
    assert eve.hears_one().code == "not_connected"


# -- parts that come too late -------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [b"", b"abc", bytes(12)])
def test_parts_of_nothing_are_late(broker: Broker, bob: Worker, place: bytes) -> None:
    bob.sends(place, headers.PART, b"")
    assert bob.hears() == []
    assert broker.core.counters.late == 1


def test_after_its_answer_there_are_no_parts(broker: Broker, ann: Client, bob: Worker) -> None:
    task = ask(ann, bob)
    bob.answers(task)
    ann.hears()
    part(bob, task, 1)
    assert ann.hears() == []
    assert broker.core.counters.late == 1


def test_after_its_deadline_there_are_no_parts(broker: Broker, ann: Client, bob: Worker) -> None:
    task = ask(ann, bob, timeout_ms=500)
    part(bob, task, 1)
    ann.hears()
    broker.later(520, bob)
    assert ann.hears_outcome() == "UNKNOWN expired"
    assert is_forgotten(broker)
    part(bob, task, 2)
    assert ann.hears() == []
    assert broker.core.counters.late == 1


def test_a_stream_that_is_left_early_is_cancelled(broker: Broker, ann: Client, bob: Worker) -> None:
    task = ask(ann, bob)
    part(bob, task, 1)
    ann.hears()
    ann.sends(b"", headers.CANCEL, b"e1")
    assert told_to_cancel(bob) == task.envelope
    part(bob, task, 2)
    want(ann, 9)
    assert ann.hears() == bob.hears() == []
    assert broker.core.counters.late == 1
    bob.answers(task, **STOPPED)
    assert ann.hears_outcome() == "UNKNOWN cancelled"
    assert is_forgotten(broker)


def test_who_has_sent_a_part_cannot_say_that_it_had_not_begun(ann: Client, bob: Worker) -> None:
    task = ask(ann, bob)
    part(bob, task, 1)
    ann.hears()
    ann.sends(b"", headers.CANCEL, b"e1")
    bob.answers(task, **NOT_BEGUN)
    assert ann.hears_outcome() == "UNKNOWN bad_header"


# -- losses -------------------------------------------------------------------------------------------------------


def lose(broker: Broker, worker: Worker) -> None:
    broker.core.sessions.gone([worker.peer])
    broker.settle()


def test_after_a_part_it_is_given_to_nobody_else(broker: Broker, ann: Client, bob: Worker) -> None:
    part(bob, ask(ann, bob, "again"), 1)
    ann.hears()
    joe = broker.worker("joe", "again").starts()
    lose(broker, bob)
    assert ann.hears_outcome() == "UNKNOWN worker_lost"
    assert joe.hears() == []
    assert is_forgotten(broker)


def test_before_the_first_part_it_is_as_any_task(broker: Broker, ann: Client, bob: Worker) -> None:
    former = ask(ann, bob, "again")
    joe = broker.worker("joe", "again").starts()
    lose(broker, bob)
    task = joe.gets_task()
    for number in (1, 2, 3):
        part(joe, task, number)
    assert parts_of(ann) == [1, 2, 3]
    bob.starts()
    part(bob, former, 1)
    assert ann.hears() == []
    assert broker.core.counters.late == 1


def test_a_broker_that_stops_ends_it(broker: Broker, ann: Client, bob: Worker) -> None:
    part(bob, ask(ann, bob), 1)
    ann.hears()
    broker.core.drain(100 * NS_PER_MS)
    broker.later(120)
    assert ann.hears_outcome() == "UNKNOWN broker_lost"
    assert is_forgotten(broker)
    assert broker.core.drained()


@pytest.mark.parametrize("service", ["echo", "again"])
def test_a_client_that_is_gone_is_sent_nothing_more(broker: Broker, ann: Client, bob: Worker, service: str) -> None:
    """Whatever the service says about other tasks: nobody else could get the rest."""
    task = ask(ann, bob, service)
    part(bob, task, 1)
    broker.core.on_clients_gone([ann.peer])
    broker.settle()
    assert told_to_cancel(bob) == task.envelope
    bob.answers(task, **STOPPED)
    assert is_forgotten(broker)


def test_a_client_that_takes_no_parts_is_sent_nothing_more(broker: Broker, ann: Client, bob: Worker) -> None:
    task = ask(ann, bob)
    ann.gone = True
    part(bob, task, 1)
    assert told_to_cancel(bob) == task.envelope
    part(bob, task, 2)
    broker.later(ANSWER_MS + 20, bob)
    assert is_forgotten(broker)
    assert broker.core.counters.refused_by_client == 2, "a part and the outcome"


# -- those who ask again ------------------------------------------------------------------------------------------


def test_of_several_who_asked_by_its_id_the_last_gets_the_parts(broker: Broker, ann: Client, bob: Worker) -> None:
    task = ask(ann, bob, message_id="mine")
    for envelope in (b"e2", b"e3"):
        ann.asks("echo", b"", envelope, message_id="mine", credit=CREDIT)
    part(bob, task, 1)
    first, second, heard = ann.hears()
    assert [(each.envelope, each.code) for each in (first, second)] == [(b"e1", "conflict"), (b"e2", "conflict")]
    assert heard.envelope == stream.write_place(b"e3", 1)
    want(ann, 5, b"e3")
    assert bob.hears_one().kind == "CREDIT"
    bob.answers(task, parts=1)
    assert [each.envelope for each in ann.hears()] == [b"e3"]
    assert is_forgotten(broker)


@pytest.mark.parametrize("outcome", ["", "OK", "UNKNOWN"])
def test_after_a_part_whoever_asks_again_gets_none(ann: Client, bob: Worker, broker: Broker, outcome: str) -> None:
    """Not even by running it again where that is allowed."""
    task = ask(ann, bob, "again", message_id="mine")
    part(bob, task, 1)
    if outcome == "OK":
        bob.answers(task, parts=1)
    elif outcome:
        lose(broker, bob)
    ann.hears()
    ann.asks("again", b"", b"e2", message_id="mine", credit=CREDIT)
    assert ann.hears_outcome() == "UNKNOWN conflict"


def test_who_asks_again_without_credit_gets_no_parts(ann: Client, bob: Worker) -> None:
    task = ask(ann, bob, message_id="mine")
    ann.asks("echo", b"", b"e2", message_id="mine")
    assert ann.hears_outcome() == "UNKNOWN conflict"
    part(bob, task, 1)
    assert parts_of(ann) == [1]


def test_one_answer_without_parts_is_repeated(ann: Client, bob: Worker) -> None:
    bob.answers(ask(ann, bob, message_id="mine"), b"all of it")
    ann.hears()
    ann.asks("echo", b"", b"e2", message_id="mine", credit=CREDIT)
    heard = ann.hears_one()
    assert (heard.fields["outcome"], heard.body) == ("OK", b"all of it")


def test_two_tasks_with_one_envelope_are_both_answered(broker: Broker, ann: Client, bob: Worker) -> None:
    """Whoever does that can give credit only to the latter."""
    joe = broker.worker("joe", "echo").starts()
    first = ask(ann, bob)
    second = ask(ann, joe)
    part(bob, first, 1)
    part(joe, second, 1)
    bob.answers(first, parts=1)
    want(ann, 5)
    assert joe.hears_one().kind == "CREDIT"
    joe.answers(second, parts=1)
    assert [heard.kind for heard in ann.hears()] == ["PART", "PART", "TASK", "TASK"]
    assert is_forgotten(broker)


# -- what is told of them -----------------------------------------------------------------------------------------


def test_how_long_a_stream_takes_is_up_to_its_reader(broker: Broker, ann: Client, bob: Worker) -> None:
    """So it says nothing about its service."""
    service = broker.core.services.by_name[b"echo"]
    for parts, is_counted in ((1, False), (0, True)):
        for _ in range(40):
            task = ask(ann, bob)
            if parts:
                part(bob, task, 1)
            broker.later(100, bob)
            bob.answers(task, mood="fine")
        assert (service.service_time.usual_ns > 0) is is_counted


def test_the_journal_counts_the_bytes_of_its_parts(
    broker: Broker, ann: Client, bob: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[tuple[object, ...]] = []
    facts = broker.core.facts
    monkeypatch.setattr(facts, "on", True)
    monkeypatch.setattr(facts, "_task", lambda *row: rows.append(row))
    task = ask(ann, bob)
    part(bob, task, 1, b"x" * 10)
    part(bob, task, 2, b"x" * 5)
    bob.answers(task, b"end", parts=2)
    assert [row[-1] for row in rows] == [18]


# -- progress -----------------------------------------------------------------------------------------------------


def test_progress_costs_no_credit_and_begins_no_stream(broker: Broker, ann: Client, bob: Worker) -> None:
    task = ask(ann, bob, credit=1)
    part(bob, task, 0, stream.write_progress(0.5))
    heard = ann.hears_one()
    assert (heard.envelope, stream.read_progress(heard.body).done) == (stream.write_place(b"e1", 0), 0.5)
    assert not broker.core.streams
    part(bob, task, 1)
    part(bob, task, 0, stream.write_progress(1))
    assert parts_of(ann) == [1, 0]


def test_the_client_of_a_plain_task_hears_no_progress(broker: Broker, ann: Client, bob: Worker) -> None:
    task = ask(ann, bob, credit=0)
    part(bob, task, 0, stream.write_progress(0.5))
    assert ann.hears() == bob.hears() == []
    bob.answers(task)
    assert ann.hears_outcome() == "OK"
    assert broker.core.counters.faults == 0


def test_progress_is_small(ann: Client, bob: Worker) -> None:
    task = ask(ann, bob)
    part(bob, task, 0, b"x" * (limits.PROGRESS_BYTES_MAX + 1))
    assert ann.hears_outcome() == "UNKNOWN bad_header"


def test_the_longest_note_fits(ann: Client, bob: Worker) -> None:
    for note in ("\x00" * 1000, "\N{PILE OF POO}" * 1000):
        assert len(stream.write_progress(0.123456789012345678, note)) <= limits.PROGRESS_BYTES_MAX


# -- at another broker --------------------------------------------------------------------------------------------


@pytest.fixture
def bee(broker: Broker) -> Neighbour:
    bee = Neighbour(broker, "bee", echo=2, again=2)
    meet(broker, bee)
    return bee


def ask_there(client: Client, neighbour: Neighbour, service: str = "echo") -> list[bytes]:
    client.asks(service, b"", b"e1", credit=CREDIT)
    return neighbour.gets()


def part_there(neighbour: Neighbour, task: list[bytes], number: int, body: bytes = b"") -> None:
    neighbour.says(stream.write_place(task[0], number), headers.PART, body)


def test_parts_come_and_credit_goes_through_another_broker(broker: Broker, ann: Client, bee: Neighbour) -> None:
    task = ask_there(ann, bee)
    assert b'"credit":3' in task[1]
    for number in (1, 2, 3, 0):
        part_there(bee, task, number)
    assert parts_of(ann) == [1, 2, 3, 0]
    want(ann, 4)
    assert bee.gets() == [b"", headers.CREDIT, stream.write_credit(task[0], 4)]
    part_there(bee, task, 4)
    assert parts_of(ann) == [4]
    bee.answers(task, parts=4)
    assert ann.hears_one().fields["parts"] == 4
    assert is_forgotten(broker)


def test_what_another_broker_must_not_send_ends_it(broker: Broker, ann: Client, bee: Neighbour) -> None:
    task = ask_there(ann, bee)
    part_there(bee, task, 2)
    assert ann.hears_outcome() == "UNKNOWN bad_header"
    assert bee.gets() == [b"", headers.CANCEL, task[0]]
    part_there(bee, task, 1)
    bee.answers(task, outcome="UNKNOWN", reason="cancelled: stopped")
    assert ann.hears() == []
    assert (broker.core.counters.faults, broker.core.counters.late) == (1, 2)


def test_what_another_broker_lets_through_may_be_too_large_here(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(Bounds(body_bytes_max=2000))
    ann, bee = broker.client("ann"), Neighbour(broker, "bee", echo=2)
    meet(broker, bee)
    part_there(bee, ask_there(ann, bee), 1, b"x" * 2001)
    assert ann.hears_outcome() == "UNKNOWN bad_header"


@pytest.mark.parametrize("how", ["lost", "leaving", "rejected", "unknown"])
def test_after_a_part_it_does_not_come_back(broker: Broker, ann: Client, bee: Neighbour, how: str) -> None:
    task = ask_there(ann, bee, "again")
    part_there(bee, task, 1)
    ann.hears()
    joe = broker.worker("joe", "again").starts()
    if how == "lost":
        bee.link(up=False)
    elif how == "leaving":
        bee.says(b"", headers.LEAVING)
    elif how == "rejected":
        bee.answers(task, outcome="REJECTED", reason="overload: no slot")
    else:
        bee.answers(task, outcome="UNKNOWN", reason="worker_lost: gone")
    assert ann.hears_outcome().startswith("UNKNOWN")
    assert joe.hears() == []
    assert bee.hears() == []
    assert is_forgotten(broker)


def test_before_the_first_part_it_comes_back(broker: Broker, ann: Client, bee: Neighbour) -> None:
    task = ask_there(ann, bee)
    joe = broker.worker("joe", "echo").starts()
    bee.answers(task, outcome="REJECTED", reason="overload: no slot")
    part(joe, joe.gets_task(), 1)
    part_there(bee, task, 1)
    assert parts_of(ann) == [1]


def test_credit_that_does_not_reach_the_other_broker_ends_it(
    broker: Broker, ann: Client, bee: Neighbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would ever send more."""
    task = ask_there(ann, bee)
    part_there(bee, task, 1)
    ann.hears()
    monkeypatch.setattr(broker, "to_delegate", lambda identity, message: False)
    want(ann, 9)
    assert ann.hears_outcome() == "UNKNOWN worker_lost"
