"""A worker's side: connect, be configured, ping, be ready, drain; and back again whenever the broker is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.session.header_cache import Given
from famulus.core.session.homes import LINK_NS, Homes
from famulus.core.session.worker import SessionState, WorkerSession
from famulus.wire import headers

START_NS = 1000 * NS_PER_S
HEARTBEAT_NS = 1000 * NS_PER_MS


class Talk:
    """A worker's session and the broker that it talks to, who is us."""

    def __init__(self, *homes: str) -> None:
        """With `homes` it may go from one broker to the other."""
        self.now_ns = START_NS
        known = Homes(homes, lambda: 1.0) if homes else None
        self.session = WorkerSession("bob", ["echo"], 2, 700, lambda: 1.0, known)

    def says(self) -> list[dict[str, Any]]:
        said = [json.loads(header) for _, header, _ in self.session.outbox]
        self.session.outbox.clear()
        return said

    def requests(self) -> list[str]:
        return [fields["request"] for fields in self.says()]

    def hears(self, request: str, body: bytes = b"", envelope: bytes = b"", **fields: Any) -> list[Given]:
        kind = "REQUEST" if request == "TASK" else "RESPONSE"
        return self.session.on_messages(self.now_ns, [[envelope, headers.write(request, kind, **fields), body]])

    def hears_config(self, **fields: Any) -> None:
        told: dict[str, Any] = {"identity": "bob", "heartbeat_ms": 1000, "version": 3, "digest": "d3"} | fields
        self.hears("CONFIG", b"config", **told)

    def later(self, ns: int) -> None:
        self.now_ns += ns
        self.session.on_tick(self.now_ns)

    def becomes(self, state: SessionState) -> Talk:
        """By the shortest way, and with nothing left unsaid."""
        if state is not SessionState.OFFLINE:
            self.session.on_link(self.now_ns)
        if state in (SessionState.GREETING, SessionState.READY, SessionState.DRAINING, SessionState.MOVING):
            self.hears_config()
        if state in (SessionState.READY, SessionState.DRAINING, SessionState.MOVING):
            self.hears("PONG", version=3, digest="d3")
        if state is SessionState.DRAINING:
            self.session.drain(self.now_ns)
        if state is SessionState.MOVING:
            assert self.session.move()
        if state is SessionState.ASKING:
            refuses(self, "disabled")
        if state is SessionState.GONE:
            self.session.drain(self.now_ns)
            self.hears("DISCONNECT")
        assert self.state() is state
        self.session.outbox.clear()
        return self

    def state(self) -> SessionState:
        return self.session.state


@pytest.fixture
def talk() -> Talk:
    return Talk()


def gives_task(talk: Talk, ticket: bytes = b"t-1") -> list[Given]:
    return talk.hears("TASK", b"body", ticket, service="echo", message_id="m-1", attempt=1, timeout_ms=500)


# -- the start ----------------------------------------------------------------------------------------------------


def test_connect_config_ping_pong_ready(talk: Talk) -> None:
    assert talk.state() is SessionState.OFFLINE
    talk.session.on_link(talk.now_ns)
    assert talk.says() == [
        {
            "request": "CONNECT",
            "type": "REQUEST",
            "identity": "bob",
            "services": ["echo"],
            "slots": 2,
            "heartbeat_ms": 700,
        }
    ]
    talk.hears_config()
    assert talk.state() is SessionState.GREETING
    assert talk.requests() == ["PING"]
    assert talk.session.config == b"config"
    talk.hears("PONG", version=3, digest="d3")
    assert talk.state() is SessionState.READY
    assert talk.says() == []


def test_a_pong_before_the_config_makes_nobody_ready(talk: Talk) -> None:
    talk.becomes(SessionState.CONNECTING).hears("PONG", version=3, digest="d3")
    assert talk.state() is SessionState.CONNECTING


def test_a_task_before_ready_is_not_taken(talk: Talk) -> None:
    talk.becomes(SessionState.GREETING)
    assert gives_task(talk) == []


def test_a_connect_that_nobody_answers_is_said_again_and_then_the_link_is_made_anew(talk: Talk) -> None:
    # Once a second, whatever was wished for: no heartbeat has been granted yet.
    talk.becomes(SessionState.CONNECTING)
    talk.later(NS_PER_S)
    assert talk.requests() == ["CONNECT"]
    talk.later(NS_PER_S)
    assert talk.requests() == ["CONNECT"]
    talk.later(NS_PER_S)
    assert talk.state() is SessionState.OFFLINE
    assert talk.session.relink_at_ns == talk.now_ns + NS_PER_S // 10


def test_a_config_that_is_current_keeps_what_we_have_and_a_new_one_replaces_it(talk: Talk) -> None:
    talk.becomes(SessionState.READY)
    talk.hears("CONFIG", b"", identity="bob", heartbeat_ms=1000, version=3, digest="d3", current=True)
    assert talk.session.config == b"config"
    talk.hears("CONFIG", b"newer", identity="bob", heartbeat_ms=1000, version=4, digest="d4")
    assert talk.session.config == b"newer"
    assert talk.session.digest == "d4"
    assert talk.state() is SessionState.READY


def test_a_pong_with_another_digest_makes_us_check_our_config(talk: Talk) -> None:
    talk.becomes(SessionState.READY).hears("PONG", version=4, digest="d4")
    (check,) = talk.says()
    assert check["request"] == "CHECKCONFIG"
    assert check["identity"] == "bob"
    assert check["services"] == ["echo"]
    assert (check["version"], check["digest"]) == (3, "d3")
    talk.hears_config(version=4, digest="d4")
    talk.hears("PONG", version=4, digest="d4")
    assert talk.says() == []


# -- heartbeats ---------------------------------------------------------------------------------------------------


def test_a_ready_worker_pings_once_per_granted_heartbeat(talk: Talk) -> None:
    talk.becomes(SessionState.READY)
    for _ in range(20):
        assert talk.session.next_due_ns == talk.now_ns + HEARTBEAT_NS
        talk.later(HEARTBEAT_NS - 1)
        assert talk.says() == []
        talk.later(1)
        assert talk.requests() == ["PING"]
        talk.hears("PONG", version=3, digest="d3")


def test_a_heartbeat_that_was_granted_before_does_not_count_in_a_new_session(talk: Talk) -> None:
    """Else a broker that does not answer a CONNECT would be waited for as long as three of them."""
    talk.becomes(SessionState.CONNECTING).hears_config(heartbeat_ms=3_600_000)
    talk.hears("PONG", version=3, digest="d3")
    refuses(talk, "not_connected")
    talk.says()
    talk.later(NS_PER_S)
    assert talk.requests() == ["CONNECT"]
    talk.later(2 * NS_PER_S)
    assert talk.state() is SessionState.OFFLINE


def test_three_silent_heartbeats_and_the_broker_is_lost(talk: Talk) -> None:
    talk.becomes(SessionState.READY)
    gives_task(talk)
    talk.later(3 * HEARTBEAT_NS - 1)
    assert talk.state() is SessionState.READY
    talk.later(1)
    assert talk.state() is SessionState.OFFLINE
    assert talk.says() == [], "there is nobody to say it to"
    assert talk.session.next_due_ns == talk.session.relink_at_ns > talk.now_ns
    talk.session.on_link(talk.session.relink_at_ns)
    assert talk.requests() == ["CONNECT"]
    assert talk.session.relink_at_ns == NEVER_NS


@pytest.mark.parametrize("state", [SessionState.CONNECTING, SessionState.GREETING, SessionState.READY])
def test_whoever_waits_in_vain_goes_offline(talk: Talk, state: SessionState) -> None:
    talk.becomes(state).later(3 * HEARTBEAT_NS)
    assert talk.state() is SessionState.OFFLINE


def test_any_message_counts_as_a_sign_of_life(talk: Talk) -> None:
    talk.becomes(SessionState.READY)
    for _ in range(5):
        talk.later(2 * HEARTBEAT_NS)
        talk.session.on_messages(talk.now_ns, [[b"only one frame"], [b"", b"rubbish", b""]])
    assert talk.state() is SessionState.READY


def test_each_lost_link_waits_longer_until_one_holds(talk: Talk) -> None:
    waits = []
    for _ in range(9):
        talk.session.on_link(talk.now_ns)
        talk.session.on_link_lost(talk.now_ns)
        waits.append(talk.session.relink_at_ns - talk.now_ns)
    tenth = NS_PER_S // 10
    assert waits == [tenth, 2 * tenth, 4 * tenth, 8 * tenth, 16 * tenth, 32 * tenth, 64 * tenth, 80 * tenth, 80 * tenth]
    talk.becomes(SessionState.READY)
    talk.session.on_link_lost(talk.now_ns)
    assert talk.session.relink_at_ns - talk.now_ns == tenth


@pytest.mark.parametrize("silent", [False, True])
def test_a_broker_that_fell_silent_is_tried_last_and_one_whose_link_was_cut_first(silent: bool) -> None:
    homes = Homes(["a", "b"], lambda: 0.0)
    session = WorkerSession("w", ["echo"], 1, None, lambda: 0.0, homes)
    session.on_link(0)
    homes.on_ready(0)
    session.on_link_lost(NS_PER_S, silent=silent)
    assert homes.next() == ("b" if silent else "a")


# -- tasks --------------------------------------------------------------------------------------------------------


def test_a_task_is_given_and_answered_with_its_ticket(talk: Talk) -> None:
    (given,) = gives_task(talk.becomes(SessionState.READY))
    assert (given.ticket, given.body) == (b"t-1", b"body")
    assert (given.parsed.service, given.message_id, given.parsed.timeout_ms) == ("echo", "m-1", 500)
    assert json.loads(given.header)["message_id"] == "m-1"
    assert talk.session.answer(given, "OK", "", b"done")
    ((envelope, header, body),) = talk.session.outbox
    assert (envelope, body) == (b"t-1", b"done")
    assert headers.read(header) == headers.TaskResponse("m-1", "echo")


def test_an_error_carries_its_reason(talk: Talk) -> None:
    (given,) = gives_task(talk.becomes(SessionState.READY))
    talk.session.answer(given, "ERROR", "ValueError: no", b"")
    (said,) = talk.says()
    assert (said["outcome"], said["reason"]) == ("ERROR", "ValueError: no")


def test_a_task_is_answered_once(talk: Talk) -> None:
    (given,) = gives_task(talk.becomes(SessionState.READY))
    assert talk.session.answer(given, "OK", "", b"")
    assert not talk.session.answer(given, "OK", "", b"")
    assert len(talk.session.outbox) == 1


def test_tickets_are_void_once_the_link_is_lost(talk: Talk) -> None:
    (given,) = gives_task(talk.becomes(SessionState.READY))
    talk.session.on_link_lost(talk.now_ns)
    talk.becomes(SessionState.READY)
    assert not talk.session.answer(given, "OK", "", b"")
    assert talk.says() == []


# -- what the broker refuses --------------------------------------------------------------------------------------


def refuses(talk: Talk, code: str) -> None:
    talk.hears("ERROR", reason=f"{code}: because")


@pytest.mark.parametrize("state", [SessionState.GREETING, SessionState.READY])
def test_not_connected_means_connect_again_at_once(talk: Talk, state: SessionState) -> None:
    """A dispatcher that was restarted knows its workers again within a heartbeat."""
    refuses(talk.becomes(state), "not_connected")
    assert talk.state() is SessionState.CONNECTING
    assert talk.requests() == ["CONNECT"]


def test_not_connected_many_times_means_one_connect(talk: Talk) -> None:
    (given,) = gives_task(talk.becomes(SessionState.READY))
    for _ in range(5):
        refuses(talk, "not_connected")
    assert talk.requests() == ["CONNECT"]
    assert not talk.session.answer(given, "OK", "", b"")


@pytest.mark.parametrize("state", [SessionState.GREETING, SessionState.READY])
def test_a_worker_whose_name_was_given_away_tries_again_later(talk: Talk, state: SessionState) -> None:
    refuses(talk.becomes(state), "conflict")
    assert talk.state() is SessionState.OFFLINE
    assert talk.session.refusal.startswith("conflict")
    assert talk.session.relink_at_ns > talk.now_ns
    talk.becomes(SessionState.READY)


@pytest.mark.parametrize("state", [SessionState.GREETING, SessionState.READY, SessionState.DRAINING])
def test_a_broker_that_asks_whether_we_are_there_hears_a_ping(talk: Talk, state: SessionState) -> None:
    talk.becomes(state)
    talk.says()
    talk.session.on_messages(talk.now_ns, [[b"", headers.write("PING", "REQUEST"), b""]])
    assert talk.requests() == ["PING"]


@pytest.mark.parametrize("code", ["not_allowed", "overload", "disabled", "conflict"])
def test_a_refused_connect_is_tried_again_later_over_a_new_link(talk: Talk, code: str) -> None:
    refuses(talk.becomes(SessionState.CONNECTING), code)
    assert talk.state() is SessionState.OFFLINE
    assert talk.session.refusal.startswith(code)
    assert talk.session.relink_at_ns > talk.now_ns
    talk.becomes(SessionState.READY)
    assert talk.session.refusal == ""


def test_an_error_in_the_middle_is_noted_and_nothing_more(talk: Talk) -> None:
    refuses(talk.becomes(SessionState.READY), "bad_header")
    assert talk.state() is SessionState.READY
    assert talk.session.refusal.startswith("bad_header")


# -- the end ------------------------------------------------------------------------------------------------------


def test_draining_answers_what_it_holds_and_goes_when_let_go(talk: Talk) -> None:
    (given,) = gives_task(talk.becomes(SessionState.READY))
    talk.session.drain(talk.now_ns)
    assert talk.state() is SessionState.DRAINING
    assert talk.requests() == ["DISCONNECT"]
    (crossing,) = gives_task(talk, b"t-2")
    assert talk.session.answer(given, "OK", "", b"")
    assert talk.session.answer(crossing, "OK", "", b"")
    talk.hears("DISCONNECT")
    assert talk.state() is SessionState.GONE
    talk.session.drain(talk.now_ns)
    assert talk.state() is SessionState.GONE


def test_a_draining_worker_still_pings(talk: Talk) -> None:
    talk.becomes(SessionState.DRAINING).later(HEARTBEAT_NS)
    assert talk.requests() == ["PING"]
    talk.hears("PONG", version=9, digest="other")
    assert talk.says() == [], "its config does not matter any more"
    assert talk.state() is SessionState.DRAINING


def test_who_gave_its_link_up_and_is_told_to_connect_again_keeps_the_link(talk: Talk) -> None:
    """Else it would cut the link that it just became ready on."""
    talk.becomes(SessionState.READY).later(3 * HEARTBEAT_NS)
    assert talk.state() is SessionState.OFFLINE
    assert talk.session.relink_at_ns < NEVER_NS
    refuses(talk, "not_connected")
    assert talk.state() is SessionState.CONNECTING
    assert talk.session.relink_at_ns == NEVER_NS


def test_who_has_no_link_just_goes(talk: Talk) -> None:
    talk.becomes(SessionState.OFFLINE).session.drain(talk.now_ns)
    assert talk.state() is SessionState.GONE


@pytest.mark.parametrize("state", [SessionState.CONNECTING, SessionState.GREETING])
def test_who_is_not_ready_yet_says_goodbye_too(talk: Talk, state: SessionState) -> None:
    """The broker may have it in the LRU already: only the PONG is still on its way."""
    talk.becomes(state).session.drain(talk.now_ns)
    assert talk.state() is SessionState.DRAINING
    assert talk.requests() == ["DISCONNECT"]
    talk.hears("DISCONNECT")
    assert talk.state() is SessionState.GONE


def test_a_drain_ends_with_a_lost_link_too(talk: Talk) -> None:
    talk.becomes(SessionState.DRAINING).session.on_link_lost(talk.now_ns)
    assert talk.state() is SessionState.GONE


def test_a_drain_ends_with_a_broker_that_does_not_know_us(talk: Talk) -> None:
    refuses(talk.becomes(SessionState.DRAINING), "not_connected")
    assert talk.state() is SessionState.GONE


def test_a_drain_ends_with_silence(talk: Talk) -> None:
    talk.becomes(SessionState.DRAINING).later(3 * HEARTBEAT_NS)
    assert talk.state() is SessionState.GONE


def test_who_is_gone_stays_gone(talk: Talk) -> None:
    talk.becomes(SessionState.GONE)
    talk.session.on_link(talk.now_ns)
    talk.session.on_link_lost(talk.now_ns)
    talk.later(60 * NS_PER_S)
    talk.hears_config()
    talk.hears("PONG", version=3, digest="d3")
    assert talk.state() is SessionState.GONE
    assert talk.says() == []
    assert talk.session.next_due_ns == NEVER_NS


# -- several brokers ----------------------------------------------------------------------------------------------

CONFIG = b'{"family_config":{"name":"f","brokers":[{"identity":"f1","backend":"tcp://f:1"}]},"preferred_broker":"f1"}'
BROKERS = b'{"brokers":[{"identity":"t1","backend":"tcp://t:1"}]}'


@pytest.fixture
def roaming() -> Talk:
    """A worker that was given the brokers a and b, and makes its first link."""
    talk = Talk("a", "b")
    talk.session.homes.next()
    talk.session.on_linking(talk.now_ns)
    return talk


def goes_to(talk: Talk) -> str:
    """As the shell does when a new link is due."""
    assert talk.state() is SessionState.OFFLINE
    talk.now_ns = max(talk.now_ns, talk.session.relink_at_ns)
    address = talk.session.homes.next()
    talk.session.on_linking(talk.now_ns)
    return address


def test_a_link_that_does_not_come_up_is_left_for_the_next(roaming: Talk) -> None:
    assert roaming.session.next_due_ns == START_NS + LINK_NS
    roaming.later(LINK_NS - 1)
    assert roaming.session.relink_at_ns == NEVER_NS
    roaming.later(1)
    assert roaming.session.relink_at_ns == roaming.now_ns, "at once: the round is not over"
    assert goes_to(roaming) == "b"
    roaming.later(LINK_NS)
    assert roaming.session.relink_at_ns > roaming.now_ns, "the round is over"
    assert goes_to(roaming) == "a"


def test_a_link_that_is_up_in_time_has_time(roaming: Talk) -> None:
    roaming.session.on_link(roaming.now_ns)
    roaming.later(LINK_NS)
    assert roaming.state() is SessionState.CONNECTING


def test_who_knows_nobody_else_waits_for_its_link() -> None:
    talk = Talk("a")
    talk.session.on_linking(talk.now_ns)
    assert talk.session.next_due_ns == NEVER_NS


def test_a_broker_that_is_silent_is_left_and_one_that_was_cut_off_is_tried_again(roaming: Talk) -> None:
    roaming.becomes(SessionState.READY).later(3 * HEARTBEAT_NS)
    assert goes_to(roaming) == "b"
    roaming.becomes(SessionState.READY).session.on_link_lost(roaming.now_ns)
    assert goes_to(roaming) == "b"


def test_a_link_that_is_lost_twice_is_lost_once(roaming: Talk) -> None:
    """The session gave it up, and a moment later the system does."""
    roaming.becomes(SessionState.READY).later(3 * HEARTBEAT_NS)
    due_ns = roaming.session.relink_at_ns
    roaming.session.on_link_lost(roaming.now_ns)
    assert roaming.session.relink_at_ns == due_ns
    assert goes_to(roaming) == "b"


def test_who_is_ready_asks_at_once_who_else_there_is(roaming: Talk) -> None:
    roaming.becomes(SessionState.GREETING).hears("PONG", version=3, digest="d3")
    (question,) = roaming.says()
    assert question == {
        "request": "NEEDBROKER",
        "type": "REQUEST",
        "services": ["echo"],
        "identity": "bob",
        "role": "worker",
    }
    roaming.hears("NEEDBROKER", BROKERS)
    assert roaming.session.homes.known == ["a", "b", "tcp://t:1"]
    assert roaming.state() is SessionState.READY


def test_who_is_ready_asks_again_now_and_then_since_brokers_come_and_go(roaming: Talk) -> None:
    roaming.becomes(SessionState.READY)
    asked = []
    for _ in range(25):
        roaming.hears("PONG", version=3, digest="d3")
        roaming.later(HEARTBEAT_NS)
        asked += roaming.requests()
    assert asked.count("PING") == 25
    assert asked.count("NEEDBROKER") == 2


def test_a_config_tells_of_the_family_and_a_new_one_makes_us_ask_again(roaming: Talk) -> None:
    roaming.becomes(SessionState.READY)
    roaming.hears("CONFIG", CONFIG, identity="bob", heartbeat_ms=1000, version=4, digest="d4")
    assert roaming.session.homes.known == ["a", "b", "tcp://f:1"]
    assert roaming.requests() == ["NEEDBROKER"]


@pytest.mark.parametrize("code", ["not_allowed", "overload", "disabled"])
def test_who_is_refused_asks_for_others_and_goes_to_the_next(roaming: Talk, code: str) -> None:
    refuses(roaming.becomes(SessionState.CONNECTING), code)
    assert roaming.state() is SessionState.ASKING
    assert roaming.requests() == ["NEEDBROKER"]
    roaming.hears("NEEDBROKER", BROKERS)
    assert roaming.session.refusal.startswith(code)
    assert goes_to(roaming) == "b"
    assert roaming.session.refusal == "", "that was another broker"
    roaming.later(LINK_NS)
    assert goes_to(roaming) == "tcp://t:1"


def test_who_is_refused_after_its_config_does_the_same(roaming: Talk) -> None:
    refuses(roaming.becomes(SessionState.GREETING), "disabled")
    assert roaming.state() is SessionState.ASKING


def test_an_answer_that_does_not_come_is_not_waited_for(roaming: Talk) -> None:
    roaming.becomes(SessionState.ASKING)
    assert roaming.session.next_due_ns == roaming.now_ns + NS_PER_S
    roaming.later(NS_PER_S)
    assert goes_to(roaming) == "b"


@pytest.mark.parametrize("code", ["disabled", "not_connected", "unknown_request"])
def test_a_broker_that_will_not_even_tell_is_left(roaming: Talk, code: str) -> None:
    refuses(roaming.becomes(SessionState.ASKING), code)
    assert goes_to(roaming) == "b"


def test_who_asks_gets_no_tasks_and_needs_no_goodbye(roaming: Talk) -> None:
    assert gives_task(roaming.becomes(SessionState.ASKING)) == []
    roaming.session.drain(roaming.now_ns)
    assert roaming.state() is SessionState.GONE
    assert roaming.says() == []


def test_moving_answers_what_it_holds_and_goes_when_let_go(roaming: Talk) -> None:
    (given,) = gives_task(roaming.becomes(SessionState.READY))
    assert roaming.session.move()
    assert roaming.state() is SessionState.MOVING
    assert roaming.requests() == ["DISCONNECT"]
    (crossing,) = gives_task(roaming, b"t-2")
    roaming.later(HEARTBEAT_NS)
    assert roaming.requests() == ["PING"]
    assert roaming.session.answer(given, "OK", "", b"")
    assert roaming.session.answer(crossing, "OK", "", b"")
    assert len(roaming.says()) == 2
    roaming.hears("DISCONNECT")
    assert roaming.session.relink_at_ns == roaming.now_ns
    assert goes_to(roaming) == "b"
    roaming.session.on_link(roaming.now_ns)
    (hello,) = roaming.says()
    assert (hello["request"], hello["identity"]) == ("CONNECT", "bob")


@pytest.mark.parametrize("loss", ["cut", "silence", "not_connected"])
def test_a_broker_that_is_lost_while_we_move_does_not_stop_us(roaming: Talk, loss: str) -> None:
    roaming.becomes(SessionState.MOVING)
    if loss == "cut":
        roaming.session.on_link_lost(roaming.now_ns)
    elif loss == "silence":
        roaming.later(3 * HEARTBEAT_NS)
    else:
        refuses(roaming, "not_connected")
    assert roaming.session.relink_at_ns == roaming.now_ns
    assert goes_to(roaming) == "b"


def test_who_moves_and_is_told_to_stop_has_said_goodbye_already(roaming: Talk) -> None:
    roaming.becomes(SessionState.MOVING).session.drain(roaming.now_ns)
    assert roaming.state() is SessionState.DRAINING
    assert roaming.says() == []
    roaming.hears("DISCONNECT")
    assert roaming.state() is SessionState.GONE
    assert roaming.session.next_due_ns == NEVER_NS


def test_a_way_back_leads_to_the_preferred_broker(roaming: Talk) -> None:
    roaming.later(LINK_NS)
    assert goes_to(roaming) == "b"
    roaming.becomes(SessionState.MOVING).session.homes.on_probe_answered()
    roaming.hears("DISCONNECT")
    assert goes_to(roaming) == "a"


@pytest.mark.parametrize(
    "state",
    [SessionState.OFFLINE, SessionState.CONNECTING, SessionState.GREETING, SessionState.ASKING, SessionState.DRAINING],
)
def test_only_who_is_ready_moves(roaming: Talk, state: SessionState) -> None:
    assert not roaming.becomes(state).session.move()
    assert roaming.state() is state


def test_a_broker_that_is_disabled_while_it_has_us_is_left_in_order(roaming: Talk) -> None:
    (given,) = gives_task(roaming.becomes(SessionState.READY))
    refuses(roaming, "disabled")
    assert roaming.state() is SessionState.MOVING
    assert roaming.requests() == ["DISCONNECT"]
    refuses(roaming, "disabled")
    assert roaming.says() == []
    assert roaming.session.answer(given, "OK", "", b"")
    roaming.hears("DISCONNECT")
    assert goes_to(roaming) == "b"


def test_who_knows_nobody_else_stays_with_a_disabled_broker_and_asks() -> None:
    talk = Talk("a").becomes(SessionState.READY)
    refuses(talk, "disabled")
    assert talk.state() is SessionState.READY
    assert talk.requests() == ["NEEDBROKER"]
    talk.hears("NEEDBROKER", BROKERS)
    refuses(talk, "disabled")
    assert talk.state() is SessionState.MOVING


def test_who_has_one_broker_only_asks_nobody(talk: Talk) -> None:
    refuses(talk.becomes(SessionState.READY), "disabled")
    assert talk.state() is SessionState.READY
    assert talk.says() == []
