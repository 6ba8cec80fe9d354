"""Which calls are given up, and when; with a clock that only the test moves."""

from __future__ import annotations

from famulus.core.clock import NEVER_NS
from famulus.core.session.header_cache import Given, ParsedHeader
from famulus.worker.calls import Answer, Call
from famulus.worker.overruns import Overruns
from famulus.worker.service import Service


def call(limit_ns: int = 10) -> Call:
    given = Given(b"t", ParsedHeader("test", None), b'"m"', b"", b"")
    return Call(given, Service("test", bytes.upper, time_limit_ns=limit_ns), NEVER_NS)


def answer_to(call: Call) -> Answer:
    return Answer(call.given, "", b"")


def test_a_call_that_ends_in_time_is_nobodys_business() -> None:
    overruns, quick = Overruns(4), call()
    overruns.watch(quick, 0)
    overruns.begins(quick, 1)
    assert overruns.returned(answer_to(quick), 11)
    assert overruns.give_up(100) == []
    assert overruns.next_due_ns == NEVER_NS
    assert not overruns.minds


def test_one_that_takes_longer_is_given_up_once_and_its_answer_does_not_count() -> None:
    overruns, slow = Overruns(4), call()
    overruns.watch(slow, 0)
    overruns.begins(slow, 0)
    assert overruns.next_due_ns == 10
    assert overruns.give_up(9) == []
    assert overruns.give_up(10) == [slow]
    assert overruns.give_up(11) == []
    assert len(overruns) == 1
    assert not overruns.returned(answer_to(slow), 50)
    assert not overruns.minds


def test_the_time_that_it_waits_for_a_thread_does_not_count() -> None:
    overruns, patient = Overruns(4), call()
    overruns.watch(patient, 0)
    assert overruns.give_up(10) == []
    assert overruns.next_due_ns == 20
    overruns.begins(patient, 17)
    assert overruns.give_up(20) == []
    assert overruns.next_due_ns == 27
    assert overruns.give_up(27) == [patient]


def test_each_has_its_own_limit() -> None:
    overruns, short, long = Overruns(4), call(10), call(100)
    for each in (long, short):
        overruns.watch(each, 0)
        overruns.begins(each, 0)
    assert overruns.give_up(10) == [short]
    assert overruns.next_due_ns == 100
    assert overruns.give_up(100) == [long]


def test_no_more_are_given_up_than_there_may_be_until_one_returns() -> None:
    overruns, first, second = Overruns(1), call(), call()
    for each in (first, second):
        overruns.watch(each, 0)
        overruns.begins(each, 0)
    assert overruns.give_up(10) == [first]
    assert overruns.next_due_ns == NEVER_NS, "there is nothing to wait for but that one returns"
    assert not overruns.returned(answer_to(first), 50)
    assert overruns.next_due_ns == 50
    assert overruns.give_up(50) == [second]
