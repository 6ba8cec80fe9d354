"""Workers come, are configured, fall silent, say goodbye, break the protocol and come back under their name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from famulus.core.clock import NS_PER_MS
from famulus.core.delivery import ServicePolicy
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.claims import ANSWER_NS, CLAIMANTS_MAX
from famulus.core.dispatch.error_workers import FAULTS_FORGIVEN
from famulus.core.dispatch.strangers import name_of_connection
from famulus.wire import headers, limits

if TYPE_CHECKING:
    from tests.unit.core.conftest import Broker, Heard

HEARTBEAT_MS = 1000
LOST_MS = HEARTBEAT_MS * limits.HEARTBEATS_UNTIL_LOST


# -- the start ----------------------------------------------------------------------------------------------------


def test_a_worker_enters_the_lru_with_its_first_pong_and_not_before(broker: Broker) -> None:
    ann = broker.client("ann")
    bob = broker.worker("bob")
    ann.asks("echo", b"early")

    bob.connects()
    config = bob.hears_one()
    assert config.kind == "CONFIG"
    assert not bob.is_in_lru()

    bob.says("PING")
    pong, task = bob.hears()
    assert pong.kind == "PONG"
    assert pong.fields["version"] == config.fields["version"]
    assert pong.fields["digest"] == config.fields["digest"]
    assert task.kind == "TASK"
    assert task.body == b"early"


def test_the_config_tells_a_worker_what_it_needs_and_no_more(broker: Broker) -> None:
    bob = broker.worker("bob", "echo", "again")
    bob.connects()
    config = bob.hears_one()
    assert config.fields["identity"] == "bob"
    assert "current" not in config.fields
    body = json.loads(config.body)
    assert body["identity"] == "bob"
    assert body["services"] == ["echo", "again"]
    assert body["preferred_broker"] == "b1"
    assert body["family_config"]["name"] == "family"
    assert [known["identity"] for known in body["family_config"]["brokers"]] == ["b1"]
    assert "admins" not in body["family_config"]


@pytest.mark.parametrize(
    ("wish_ms", "granted_ms"),
    [(None, HEARTBEAT_MS), (1, HEARTBEAT_MS), (5000, 5000), (10 * limits.HEARTBEAT_MS_MAX, limits.HEARTBEAT_MS_MAX)],
)
def test_a_longer_heartbeat_is_granted_and_a_shorter_one_is_raised(
    broker: Broker, wish_ms: int | None, granted_ms: int
) -> None:
    bob = broker.worker("bob")
    bob.connects(heartbeat_ms=wish_ms)
    assert bob.hears_one().fields["heartbeat_ms"] == granted_ms


def test_a_worker_with_a_longer_heartbeat_may_be_silent_for_longer(broker: Broker) -> None:
    patient = broker.worker("patient").starts(heartbeat_ms=5000)
    hasty = broker.worker("hasty").starts(heartbeat_ms=1)
    broker.later(LOST_MS)
    assert patient.is_in_lru()
    assert not hasty.is_in_lru()
    broker.later(5 * LOST_MS)
    assert not patient.is_in_lru()


def test_a_worker_that_has_the_config_is_told_so_and_gets_no_body(broker: Broker) -> None:
    bob = broker.worker("bob")
    bob.connects()
    bob.connects(**shown(bob.hears_one()))
    again = bob.hears_one()
    assert again.fields["current"] is True
    assert again.body == b""


def shown(config: Heard) -> dict[str, Any]:
    """What a worker says of the config that it has."""
    digest, version = config.fields["digest"], config.fields["version"]
    return {"version": version, "digest": digest, "body_digest": hashlib.sha256(config.body).hexdigest()}


@pytest.mark.parametrize("other", [{"version": 99}, {"digest": "something else"}, {"body_digest": "ab" * 32}])
def test_one_of_version_and_digests_is_not_enough(broker: Broker, other: dict[str, object]) -> None:
    bob = broker.worker("bob")
    bob.connects()
    bob.connects(**(shown(bob.hears_one()) | other))
    again = bob.hears_one()
    assert "current" not in again.fields
    assert again.body


@pytest.mark.parametrize("other", [{"services": ["echo", "another"]}, {"identity": "bill"}])
def test_a_config_for_another_name_or_other_services_is_not_current(broker: Broker, other: dict[str, Any]) -> None:
    """The digest alone says what configs are made of here, not which of them the worker has."""
    bob = broker.worker("bob").starts()
    bob.says("CHECKCONFIG", **bob.who)
    config = bob.hears_one()
    without_body = {"version": config.fields["version"], "digest": config.fields["digest"]}
    for claim in (shown(config), without_body):
        bob.says("CHECKCONFIG", **(bob.who | other), **claim)
        answer = bob.hears_one()
        assert "current" not in answer.fields
        body = json.loads(answer.body)
        assert {name: body[name] for name in other} == other
    bob.says("CHECKCONFIG", **bob.who, **shown(config))
    assert bob.hears_one().fields["current"] is True


def test_checkconfig_is_answered_by_config_and_changes_nothing(broker: Broker) -> None:
    bob = broker.worker("bob").starts(heartbeat_ms=5000)
    bob.says("CHECKCONFIG", **bob.who, heartbeat_ms=5000, digest="old", version=0)
    config = bob.hears_one()
    assert config.kind == "CONFIG"
    assert config.fields["heartbeat_ms"] == 5000
    assert json.loads(config.body)["identity"] == "bob"
    assert bob.is_in_lru()

    bob.says("CHECKCONFIG", **bob.who, **shown(config))
    assert bob.hears_one().fields["current"] is True


def test_needbroker_is_answered_at_both_doors_with_or_without_a_session(broker: Broker) -> None:
    stranger = broker.worker("stranger")
    bob = broker.worker("bob").starts()
    ann = broker.client("ann")
    ann.says("NEEDBROKER", envelope=b"42", services=["echo"], role="client")
    bob.says("NEEDBROKER", envelope=b"42", services=["echo"], role="worker", identity="bob")
    stranger.says("NEEDBROKER", envelope=b"42", services=["echo"], role="worker", identity="stranger")
    for somebody in (ann, bob, stranger):
        answer = somebody.hears_one()
        assert answer.kind == "NEEDBROKER"
        assert answer.envelope == b"42"
        (best,) = json.loads(answer.body)["brokers"]
        assert best == {
            "identity": "b1",
            "frontend": "tcp://here:7100",
            "backend": "tcp://here:7101",
            "family": "family",
            "load": 0.0,
        }


@pytest.mark.parametrize("request_", ["PING", "CHECKCONFIG"])
def test_somebody_without_a_session_is_told_to_connect_again(broker: Broker, request_: str) -> None:
    bob = broker.worker("bob")
    bob.says(request_, envelope=b"e", **(bob.who if request_ == "CHECKCONFIG" else {}))
    answer = bob.hears_one()
    assert (answer.kind, answer.code, answer.envelope) == ("ERROR", "not_connected", b"e")
    assert broker.core.counters.faults == 0


def test_an_answer_of_somebody_without_a_session_is_late_and_no_fault(broker: Broker) -> None:
    """A worker that outlived the dispatcher: what it answers belongs to a former life."""
    bob = broker.worker("bob")
    bob.sends(b"old-tick", headers.write_task_response("m", "echo", "OK", ""), b"body")
    assert bob.hears_one().code == "not_connected"
    assert broker.core.counters.late == 1
    assert broker.core.counters.faults == 0


def test_a_ping_that_is_decided_after_the_session_ended_says_connect_again(broker: Broker) -> None:
    bob = broker.worker("bob").starts()
    broker.routers_answer = False
    bob.says("PING", note="as no other")
    (ping,) = broker.decisions()
    broker.asked.clear()
    broker.core.sessions.end(broker.core.sessions.by_peer[bob.peer])
    broker.hear(*ping)
    assert bob.hears_one().code == "not_connected"


# -- the end ------------------------------------------------------------------------------------------------------


def test_three_silent_heartbeats_and_the_worker_is_lost(broker: Broker) -> None:
    bob = broker.worker("bob").starts()
    started_ns = broker.now_ns
    assert broker.core.next_due_ns == started_ns + LOST_MS * NS_PER_MS
    broker.later(LOST_MS - 1)
    assert bob.is_in_lru()
    broker.later(1)
    assert not bob.is_in_lru()
    assert broker.core.counters.workers_lost == 1
    bob.says("PING")
    assert bob.hears_one().code == "not_connected"


def test_a_worker_whose_connection_is_over_is_lost_at_once(broker: Broker) -> None:
    """What it had takes the next slot, and never one of another who is gone as well."""
    ann = broker.client("ann")
    bob, cyd = broker.worker("bob", "again").starts(), broker.worker("cyd", "again").starts()
    ann.asks("again", b"x")
    bob.gets_task()
    bob.gone = cyd.gone = True
    broker.core.sessions.gone([bob.peer, b"somebody else", cyd.peer])
    broker.settle()
    assert broker.core.counters.workers_lost == 2
    assert broker.core.sessions.by_peer == {}
    dan = broker.worker("dan", "again")
    dan.connects()
    dan.hears_one()
    dan.says("PING")
    assert [heard.kind for heard in dan.hears()] == ["PONG", "TASK"]


def test_any_message_counts_as_a_heartbeat(broker: Broker) -> None:
    ann = broker.client("ann")
    bob = broker.worker("bob").starts()
    for _ in range(4):
        broker.later(LOST_MS - 500)
        ann.asks("echo")
        bob.answers(bob.gets_task())
    assert bob.is_in_lru()
    broker.later(LOST_MS - 500)
    bob.sends(b"rubbish")
    broker.later(LOST_MS - 500)
    assert bob.is_in_lru()


def test_goodbye_is_answered_at_once_by_a_broker_that_has_nothing_from_it(broker: Broker) -> None:
    bob = broker.worker("bob").starts()
    bob.says("DISCONNECT", envelope=b"e")
    farewell = bob.hears_one()
    assert (farewell.kind, farewell.fields["type"], farewell.envelope) == ("DISCONNECT", "RESPONSE", b"e")
    assert not bob.is_in_lru()
    assert broker.core.counters.workers_lost == 0


def test_goodbye_is_answered_only_when_the_last_task_is_done(broker: Broker) -> None:
    ann = broker.client("ann")
    bob = broker.worker("bob", slots=2).starts()
    ann.asks("echo", b"1")
    ann.asks("echo", b"2")
    first, second = bob.hears()

    bob.says("DISCONNECT")
    assert bob.hears() == []
    ann.asks("echo", b"3")
    bob.answers(first, b"1")
    assert bob.hears() == [], "no new task, and no farewell yet"

    bob.answers(second, b"2")
    assert bob.hears_kinds() == ["DISCONNECT"]
    assert [answer.fields["outcome"] for answer in ann.hears()] == ["OK", "OK"]
    assert not broker.core.sessions.by_peer

    carol = broker.worker("carol").starts()
    assert carol.gets_task().body == b"3"


def test_a_ping_during_the_goodbye_does_not_bring_it_back_into_the_lru(broker: Broker) -> None:
    ann = broker.client("ann")
    bob = broker.worker("bob", slots=2).starts()
    ann.asks("echo")
    bob.gets_task()
    bob.says("DISCONNECT")
    bob.says("PING")
    assert bob.hears_kinds() == ["PONG"]
    assert not bob.is_in_lru()


def test_a_stranger_may_say_goodbye_too(broker: Broker) -> None:
    bob = broker.worker("bob")
    bob.says("DISCONNECT")
    assert bob.hears_kinds() == ["DISCONNECT"]


# -- two of one name ----------------------------------------------------------------------------------------------


def test_a_name_stays_with_the_worker_that_answers_and_the_later_one_is_refused(broker: Broker) -> None:
    ann = broker.client("ann")
    old = broker.worker("old", identity="bob").starts()
    ann.asks("echo")
    task = old.gets_task()

    thief = broker.worker("thief", identity="bob")
    thief.connects()
    assert thief.hears() == [], "it is not known yet whether the first one is there"
    question = old.hears_one()
    assert (question.kind, question.fields["type"], question.envelope) == ("PING", "REQUEST", b"")
    broker.later(10)
    old.says("PING")
    broker.later(10)
    refusal = thief.hears_one()
    assert (refusal.code, "another identity" in refusal.fields["reason"]) == ("conflict", True)
    assert old.hears_kinds() == ["PONG"]
    old.answers(task)
    assert ann.hears_outcome() == "OK"
    assert old.is_in_lru()
    assert broker.core.counters.workers_lost == 0

    thief.says("PING")
    assert thief.hears_one().code == "not_connected"


def test_any_word_of_the_first_worker_will_do(broker: Broker) -> None:
    ann = broker.client("ann")
    old = broker.worker("old", identity="bob").starts()
    ann.asks("echo")
    task = old.gets_task()
    thief = broker.worker("thief", identity="bob")
    thief.connects()
    broker.later(500)
    old.answers(task)
    broker.later(20)
    assert thief.hears_one().code == "conflict"
    assert old.is_in_lru()


def test_a_name_whose_connection_is_closed_is_free_at_once(broker: Broker) -> None:
    """A worker that was killed, and started again: the broker hears of the end only when it sends something."""
    old = broker.worker("old", identity="bob").starts()
    old.gone = True
    new = broker.worker("new", identity="bob")
    new.connects()
    broker.later(20)
    assert new.hears_kinds() == ["CONFIG"]
    new.says("PING")
    assert new.is_in_lru()


@pytest.mark.parametrize("heartbeat_ms", [HEARTBEAT_MS, 60_000])
def test_a_name_whose_worker_does_not_answer_goes_to_the_first_who_claimed_it(
    broker: Broker, heartbeat_ms: int
) -> None:
    ann = broker.client("ann")
    old = broker.worker("old", identity="bob").starts(heartbeat_ms=heartbeat_ms)
    ann.asks("echo")
    task = old.gets_task()
    broker.later(1)
    first, second = broker.worker("first", identity="bob"), broker.worker("second", identity="bob")
    first.connects()
    second.connects()
    assert old.hears_kinds() == ["PING"], "it is asked once"
    within_ms = min(heartbeat_ms, ANSWER_NS // NS_PER_MS)
    broker.later(within_ms - 1)
    assert first.hears() == []
    broker.later(20)
    assert first.hears_kinds() == ["CONFIG", "PING"], "and the second one claims the name from it"
    assert ann.hears_outcome() == "UNKNOWN worker_lost"
    assert old.hears_one().code == "conflict"
    broker.later(1)
    first.says("PING")
    broker.later(20)
    assert second.hears_one().code == "conflict"
    assert first.is_in_lru()
    old.answers(task)
    assert old.hears_one().code == "not_connected"
    assert ann.hears() == []


def test_a_worker_that_comes_back_with_its_token_has_its_name_at_once(broker: Broker) -> None:
    broker.worker("before", identity="bob").starts(worker_token="secret")
    after = broker.worker("after", identity="bob").starts(worker_token="secret")
    assert after.is_in_lru()
    assert len(broker.core.sessions.by_peer) == 1


@pytest.mark.parametrize(("first", "second"), [("secret", "guess"), ("secret", None), (None, "guess"), (None, None)])
def test_another_token_or_none_opens_nothing(broker: Broker, first: str | None, second: str | None) -> None:
    old = broker.worker("old", identity="bob").starts(worker_token=first)
    broker.worker("thief", identity="bob").connects(worker_token=second)
    assert old.hears_kinds() == ["PING"]
    assert old.is_in_lru()


def test_a_thousand_claims_are_not_kept_and_ask_the_first_worker_once(broker: Broker) -> None:
    old = broker.worker("old", identity="bob").starts()
    broker.later(1)
    thieves = [broker.worker(f"thief-{number}", identity="bob") for number in range(1000)]
    for thief in thieves:
        thief.connects()
    assert old.hears_kinds() == ["PING"]
    assert sum(len(thief.inbox) for thief in thieves) == 1000 - CLAIMANTS_MAX
    broker.later(1)
    old.says("PING")
    broker.later(20)
    assert {thief.hears_one().code for thief in thieves} == {"conflict"}
    assert not broker.core.sessions.claims._by_identity


def test_a_pause_of_the_broker_costs_nobody_his_name(broker: Broker) -> None:
    old = broker.worker("old", identity="bob").starts()
    broker.later(1)
    thief = broker.worker("thief", identity="bob")
    thief.connects()
    broker.now_ns += 5000 * NS_PER_MS
    broker.core.on_pause(5000 * NS_PER_MS)
    broker.core.on_tick()
    broker.settle()
    assert thief.hears() == []
    broker.later(1)
    old.says("PING")
    broker.later(20)
    assert thief.hears_one().code == "conflict"


def test_a_worker_that_connects_again_over_its_own_connection_starts_anew(broker: Broker) -> None:
    ann = broker.client("ann")
    bob = broker.worker("bob").starts()
    ann.asks("echo")
    task = bob.gets_task()
    bob.connects()
    assert bob.hears_kinds() == ["CONFIG"], "it is not told of a conflict with itself"
    assert ann.hears_outcome() == "UNKNOWN worker_lost"
    assert not bob.is_in_lru()
    bob.says("PING")
    assert bob.hears_kinds() == ["PONG"]
    assert bob.is_in_lru()
    bob.answers(task)
    assert bob.hears() == []
    assert broker.core.counters.late == 1


# -- those who break the protocol ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([], "bad_frames"),
        ([b"envelope"], "bad_frames"),
        ([b"e", b"{}"], "bad_frames"),
        ([b"e", b"{}", b"", b""], "bad_frames"),
        ([b"e" * 256, b"{}", b""], "bad_frames"),
        ([b"e", b" " * (limits.HEADER_BYTES_MAX + 1), b""], "too_large"),
        ([b"e", b"{}", b"x" * 2049], "too_large"),
        ([b"e", b"{}", b""], "bad_header"),
        ([b"e", b'{"request":"DANCE","type":"REQUEST"}', b""], "unknown_request"),
        ([b"e", b'{"request":"ERROR","type":"RESPONSE","reason":"x"}', b""], "unknown_request"),
    ],
)
@pytest.mark.parametrize("door", ["client", "stranger", "worker"])
def test_a_breach_is_answered_at_every_door(
    broker_with: Callable[..., Broker], door: str, frames: list[bytes], code: str
) -> None:
    broker = broker_with(Bounds(body_bytes_max=2048))
    somebody = broker.client("ann") if door == "client" else broker.worker("bob")
    if door == "worker":
        broker.people[somebody.peer].starts()  # type: ignore[attr-defined]
    somebody.sends(*frames)
    answer = somebody.hears_one()
    assert answer.kind == "ERROR"
    assert answer.code == code
    envelope = frames[0] if frames else b""
    assert answer.envelope == (envelope if len(envelope) <= limits.ENVELOPE_BYTES_MAX else b"")
    assert broker.core.counters.faults == 1


def test_who_keeps_breaking_the_protocol_is_sent_away_and_forgiven_later(broker: Broker) -> None:
    ann = broker.client("ann")
    bob = broker.worker("bob").starts()
    ann.asks("echo")
    bob.gets_task()
    for _ in range(FAULTS_FORGIVEN):
        bob.sends(b"", b"rubbish", b"")
        assert bob.hears_one().code == "bad_header"
    assert ann.hears() == []

    bob.sends(b"", b"rubbish", b"")
    assert bob.hears_one().code == "bad_header"
    assert ann.hears_outcome() == "UNKNOWN worker_lost"
    assert not broker.core.sessions.by_peer

    bob.connects()
    assert bob.hears_one().code == "not_allowed"
    elsewhere = broker.worker("elsewhere", identity="bob")
    elsewhere.connects()
    assert elsewhere.hears_one().code == "not_allowed", "a new connection does not make a new worker"

    broker.later(1000)
    bob.starts()
    bob.sends(b"", b"rubbish", b"")
    bob.hears()
    broker.later(1000)
    bob.connects()
    assert bob.hears_one().code == "not_allowed", "the second time is longer"
    broker.later(1000)
    bob.starts()
    broker.core.sessions.error_workers.clear(b"bob")
    for _ in range(FAULTS_FORGIVEN):
        bob.sends(b"", b"rubbish", b"")
    assert bob.is_in_lru(), "an admin's pardon starts the count anew"


def test_a_stranger_who_keeps_talking_rubbish_is_not_even_answered(broker: Broker) -> None:
    bob = broker.worker("bob")
    for _ in range(FAULTS_FORGIVEN + 1):
        bob.sends(b"", b"rubbish", b"")
        assert bob.hears_one().code == "bad_header"
    bob.sends(b"", b"rubbish", b"")
    bob.connects()
    assert bob.hears() == []
    assert broker.core.counters.ignored == 2
    broker.later(1000)
    bob.starts()
    assert bob.is_in_lru()


def test_a_stranger_is_listed_by_its_address_and_forgiven_by_it(broker: Broker) -> None:
    eve = broker.worker("eve")
    eve.peer = name_of_connection(1, b"8 bytes.", "10.0.0.7:5001")
    broker.people[eve.peer] = eve
    for _ in range(FAULTS_FORGIVEN + 1):
        eve.sends(b"", b"rubbish", b"")
    ((name, faults, _),) = broker.core.error_workers()
    assert (name, faults) == ("10.0.0.7:5001", FAULTS_FORGIVEN + 1)
    broker.core.forgive(name.encode())
    assert broker.core.error_workers() == []


def test_a_client_is_answered_however_often_it_errs(broker: Broker) -> None:
    ann = broker.client("ann")
    for _ in range(50):
        ann.sends(b"e", b"rubbish", b"")
        assert ann.hears_one().code == "bad_header"


# -- bounds -------------------------------------------------------------------------------------------------------


def test_more_workers_than_a_broker_can_hold_are_told_so(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(Bounds(workers_max=2))
    for name in ("ann", "bob"):
        broker.worker(name).starts()
    carol = broker.worker("carol")
    carol.connects()
    assert carol.hears_one().code == "overload"
    broker.later(LOST_MS)
    carol.starts()


def test_more_services_than_a_broker_can_hold_are_refused(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(Bounds(services_max=3))
    bob = broker.worker("bob", "echo", "one")
    bob.starts()
    carol = broker.worker("carol", "two")
    carol.connects()
    assert carol.hears_one().code == "overload"
    broker.worker("dan", "one", "one", "echo").starts()


# -- those whom the config names ----------------------------------------------------------------------------------


def test_a_worker_that_the_config_names_is_told_and_goes_at_once(broker: Broker) -> None:
    ann = broker.client("ann")
    bob, eve = broker.worker("bob").starts(), broker.worker("eve").starts()
    ann.asks("echo")
    bob.gets_task()
    broker.core.sessions.ignore([b"bob", b"nobody"])
    broker.settle()
    assert bob.hears_one().code == "not_allowed"
    assert ann.hears_outcome() == "UNKNOWN worker_lost"
    assert eve.hears() == []
    assert eve.is_in_lru()
    bob.connects()
    refusal = bob.hears_one()
    assert refusal.code == "not_allowed"
    assert "error workers" in refusal.fields["reason"]


def test_a_worker_that_the_config_names_no_longer_is_taken_again(broker: Broker) -> None:
    bob = broker.worker("bob")
    broker.core.sessions.ignore([b"bob"])
    bob.connects()
    assert bob.hears_one().code == "not_allowed"
    broker.core.sessions.ignore([])
    assert bob.starts().is_in_lru()


def test_to_forgive_faults_does_not_touch_whom_the_config_names(broker: Broker) -> None:
    broker.core.sessions.ignore([b"bob"])
    broker.core.forgive(b"")
    bob = broker.worker("bob")
    bob.connects()
    assert bob.hears_one().code == "not_allowed"


# -- how much there is to do --------------------------------------------------------------------------------------


def test_a_slot_is_counted_once_however_many_services_its_worker_has(broker: Broker) -> None:
    ann = broker.client("ann")
    bob = broker.worker("bob", "echo", "sum", "resize", slots=4).starts()
    assert broker.core.slots() == (4, 0)
    ann.asks("echo")
    bob.gets_task()
    assert broker.core.slots() == (3, 1)
    assert broker.core.load() == 0.25
    for _ in range(5):
        ann.asks("sum")
    assert broker.core.slots() == (0, 4)
    assert broker.core.load() == 1.5


def test_many_workers_and_services_are_counted_bit_by_bit_as_all_at_once(broker: Broker) -> None:
    for number in range(5):
        broker.worker(f"w{number}", "echo", *(["sum"] if number % 2 else []), slots=2).starts()
    broker.client("ann").asks("sum")
    counted = broker.core.count()
    assert [counted.go_on(2) for _ in range(4)] == [False, False, False, True], "five workers and three services"
    assert (counted.free, counted.busy) == broker.core.slots() == (9, 1)
    work = counted.work
    assert work == broker.core.work()
    assert (work["echo"], work["sum"]) == ((9, 1, 0), (3, 1, 0))


def test_who_comes_or_goes_while_workers_are_counted_does_no_harm(broker: Broker) -> None:
    broker.worker("bob", "echo").starts()
    eve = broker.worker("eve", "echo").starts()
    counted = broker.core.count()
    assert not counted.go_on(1)
    eve.says("DISCONNECT")
    broker.worker("mia", "sum").starts()
    assert counted.all().work["echo"] == (1, 0, 0), "without eve, who had not been counted yet"
    assert "sum" not in counted.work, "as it was"
    assert broker.core.slots() == (2, 0)


# -- drained by an admin ------------------------------------------------------------------------------------------


def drain(broker: Broker, *identities: str) -> None:
    broker.core.sessions.drain([identity.encode() for identity in identities])
    broker.settle()


def test_a_drained_worker_answers_what_it_has_gets_no_more_and_is_told_why(broker: Broker) -> None:
    ann = broker.client("ann")
    bob = broker.worker("bob", slots=2).starts()
    ann.asks("echo", b"first")
    task = bob.gets_task()
    drain(broker, "bob")
    told = bob.hears_one()
    assert (told.kind, told.code) == ("ERROR", "not_allowed")
    assert "drained" in told.fields["reason"]
    ann.asks("echo", b"second")
    bob.answers(task)
    assert ann.hears_outcome() == "OK"
    bob.pings()
    assert bob.hears() == []
    assert not bob.is_in_lru()
    amy = broker.worker("amy")
    amy.connects()
    amy.says("PING")
    assert amy.hears()[-1].body == b"second"


def test_a_worker_that_is_drained_no_more_is_ready_with_its_next_ping(broker: Broker) -> None:
    ann = broker.client("ann")
    bob = broker.worker("bob", slots=2).starts()
    ann.asks("echo", b"first")
    bob.gets_task()
    drain(broker, "bob")
    assert bob.hears_kinds() == ["ERROR"]
    drain(broker)
    ann.asks("echo", b"second")
    assert bob.hears() == []
    bob.pings()
    assert bob.gets_task().body == b"second"
    # Both of its slots are taken, and no third one came into being meanwhile.
    ann.asks("echo", b"third")
    assert bob.hears() == []


def test_a_drained_worker_that_connects_is_told_once_and_others_are_let_alone(broker: Broker) -> None:
    drain(broker, "bob", "nobody")
    bob, amy = broker.worker("bob"), broker.worker("amy").starts()
    bob.connects()
    assert bob.hears_kinds() == ["CONFIG"]
    bob.says("PING")
    assert bob.hears_kinds() == ["PONG", "ERROR"]
    bob.says("PING")
    drain(broker, "bob")
    assert bob.hears_kinds() == ["PONG"]
    assert (bob.is_in_lru(), amy.is_in_lru()) == (False, True)


def test_a_drained_worker_stays_out_when_its_service_chooses_otherwise(broker: Broker) -> None:
    bob = broker.worker("bob").starts()
    broker.worker("amy").starts()
    drain(broker, "bob")
    broker.configure(echo=ServicePolicy(policy="ewma"))
    ann = broker.client("ann")
    for _ in range(3):
        ann.asks("echo")
    assert bob.hears_kinds() == ["ERROR"]
    assert not bob.is_in_lru()


def test_a_drained_worker_may_leave_and_its_loss_is_noticed(broker: Broker) -> None:
    bob, amy = broker.worker("bob").starts(), broker.worker("amy").starts()
    drain(broker, "bob", "amy")
    bob.says("DISCONNECT")
    assert bob.hears_kinds() == ["ERROR", "DISCONNECT"]
    broker.later(2 * LOST_MS)
    assert amy.hears_kinds() == ["ERROR"]
    assert not broker.core.sessions.by_peer
