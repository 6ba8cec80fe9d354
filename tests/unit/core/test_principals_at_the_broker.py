"""At a port with keys: who may call and serve what, how much at a time, and what others cannot take from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.core.conftest import Broker, Client, Worker

from famulus.core import telling
from famulus.core.access import BACKEND, FRONTEND
from famulus.core.rights import Rights, allows
from famulus.core.routing.router import Router
from famulus.core.steward.principals import EVERYTHING
from famulus.wire import inner

ANN = Rights(call=("echo", "img.*"))
NEW_KEY = b"another key"
BOB = Rights(serve=("echo", "img.*", "again"))


def key_of(name: str) -> bytes:
    return f"the key of {name}".encode()


class Config:
    """What the brokers of this network know of principals; an edit holds at once."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.rights: dict[str, Rights] = {}
        self.limits: dict[str, tuple[int, int]] = {}
        self.plain = False
        #: What is told of principals comes when the test says so.
        self.is_slow = False
        #: Of others than those that a principal has from the beginning; an empty name takes one away.
        self.keys: dict[bytes, str] = {}
        broker.core.accounts.guard()
        self.put(ann=ANN, bob=BOB)

    def put(self, **rights: Rights) -> None:
        self.rights |= rights
        self._tell()

    def limit(self, name: str, *, open_tasks: int = 0, tasks_per_s: int = 0) -> None:
        self.limits[name] = (open_tasks, tasks_per_s)
        self._tell()

    def revoke(self, name: str) -> None:
        del self.rights[name]
        self._tell()

    def _tell(self) -> None:
        broker = self.broker
        rights = self.rights | ({"": EVERYTHING} if self.plain else {})
        broker.book = replace(broker.book, rights=rights, epoch=broker.book.epoch + 1)
        broker._router = Router(broker.book, broker._make_id)
        broker.core.on_announcements([inner.write_announcement(inner.CONFIG, broker.book.epoch, b"")])
        terms = {
            name: inner.PrincipalTerms(repr(rights.call).encode(), rights.serve, *self.limits.get(name, (0, 0)))
            for name, rights in self.rights.items()
        }
        keys = {key_of(name): name for name in self.rights} | self.keys
        self.told = inner.Principals(keys, terms, self.plain, {}, broker.book.epoch)
        if not self.is_slow:
            broker.core.on_principals(self.told)
        broker.settle()

    def replace_key(self, name: str) -> None:
        """From now on only another key is its own."""
        self.keys |= {key_of(name): "", NEW_KEY: name}
        self._tell()

    def client(self, principal: str, connection: str = "", key: bytes = b"") -> Client:
        client = self.broker.client(connection or principal)
        come = [(client.peer, principal, key or key_of(principal))]
        self.broker.core.accounts.come(FRONTEND, come, self.broker.now_ns)
        return client

    def worker(self, principal: str, *services: str, connection: str = "", identity: str = "w") -> Worker:
        worker = self.broker.worker(connection or principal, *services, identity=identity)
        self.broker.core.accounts.come(BACKEND, [(worker.peer, principal, key_of(principal))], self.broker.now_ns)
        return worker


@pytest.fixture
def config(broker: Broker) -> Config:
    return Config(broker)


@pytest.fixture
def ann(config: Config) -> Client:
    return config.client("ann")


@pytest.fixture
def bob(config: Config) -> Worker:
    return config.worker("bob").starts()


@pytest.mark.parametrize(
    ("patterns", "service", "allowed"),
    [
        (("echo",), "echo", True),
        (("echo",), "echo.more", False),
        (("echo.*",), "echo.more", True),
        (("echo.*",), "echo", False),
        (("*",), "anything", True),
        ((), "echo", False),
        (("e*o",), "echo", False),
        (("e*o",), "e*o", True),
        (("a", "ec*"), "echo", True),
    ],
)
def test_a_right_is_a_name_or_how_it_begins(patterns: tuple[str, ...], service: str, allowed: bool) -> None:
    assert allows(patterns, service) == allowed


# -- calling --------------------------------------------------------------------------------------------------------


def test_who_may_call_is_served(ann: Client, bob: Worker) -> None:
    for _ in range(2):
        ann.asks("echo", b"hello")
        bob.answers(bob.gets_task(), b"hello")
        assert ann.hears_outcome() == "OK"


def test_who_may_not_is_told_what_would_help_and_no_more(config: Config, ann: Client, bob: Worker) -> None:
    ann.asks("again")
    answer = ann.hears_one()
    assert answer.fields["outcome"] == "REJECTED"
    assert answer.fields["reason"] == (
        "not_allowed: ann may not call again; an admin can allow it: famulus pass rights ann --call again"
    )
    assert bob.hears() == []


def test_what_one_may_call_is_not_known_for_another(config: Config, ann: Client, bob: Worker) -> None:
    """A header that was decided about for one is not decided about for those who have other rights."""
    config.put(eve=Rights(call=("img.*",)), amy=ANN)
    for _ in range(2):
        ann.asks("echo")
        bob.answers(bob.gets_task())
    assert config.broker.core.counters.by_flow == 1
    eve = config.client("eve")
    for _ in range(2):
        eve.asks("echo")
        assert eve.hears_outcome() == "REJECTED not_allowed"
    assert bob.hears() == []
    amy = config.client("amy")
    amy.asks("echo")
    bob.answers(bob.gets_task())
    assert config.broker.core.counters.by_flow == 2, "amy has the rights of ann"


def test_a_connection_of_nobody_is_not_heard(config: Config, bob: Worker) -> None:
    stranger = config.broker.client("stranger")
    stranger.asks("echo")
    assert stranger.hears_one().code == "not_allowed"
    other = config.broker.worker("other")
    other.connects()
    assert other.hears_one().code == "not_allowed"
    assert bob.hears() == []


def test_nobody_is_let_in_before_the_config_is_known(broker: Broker) -> None:
    broker.core.accounts.guard()
    early = broker.client("early")
    broker.core.accounts.come(FRONTEND, [(early.peer, "ann", key_of("ann"))], broker.now_ns)
    early.asks("echo")
    assert early.hears_one().code == "not_allowed"
    assert broker.asked == []


# -- revoked --------------------------------------------------------------------------------------------------------


def test_a_revoked_client_is_refused_over_its_old_connection(config: Config, ann: Client, bob: Worker) -> None:
    ann.asks("echo")
    task = bob.gets_task()
    config.revoke("ann")
    ann.asks("echo")
    assert ann.hears_one().code == "not_allowed"
    bob.answers(task)
    assert ann.hears_outcome() == "OK", "what was accepted before has its outcome"
    config.put(ann=ANN)
    ann.asks("echo")
    bob.gets_task()


def test_a_task_that_is_with_a_router_when_its_client_is_revoked(config: Config, ann: Client, bob: Worker) -> None:
    config.broker.routers_answer = False
    ann.asks("echo")
    decisions = config.broker.decisions()
    config.revoke("ann")
    config.broker.hear(*decisions[0])
    assert ann.hears_one().code == "not_allowed"
    assert bob.hears() == []


def test_a_right_that_is_taken_away(config: Config, ann: Client, bob: Worker) -> None:
    ann.asks("echo")
    bob.answers(bob.gets_task())
    ann.hears()
    config.put(ann=Rights(call=("img.*",)))
    ann.asks("echo")
    assert ann.hears_outcome() == "REJECTED not_allowed"


def test_a_revoked_worker_loses_its_session(config: Config, ann: Client, bob: Worker) -> None:
    ann.asks("echo")
    task = bob.gets_task()
    config.revoke("bob")
    assert bob.hears_one().code == "not_allowed"
    assert ann.hears_outcome() == "UNKNOWN worker_lost"
    bob.answers(task)
    bob.connects()
    assert {heard.code for heard in bob.hears()} == {"not_allowed"}


def test_a_worker_may_go_on_if_it_may_serve_more_than_before(config: Config, ann: Client, bob: Worker) -> None:
    config.put(bob=Rights(serve=("*",)))
    assert bob.hears() == []
    ann.asks("echo")
    bob.gets_task()
    config.put(bob=Rights(serve=("again",)))
    assert bob.hears_one().code == "not_allowed"


# -- serving --------------------------------------------------------------------------------------------------------


def test_a_worker_that_may_not_serve_one_of_its_services_serves_none(config: Config, ann: Client) -> None:
    worker = config.worker("bob", "echo", "secret")
    worker.connects()
    refusal = worker.hears_one()
    assert refusal.kind == "ERROR"
    assert refusal.fields["reason"] == (
        "not_allowed: bob may not serve secret; an admin can allow it: famulus pass rights bob --serve secret"
    )
    worker.says("PING")
    assert worker.hears_one().code == "not_connected"


def test_a_worker_learns_nothing_about_services_that_it_may_not_serve(config: Config, ann: Client, bob: Worker) -> None:
    bob.says("CHECKCONFIG", identity="w", services=["secret"])
    refusal = bob.hears_one()
    assert (refusal.kind, refusal.body) == ("ERROR", b"")
    assert refusal.fields["reason"].startswith("not_allowed: bob may not serve secret;")
    bob.says("CHECKCONFIG", identity="w", services=["echo"])
    assert bob.hears_one().kind == "CONFIG"
    ann.asks("echo")
    bob.gets_task()


def test_who_may_call_may_not_serve_and_the_other_way_round(config: Config) -> None:
    worker = config.worker("ann")
    worker.connects()
    assert worker.hears_one().code == "not_allowed"
    client = config.client("bob")
    client.asks("echo")
    assert client.hears_outcome() == "REJECTED not_allowed"


@pytest.mark.parametrize("token", ["", "the token of bob's worker"])
def test_another_principal_cannot_take_over_an_identity(config: Config, ann: Client, bob: Worker, token: str) -> None:
    bob.connects(worker_token="the token of bob's worker")
    bob.hears()
    bob.pings()
    config.put(eve=Rights(serve=("echo",)))
    thief = config.worker("eve")
    thief.connects(worker_token=token)
    assert thief.hears_one().code == "not_allowed"
    config.broker.later(5000, bob)
    assert thief.hears() == []
    ann.asks("echo")
    bob.gets_task()


def test_the_same_principal_may_come_over_another_connection(config: Config, ann: Client, bob: Worker) -> None:
    bob.connects(worker_token="t")
    bob.hears()
    again = config.worker("bob", connection="bob again").starts(worker_token="t")
    ann.asks("echo")
    again.gets_task()


def test_faults_under_an_identity_are_those_of_its_principal(config: Config, ann: Client) -> None:
    config.put(eve=Rights(serve=("echo",)))
    eve = config.worker("eve").starts()
    for _ in range(10):
        eve.sends(b"", b"no JSON", b"")
    assert config.broker.core.error_workers()[0][0] == "w (eve)"
    config.worker("bob").starts()


# -- how much -------------------------------------------------------------------------------------------------------


def test_open_tasks_are_limited_for_each_principal(config: Config, ann: Client, bob: Worker) -> None:
    config.put(amy=ANN)
    config.limit("ann", open_tasks=2)
    other = config.client("ann", "another connection of ann")
    amy = config.client("amy")
    ann.asks("echo")
    other.asks("echo")
    task = bob.gets_task()
    for client in (ann, other):
        client.asks("echo")
        assert client.hears_outcome() == "REJECTED overload"
    amy.asks("echo")
    assert amy.hears() == []
    bob.answers(task)
    assert ann.hears_outcome() == "OK"
    ann.asks("echo")
    assert ann.hears() == []


def test_tasks_in_a_second_are_limited(config: Config, ann: Client, bob: Worker) -> None:
    config.limit("ann", tasks_per_s=10)

    def served() -> int:
        """How many of twenty at once."""
        count = 0
        for _ in range(20):
            ann.asks("echo")
            heard = bob.hears()
            if heard:
                bob.answers(heard[0])
                assert ann.hears_outcome() == "OK"
                count += 1
            else:
                assert ann.hears_outcome() == "REJECTED overload"
        return count

    assert served() == 10
    config.broker.later(500, bob)
    assert served() == 5
    config.broker.later(60_000, bob)
    assert served() == 10
    config.limit("ann")
    assert served() == 20


def test_a_limit_counts_on_while_the_config_changes(config: Config, ann: Client, bob: Worker) -> None:
    config.limit("ann", open_tasks=1)
    ann.asks("echo")
    task = bob.gets_task()
    config.put(amy=ANN)
    ann.asks("echo")
    assert ann.hears_outcome() == "REJECTED overload"
    bob.answers(task)
    ann.hears()
    ann.asks("echo")
    bob.gets_task()


# -- ids, and other brokers -----------------------------------------------------------------------------------------


def test_an_answer_is_repeated_to_its_own_principal_only(config: Config, ann: Client, bob: Worker) -> None:
    config.put(amy=ANN)
    mine: dict[str, Any] = {"message_id": "m-1", "client_token": "the same"}
    ann.asks("echo", **mine)
    bob.answers(bob.gets_task(), b"for ann")
    assert ann.hears_one().body == b"for ann"
    ann.asks("echo", **mine)
    assert ann.hears_one().body == b"for ann"
    amy = config.client("amy")
    amy.asks("echo", **mine)
    bob.answers(bob.gets_task(), b"for amy")
    assert amy.hears_one().body == b"for amy"


@pytest.mark.parametrize("fields", [{"via": ["b2"]}, {"principal": "amy"}, {"via": ["b2"], "principal": "amy"}])
def test_only_brokers_pass_tasks_on(config: Config, ann: Client, bob: Worker, fields: dict[str, Any]) -> None:
    config.put(amy=Rights(call=("*",)))
    ann.asks("again", **fields)
    assert ann.hears_one().code == "not_allowed"
    assert bob.hears() == []


def test_a_broker_passes_on_for_those_who_have_the_right(config: Config, bob: Worker) -> None:
    config.rights["broker/b2"] = Rights()
    config.limit("ann", open_tasks=1)
    b2 = config.client("broker/b2", "b2")
    b2.asks("echo", via=["b2"], principal="ann", message_id="m-1")
    task = bob.gets_task()
    assert "principal" not in task.fields
    b2.asks("echo", via=["b2"], principal="ann", message_id="m-2")
    assert b2.hears_outcome() == "REJECTED overload"
    b2.asks("again", via=["b2"], principal="ann", message_id="m-3")
    assert b2.hears_outcome() == "REJECTED not_allowed"
    b2.asks("echo", via=["b2"], principal="nobody", message_id="m-4")
    assert b2.hears_outcome() == "REJECTED not_allowed"
    b2.asks("echo")
    assert b2.hears_one().code == "not_allowed"
    bob.answers(task)
    assert b2.hears_outcome() == "OK"
    config.revoke("ann")
    b2.asks("echo", via=["b2"], principal="ann", message_id="m-5")
    assert b2.hears_outcome() == "REJECTED not_allowed"


def test_who_is_revoked_while_a_router_reads_is_refused_like_anybody(config: Config, ann: Client, bob: Worker) -> None:
    """With an outcome, which another broker that passed it on understands, too."""
    broker = config.broker
    broker.routers_answer = False
    ann.asks("echo")
    of_bob = inner.PrincipalTerms(b"", BOB.serve, 0, 0)
    broker.core.on_principals(inner.Principals({key_of("bob"): "bob"}, {"bob": of_bob}, False, {}))
    broker.routers_answer = True
    broker.settle()
    assert ann.hears_outcome() == "REJECTED not_allowed"
    assert bob.hears() == []


# -- keys come and go -----------------------------------------------------------------------------------------------


def test_whoever_came_with_a_key_that_was_replaced_does_not_come_back_with_the_name(
    config: Config, ann: Client, bob: Worker
) -> None:
    """Somebody may have got hold of the former pass, and still be connected when a new one is made."""
    config.revoke("ann")
    ann.asks("echo")
    assert ann.hears_one().code == "not_allowed"
    config.put(ann=ANN)
    config.replace_key("ann")
    ann.asks("echo")
    assert ann.hears_one().code == "not_allowed"
    new = config.client("ann", "a new connection", NEW_KEY)
    new.asks("echo")
    bob.answers(bob.gets_task())
    assert new.hears_outcome() == "OK"


def test_a_connection_with_either_of_two_keys_is_served_until_its_own_is_taken_away(
    config: Config, ann: Client, bob: Worker
) -> None:
    config.keys = {NEW_KEY: "ann"}
    config.put()
    new = config.client("ann", "a new connection", NEW_KEY)
    for client in (ann, new):
        client.asks("echo")
        bob.answers(bob.gets_task())
        assert client.hears_outcome() == "OK"
    config.replace_key("ann")
    ann.asks("echo")
    assert ann.hears_one().code == "not_allowed"
    new.asks("echo")
    bob.answers(bob.gets_task())
    assert new.hears_outcome() == "OK"


def test_a_worker_whose_key_was_replaced_gets_nothing_more(config: Config, ann: Client, bob: Worker) -> None:
    config.replace_key("bob")
    assert bob.hears_one().code == "not_allowed"
    ann.asks("echo")
    assert bob.hears() == []
    bob.connects()
    assert bob.hears_one().code == "not_allowed"


def test_a_worker_whose_key_is_replaced_while_a_router_reads_is_not_taken(config: Config) -> None:
    late = config.worker("bob")
    config.broker.routers_answer = False
    late.connects()
    config.replace_key("bob")
    config.broker.routers_answer = True
    config.broker.settle()
    assert late.hears_one().code == "not_allowed"
    assert config.broker.core.sessions.by_peer == {}


def test_a_broker_with_a_former_key_passes_on_nothing(config: Config, bob: Worker) -> None:
    config.keys = {key_of("broker/b2"): "broker/b2"}
    config.put(**{"broker/b2": Rights(), "ann": ANN})
    b2 = config.client("broker/b2")
    b2.asks("echo", via=["b2"], principal="ann")
    bob.answers(bob.gets_task())
    assert b2.hears_outcome() == "OK"
    config.keys = {NEW_KEY: "broker/b2", key_of("broker/b2"): ""}
    config.put()
    b2.asks("echo", via=["b2"], principal="ann")
    assert b2.hears_one().code == "not_allowed"
    assert bob.hears() == []


def test_a_key_that_is_valid_again_is_served_again(config: Config, ann: Client, bob: Worker) -> None:
    """It had expired, and an admin gave it more time."""
    config.keys = {key_of("ann"): ""}
    config.put()
    ann.asks("echo")
    assert ann.hears_one().code == "not_allowed"
    config.keys = {}
    config.put()
    ann.asks("echo")
    bob.answers(bob.gets_task())
    assert ann.hears_outcome() == "OK"


def test_whoever_comes_when_its_key_has_just_been_taken_away_is_nobody(config: Config, bob: Worker) -> None:
    config.keys = {key_of("ann"): ""}
    config.put()
    late = config.client("ann", "late")
    late.asks("echo")
    assert late.hears_one().code == "not_allowed"
    config.broker.core.accounts.gone(FRONTEND, [late.peer])
    assert config.broker.core.accounts._bearers.keys() == {(key_of("bob"), b"bob")}


def test_what_one_may_call_anew_is_not_open_to_those_who_had_the_same_rights(config: Config, ann: Client) -> None:
    """The decision may be here before what the config says about principals."""
    amy, bob = config.client("amy"), config.worker("bob", "again").starts()
    config.put(amy=ANN)
    config.is_slow = True
    config.put(ann=replace(ANN, call=(*ANN.call, "again")))
    ann.asks("again")
    bob.answers(bob.gets_task())
    assert ann.hears_outcome() == "OK"
    amy.asks("again")
    assert amy.hears_outcome() == "REJECTED not_allowed"
    core = config.broker.core
    core.on_principals(config.told)
    for _ in range(2):
        ann.asks("again")
        bob.answers(bob.gets_task())
        assert ann.hears_outcome() == "OK"
    assert core.counters.by_flow == 1
    amy.asks("again")
    assert amy.hears_outcome() == "REJECTED not_allowed"


def test_a_task_that_is_handed_over_says_whose_it_is(config: Config, ann: Client) -> None:
    core = config.broker.core
    core.on_peers("b1", [("b2", "tcp://there:7100", 0, {"echo": 1})])
    core.on_delegate_link(b"b2", up=True)
    ann.asks("echo")
    ((_, (_, header, _)),) = config.broker.for_delegates
    assert b'"principal":"ann"' in header
    assert b'"via":["b1"]' in header


def test_accounts_of_those_who_are_gone_are_forgotten(config: Config, ann: Client) -> None:
    accounts = config.broker.core.accounts
    config.revoke("ann")
    assert b"ann" in accounts._by_name
    accounts.gone(FRONTEND, [ann.peer])
    config.put(amy=ANN)
    assert b"ann" not in accounts._by_name
    assert accounts.by_peer == {}


# -- on the way to keys ---------------------------------------------------------------------------------------------


def test_a_broker_passes_on_for_those_without_a_key_where_they_need_none(config: Config, bob: Worker) -> None:
    config.rights["broker/b2"] = Rights()
    config.plain = True
    config.put()
    b2 = config.client("broker/b2", "b2")
    b2.asks("echo", via=["b2"], message_id="m-1", client_token="its own")
    bob.answers(bob.gets_task(), b"once")
    assert b2.hears_one().body == b"once"
    # It is the same client's, however it comes: it does not run again.
    plain_client = config.broker.client("plain")
    plain_client.asks("echo", message_id="m-1", client_token="its own")
    assert plain_client.hears_one().body == b"once"
    assert bob.hears() == []
    config.plain = False
    config.put()
    b2.asks("echo", via=["b2"], message_id="m-2")
    assert b2.hears_outcome() == "REJECTED not_allowed"


def test_a_header_that_a_broker_sent_is_nobody_elses(config: Config, bob: Worker) -> None:
    """A flow of it would let anybody through who has the same rights and says the same."""
    config.rights["broker/b2"] = Rights()
    config.put(amy=ANN)
    b2, amy = config.client("broker/b2", "b2"), config.client("amy")
    for client in (b2, amy):
        client.asks("echo", via=["b2"], principal="ann")
    bob.answers(bob.gets_task())
    assert b2.hears_outcome() == "OK"
    assert amy.hears_one().code == "not_allowed"


def test_while_only_some_need_keys_those_without_one_may_do_anything(config: Config) -> None:
    config.plain = True
    config.put()
    plain_client, plain_worker = config.broker.client("plain"), config.broker.worker("plain").starts()
    plain_client.asks("echo", message_id="m-1", via=["b2"])
    task = plain_worker.gets_task()
    ann = config.client("ann")
    ann.asks("again")
    assert ann.hears_outcome() == "REJECTED not_allowed"
    config.plain = False
    config.put()
    assert plain_worker.hears_one().code == "not_allowed"
    plain_worker.answers(task)
    plain_client.asks("echo")
    assert [heard.code for heard in plain_client.hears()] == ["worker_lost", "not_allowed"]


def test_the_herald_is_told_whose_a_task_was(broker: Broker, config: Config) -> None:
    telling.of_tasks(broker.core, broker.now_ns)
    ann, bob = config.client("ann"), config.worker("bob", "echo").starts()
    ann.asks("echo")
    bob.answers(bob.gets_task())
    told = telling.of_tasks(broker.core, broker.now_ns)
    assert told is not None
    assert [(task.principal, task.worker) for task in told.tasks] == [("ann", "w")]
