"""Which findings the faults of a chaos run explain."""

from __future__ import annotations

from famulus.lab.chaos.plan import Fault
from famulus.lab.judge.expected import Named
from famulus.lab.judge.explained import explained, must_find, renamed
from famulus.lab.judge.score import compare


def struck(kind: str, *whom: str, times: int = 1) -> list[Fault]:
    return [Fault(float(number), kind, whom) for number in range(times)]


def test_a_worker_that_was_killed_twice_may_be_bad_and_one_that_was_killed_once_may_not() -> None:
    found = {Named("bad_worker", "w1 echo"), Named("bad_worker", "w2 echo")}
    faults = struck("kill_worker", "w1", times=2) + struck("kill_worker", "w2") + struck("drain_worker", "w2")
    assert explained(found, faults) == {Named("bad_worker", "w1 echo")}


def test_only_what_struck_that_broker_explains_a_finding_about_it() -> None:
    found = {Named("journal_gaps", "b1"), Named("journal_gaps", "b2"), Named("crash_lost_tasks", "b1")}
    assert explained(found, struck("kill_scribe", "b1")) == {Named("journal_gaps", "b1")}


def test_nothing_explains_what_the_audit_cannot_account_for() -> None:
    found = {Named("audit", "no_outcome"), Named("keys_expire", "shop"), Named("time_out_short", "echo")}
    everything = [Fault(1.0, kind, ("b1", "w1")) for kind in ("kill_broker", "kill_dispatcher", "kill_scribe")]
    assert explained(found, everything) == set()


def test_a_conflict_takes_an_edit_of_that_key_and_brokers_that_were_apart() -> None:
    note, state = Named("config_conflict", "service/chaos.note1"), Named("config_conflict", "broker_state/b1")
    apart = struck("part_brokers", "b1")
    assert explained({note, state}, apart + struck("edit_config", "b2", times=2)) == {note}
    assert explained({note, state}, apart + struck("disable_broker", "b1")) == {state}
    assert explained({note, state}, struck("edit_config", "b2") + struck("disable_broker", "b1")) == set()


def test_a_killed_dispatcher_must_be_found_unless_its_journal_was_struck_as_well() -> None:
    faults = [
        *struck("kill_dispatcher", "b1", times=3),
        *struck("kill_dispatcher", "b2"),
        *struck("kill_dispatcher", "b3"),
        *struck("kill_scribe", "b3"),
    ]
    assert set(must_find(faults)) == {
        Named("crash_lost_tasks", "b1"),
        Named("broker_unstable", "b1"),
        Named("crash_lost_tasks", "b2"),
    }


def test_what_is_explained_is_neither_missed_nor_false() -> None:
    bad, gaps, lost = Named("bad_worker", "w1 echo"), Named("journal_gaps", "b1"), Named("crash_lost_tasks", "b1")
    judged = compare(1, {lost: "kill_dispatcher"}, {bad, gaps}, {bad, Named("bad_worker", "w2 echo")})
    assert (judged.false, judged.missed, judged.found) == ((gaps,), {lost: "kill_dispatcher"}, 2)


def test_a_worker_is_known_by_its_name_in_the_plan_whatever_it_was_called_in_the_run() -> None:
    found = {Named("bad_worker", "vm-1-2fb06b echo"), Named("journal_gaps", "b1")}
    assert renamed(found, {"vm-1-2fb06b": "w1"}) == {Named("bad_worker", "w1 echo"), Named("journal_gaps", "b1")}
