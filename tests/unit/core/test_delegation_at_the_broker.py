"""Where no slot is free, a peer with free slots gets the task; it never goes in circles, and is never lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from famulus.core import telling
from famulus.core.clock import NS_PER_S
from famulus.core.delivery import ServicePolicy
from famulus.core.dispatch import delegation
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.delegates import EXCHANGES_MAX, HOPS_MAX, Delegates
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.wire import headers, status

if TYPE_CHECKING:
    from tests.unit.core.conftest import Broker, Client

Frames = list[bytes]


class Neighbour:
    """Another broker, as ours sees it."""

    def __init__(self, broker: Broker, name: str, rank: int = 0, **free: int) -> None:
        self.broker = broker
        self.name = name
        self.offer = (name, f"tcp://{name}:7100", rank, free)

    def gets(self) -> Frames:
        (message,) = self.hears()
        return message

    def hears(self) -> list[Frames]:
        out = self.broker.for_delegates
        mine = [message for identity, message in out if identity == self.name.encode()]
        out[:] = [each for each in out if each[0] != self.name.encode()]
        return mine

    def answers(self, message: Frames, body: bytes = b"", outcome: str = "OK", **more: Any) -> None:
        asked = json.loads(message[1])
        fields = {"service": asked["service"], "message_id": asked["message_id"], "outcome": outcome}
        self.says(message[0], headers.write("TASK", "RESPONSE", **fields, **more), body)

    def says(self, ticket: bytes, header: bytes, body: bytes = b"") -> None:
        self.broker.core.on_delegate(self.name.encode(), [[ticket, header, body]])
        self.broker.settle()

    def link(self, up: bool) -> None:
        self.broker.core.on_delegate_link(self.name.encode(), up)
        self.broker.settle()


def meet(broker: Broker, *neighbours: Neighbour) -> None:
    broker.core.on_peers("here", [neighbour.offer for neighbour in neighbours])
    for neighbour in neighbours:
        neighbour.link(up=True)
    broker.settle()


@pytest.fixture
def ann(broker: Broker) -> Client:
    return broker.client("ann")


@pytest.fixture
def bee(broker: Broker) -> Neighbour:
    bee = Neighbour(broker, "bee", echo=2, again=2)
    meet(broker, bee)
    return bee


def test_a_task_without_a_slot_goes_to_the_peer_and_its_answer_comes_back(
    broker: Broker, ann: Client, bee: Neighbour
) -> None:
    ann.asks("echo", b"hello", b"e", priority=7, traceparent="00-ab")
    message = bee.gets()
    fields = json.loads(message[1])
    assert message[2] == b"hello"
    assert fields["via"] == ["here"]
    assert (fields["service"], fields["priority"], fields["traceparent"]) == ("echo", 7, "00-ab")
    assert 0 < fields["timeout_ms"] <= 20_000
    bee.answers(message, b"answer")
    heard = ann.hears_one()
    assert (heard.envelope, heard.fields["outcome"], heard.body) == (b"e", "OK", b"answer")
    assert heard.fields["message_id"] == fields["message_id"]
    assert broker.core.outcomes.open_tasks == 0
    assert broker.core.outcomes.open_bytes == 0
    assert broker.core.counters.delegated == 1


def test_who_has_a_slot_here_is_not_sent_away(broker: Broker, ann: Client, bee: Neighbour) -> None:
    bob = broker.worker("bob").starts()
    ann.asks("echo")
    assert bee.hears() == []
    bob.gets_task()


def test_what_a_peer_that_stops_has_not_read_is_given_to_another(broker: Broker, ann: Client, bee: Neighbour) -> None:
    ann.asks("echo", b"1")
    ann.asks("echo", b"2")
    read, unread = bee.hears()
    bee.answers(read)
    ann.hears_one()
    dot = Neighbour(broker, "dot", echo=1)
    meet(broker, bee, dot)
    bee.says(b"", headers.LEAVING)
    message = dot.gets()
    assert (message[0] != unread[0], message[2]) == (True, b"2")
    dot.answers(message, b"done")
    assert ann.hears_one().body == b"done"
    assert broker.core.counters.late == 0


def test_a_service_that_only_the_peer_offers_is_served(broker: Broker, ann: Client) -> None:
    bee = Neighbour(broker, "bee", far=1)
    meet(broker, bee)
    ann.asks("far", b"x")
    bee.answers(bee.gets(), b"y")
    assert ann.hears_one().body == b"y"


def test_an_error_of_the_far_worker_is_passed_on(ann: Client, bee: Neighbour) -> None:
    ann.asks("echo")
    bee.answers(bee.gets(), outcome="ERROR", reason="ValueError: no")
    assert ann.hears_outcome() == "ERROR ValueError"


def test_no_more_than_its_free_slots_are_used(broker: Broker, ann: Client, bee: Neighbour) -> None:
    for _ in range(4):
        ann.asks("echo")
    assert len(bee.hears()) == 2
    assert broker.core.services.by_name[b"echo"].backlog.tasks == 2


def test_what_waits_goes_when_a_peer_has_room_again(broker: Broker, ann: Client, bee: Neighbour) -> None:
    for _ in range(3):
        ann.asks("echo")
    bee.hears()
    meet(broker, bee)  # the next heartbeat
    assert len(bee.hears()) == 1
    assert broker.core.services.by_name[b"echo"].backlog.tasks == 0


def test_an_answer_gives_its_slot_back_and_the_next_one_goes(broker: Broker, ann: Client, bee: Neighbour) -> None:
    for _ in range(20):
        ann.asks("again")
    done = 0
    while messages := bee.hears():
        assert len(messages) <= 2
        for message in messages:
            bee.answers(message)
            done += 1
    assert done == 20
    assert len(ann.hears()) == 20


def test_a_rejection_means_that_it_waits_here_and_is_not_sent_there_at_once_again(
    broker: Broker, ann: Client, bee: Neighbour
) -> None:
    ann.asks("echo", b"hello")
    bee.answers(bee.gets(), outcome="REJECTED", reason="overload: full")
    assert ann.hears() == []
    assert bee.hears() == []
    bob = broker.worker("bob").starts()
    task = bob.gets_task()
    assert task.body == b"hello"
    assert task.fields["attempt"] == 1
    bob.answers(task)
    assert ann.hears_outcome() == "OK"
    assert broker.core.outcomes.open_bytes == 0


def test_an_unknown_of_the_peer_is_unknown_or_another_attempt(broker: Broker, ann: Client, bee: Neighbour) -> None:
    ann.asks("echo")
    bee.answers(bee.gets(), outcome="UNKNOWN", reason="worker_lost: gone")
    assert ann.hears_outcome() == "UNKNOWN worker_lost"
    ann.asks("again")
    bee.answers(bee.gets(), outcome="UNKNOWN", reason="worker_lost: gone")
    assert ann.hears() == []
    assert json.loads(bee.gets()[1])["service"] == "again"


@pytest.mark.parametrize("how", ["link", "heartbeat"])
def test_a_lost_peer_leaves_unknowns_and_other_attempts(broker: Broker, ann: Client, bee: Neighbour, how: str) -> None:
    ann.asks("echo")
    ann.asks("again")
    assert len(bee.hears()) == 2
    if how == "link":
        bee.link(up=False)
    else:
        meet(broker)
    assert ann.hears_outcome() == "UNKNOWN worker_lost"
    bob = broker.worker("bob", "again").starts()
    bob.answers(bob.gets_task())
    assert ann.hears_outcome() == "OK"
    assert broker.core.outcomes.open_tasks == 0


def test_a_late_answer_of_a_lost_peer_is_dropped(broker: Broker, ann: Client, bee: Neighbour) -> None:
    ann.asks("echo")
    message = bee.gets()
    bee.link(up=False)
    ann.hears()
    bee.answers(message)
    assert ann.hears() == []
    assert broker.core.counters.late == 1


def test_a_task_that_came_through_the_peer_does_not_go_back(broker: Broker, ann: Client, bee: Neighbour) -> None:
    ann.asks("echo", via=["bee"])
    assert bee.hears() == []
    cat = Neighbour(broker, "cat", echo=1)
    meet(broker, bee, cat)
    message = cat.gets()
    assert json.loads(message[1])["via"] == ["bee", "here"]
    assert bee.hears() == []


def test_a_worker_does_not_see_whom_a_task_came_through(broker: Broker, ann: Client) -> None:
    bob = broker.worker("bob").starts()
    ann.asks("echo", via=["bee"])
    assert "via" not in bob.gets_task().fields


def test_it_is_known_how_many_tasks_went_to_a_peer_and_came_from_it(
    broker: Broker, ann: Client, bee: Neighbour
) -> None:
    ann.asks("echo")
    ann.asks("echo")
    broker.core.on_peers("here", [])
    meet(broker, bee)
    broker.worker("bob", slots=3).starts()
    ann.asks("echo", via=["cat", "bee"])
    ann.asks("echo")
    told = telling.Snapshot(broker.core, broker.core.count().all()).whole(7)
    assert told.exchanges == (status.Exchange("bee", 2, 1),), "also when the connection was lost in between"


def test_only_so_many_can_call_themselves_brokers() -> None:
    delegates = Delegates()
    for number in range(EXCHANGES_MAX + 5):
        delegates.exchange(b"b%d" % number).taken += 1
    assert len(delegates.exchanges) == EXCHANGES_MAX
    assert delegates.exchange(b"b%d" % (EXCHANGES_MAX + 4)).taken == 1


def test_the_way_is_not_longer_than_the_limit() -> None:
    delegates = Delegates()
    delegates.update([("bee", "tcp://bee", 0, {"echo": 1})])
    delegates.by_identity[b"bee"].up = True
    visited = tuple(b"b%d" % number for number in range(HOPS_MAX - 1))
    assert delegates.take(b"echo", visited) is None
    assert delegates.take(b"echo", visited[1:]) is not None


def test_the_own_family_comes_first_then_who_has_most() -> None:
    delegates = Delegates()
    offers = [("far", 1, 99), ("near", 0, 1), ("nearer", 0, 5), ("down", 0, 50)]
    delegates.update([(name, f"tcp://{name}", rank, {"echo": free}) for name, rank, free in offers])
    for name in (b"far", b"near", b"nearer"):
        delegates.by_identity[name].up = True
    taken = [delegates.take(b"echo", ()) for _ in range(7)]
    names = [delegate.identity for delegate in taken if delegate is not None]
    assert sorted(names[:6]) == [b"near"] + [b"nearer"] * 5
    assert names[0] == b"nearer"
    assert names[6] == b"far"


def test_rubbish_from_a_peer_ends_its_task_and_nothing_else(broker: Broker, ann: Client, bee: Neighbour) -> None:
    ann.asks("echo")
    ticket = bee.gets()[0]
    bee.says(ticket, b"{rubbish")
    assert ann.hears_outcome() == "UNKNOWN bad_header"
    bee.says(b"no-such", b"{rubbish")
    broker.core.on_delegate(b"bee", [[b"x"], []])
    broker.core.on_delegate(b"nobody", [[b"x", b"y", b"z"]])
    assert broker.core.outcomes.open_tasks == 0


def test_a_link_that_does_not_take_it_leaves_it_here(broker: Broker, ann: Client, bee: Neighbour) -> None:
    ann.asks("echo", b"hello")
    message = bee.gets()
    delegation.undelivered(broker.core, b"bee", message)
    bob = broker.worker("bob").starts()
    assert bob.gets_task().body == b"hello"


def test_at_its_deadline_a_task_over_there_is_unknown(broker: Broker, ann: Client, bee: Neighbour) -> None:
    ann.asks("echo", timeout_ms=1000)
    message = bee.gets()
    broker.later(2000)
    assert ann.hears_outcome() == "UNKNOWN expired"
    bee.answers(message)
    assert ann.hears() == []


def test_a_peer_that_moves_is_lost_and_met_again(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(slow=ServicePolicy())
    ann, bee = broker.client("ann"), Neighbour(broker, "bee", slow=1)
    meet(broker, bee)
    ann.asks("slow")
    bee.gets()
    moved = Neighbour(broker, "bee", slow=1)
    moved.offer = ("bee", "tcp://elsewhere:7100", 0, moved.offer[3])
    meet(broker, moved)
    assert ann.hears_outcome() == "UNKNOWN worker_lost"


def test_who_is_waited_for_by_a_peer_does_not_wait_for_it_in_turn(broker: Broker, ann: Client, bee: Neighbour) -> None:
    """The client lost the peer, and asks us; the peer hands the same task over to us, and we did so to it."""
    ann.asks("again", b"hello", message_id="mine", client_token="ann")
    bee.gets()
    link_of_bee = broker.client("bee")
    link_of_bee.asks("again", b"hello", message_id="mine", client_token="ann", via=["bee"])
    assert link_of_bee.hears_outcome() == "REJECTED overload"
    assert ann.hears() == []


def test_a_peer_waits_with_us_for_what_waits_or_runs_here(broker: Broker, ann: Client) -> None:
    bob = broker.worker("bob", "again").starts()
    ann.asks("again", message_id="mine", client_token="ann")
    link_of_bee = broker.client("bee")
    link_of_bee.asks("again", message_id="mine", client_token="ann", via=["bee"])
    bob.answers(bob.gets_task())
    assert (ann.hears_outcome(), link_of_bee.hears_outcome()) == ("OK", "OK")


def test_a_client_may_ask_again_for_what_is_out_to_a_peer(broker: Broker, ann: Client, bee: Neighbour) -> None:
    ann.asks("again", message_id="mine", client_token="ann")
    again = broker.client("ann-again")
    again.asks("again", message_id="mine", client_token="ann")
    bee.answers(bee.gets())
    assert (ann.hears_outcome(), again.hears_outcome()) == ("OK", "OK")


def test_what_comes_back_finds_the_workers_of_a_service_that_was_forgotten_meanwhile(broker: Broker) -> None:
    broker.core = Dispatcher(Bounds(services_max=1), 0, [])
    broker.router()
    bee, ann = Neighbour(broker, "bee", fresh=1), broker.client("ann")
    meet(broker, bee)
    ann.asks("fresh", b"hello")
    message = bee.gets()
    broker.worker("carol", "other").starts()
    assert list(broker.core.services.by_name) == [b"other"], "there is room for one only"
    broker.later(4000)
    assert not broker.core.sessions.by_peer, "carol is lost"
    bob = broker.worker("bob", "fresh").starts()
    bee.answers(message, outcome="REJECTED", reason="overload: full")
    task = bob.gets_task()
    assert task.body == b"hello"
    bob.answers(task)
    assert ann.hears_outcome() == "OK"


# -- a broker that has just started -------------------------------------------------------------------------------


@pytest.fixture
def fresh(broker: Broker) -> Broker:
    """It knows no service yet, and does not know that there is none."""
    broker.core = Dispatcher(Bounds(), 0, [], settled_at_ns=broker.now_ns + NS_PER_S)
    broker.router()
    return broker


def test_what_came_before_the_peers_were_heard_goes_to_them_then(fresh: Broker) -> None:
    bee, ann = Neighbour(fresh, "bee", echo=1), fresh.client("ann")
    ann.asks("echo")
    fresh.later(500)
    meet(fresh, bee)
    bee.answers(bee.gets())
    assert ann.hears_outcome() == "OK"


def test_what_others_offer_is_known_for_good(fresh: Broker) -> None:
    """Also if some of it waits at the moment at which the broker stops to expect workers of its own."""
    bee, ann = Neighbour(fresh, "bee", echo=1), fresh.client("ann")
    ann.asks("echo")
    ann.asks("echo")
    meet(fresh, bee)
    fresh.later(1500)
    ann.asks("echo")
    fresh.later(500)
    assert ann.hears() == []
    for _ in range(3):
        bee.answers(bee.gets())
        assert ann.hears_outcome() == "OK"


def test_what_waits_for_nobody_does_not_hold_up_the_truth(fresh: Broker) -> None:
    ann = fresh.client("ann")
    fresh.now_ns += NS_PER_S - 1
    ann.asks("echo")
    fresh.now_ns += 2
    ann.asks("echo", envelope=b"late")
    assert ann.hears_outcome() == "REJECTED no_service", "at once: nobody has come"


def test_a_service_whose_slots_are_all_busy_over_there_is_known(broker: Broker, ann: Client) -> None:
    bee = Neighbour(broker, "bee", faraway=0)
    meet(broker, bee)
    ann.asks("faraway")
    assert (ann.hears(), bee.hears()) == ([], [])
    bee.offer = (*bee.offer[:3], {"faraway": 1})
    meet(broker, bee)
    bee.answers(bee.gets())
    assert ann.hears_outcome() == "OK"


@pytest.mark.parametrize("token", ["a" * 32, None])
def test_a_peer_can_tell_the_ids_of_different_clients_apart(broker: Broker, ann: Client, token: str | None) -> None:
    """Whose a task is goes with it: else clients of one broker would meet at another one."""
    bee = Neighbour(broker, "bee", again=3)
    meet(broker, bee)
    eve = broker.client("eve")
    ann.asks("again", message_id="mine", client_token=token)
    eve.asks("again", message_id="mine")
    eve.asks("again")
    tokens = [json.loads(header)["client_token"] for _, header, _ in bee.hears()]
    assert len(set(tokens)) == 3
    assert tokens[0] == token or token is None
