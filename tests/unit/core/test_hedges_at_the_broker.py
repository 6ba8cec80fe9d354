"""Tasks that may run twice, at the broker: another worker gets them, and a second attempt never goes to the first's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.unit.core.test_delegation_at_the_broker import Neighbour, meet

from famulus.core.delivery import ServicePolicy
from famulus.core.dispatch.bounds import Bounds
from famulus.wire import headers
from famulus.wire.inner import POLICIES

if TYPE_CHECKING:
    from tests.unit.core.conftest import Broker, Client, Worker


@pytest.fixture
def ann(broker: Broker) -> Client:
    return broker.client("ann")


def hedge(client: Client, first: bytes, service: str = "echo", body: bytes = b"2", **fields: object) -> None:
    told = {"idempotent": True, "hedge": True} | fields
    client.asks(service, body, first + headers.HEDGE_ENDING, **told)


def lost(broker: Broker, worker: Worker) -> None:
    worker.gone = True
    broker.core.sessions.gone([worker.peer])
    broker.settle()


# -- idempotent -----------------------------------------------------------------------------------------------------


def test_an_idempotent_task_of_a_lost_worker_goes_to_another_one(broker: Broker, ann: Client) -> None:
    bob, eve = broker.worker("bob").starts(), broker.worker("eve").starts()
    ann.asks("echo", b"1", b"e1", idempotent=True)
    first = bob.gets_task()
    assert first.fields["idempotent"] is True
    lost(broker, bob)
    again = eve.gets_task()
    assert (again.body, again.fields["attempt"], again.fields["message_id"]) == (b"1", 2, first.fields["message_id"])
    eve.answers(again)
    assert ann.hears_outcome() == "OK"


def test_another_one_of_the_same_service_does_not(broker: Broker, ann: Client) -> None:
    bob, eve = broker.worker("bob").starts(), broker.worker("eve").starts()
    ann.asks("echo", b"1", b"e1", idempotent=False)
    bob.gets_task()
    lost(broker, bob)
    assert ann.hears_outcome() == "UNKNOWN worker_lost"
    assert eve.hears() == []


def test_it_needs_a_router_only_the_first_time(broker: Broker, ann: Client) -> None:
    bob = broker.worker("bob", slots=9).starts()
    for _ in range(3):
        ann.asks("echo", b"1", b"e1", idempotent=True)
    assert len(bob.hears()) == 3
    assert broker.core.counters.by_flow == 2


def test_its_unknown_is_not_told_from_memory(broker: Broker, ann: Client) -> None:
    bob = broker.worker("bob").starts()
    for attempt in range(2):
        ann.asks("echo", b"1", b"e%d" % attempt, message_id="mine", idempotent=True)
        bob.gets_task()
        lost(broker, bob)
        broker.later(21_000)
        assert ann.hears_outcome() == "UNKNOWN worker_lost"
        bob = broker.worker(f"bob{attempt}").starts()
    ann.asks("echo", b"1", b"e3", message_id="mine", idempotent=True)
    bob.answers(bob.gets_task(), b"done")
    assert ann.hears_outcome() == "OK"
    ann.asks("echo", b"1", b"e4", message_id="mine", idempotent=True)
    assert (ann.hears_outcome(), bob.hears()) == ("OK", []), "what it knows it tells"


def test_a_broker_that_helps_is_told_and_its_doubts_mean_another_attempt(broker: Broker, ann: Client) -> None:
    bee = Neighbour(broker, "bee", echo=2)
    meet(broker, bee)
    ann.asks("echo", b"1", b"e1", idempotent=True)
    for _ in range(2):
        task = bee.gets()
        assert headers.read_fields(task[1])["idempotent"] is True
        bee.answers(task, outcome="UNKNOWN", reason="worker_lost: gone")
    bee.answers(bee.gets())
    assert ann.hears_outcome() == "OK"


# -- second attempts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("slots", [2, 5])
def test_it_goes_to_another_worker_whatever_the_policy_would_like(
    broker_with: Callable[..., Broker], policy: str, slots: int
) -> None:
    """Also when that one is busier, or does not have the key."""
    broker = broker_with(echo=ServicePolicy(policy=policy))  # type: ignore[arg-type]
    ann = broker.client("ann")
    workers = [broker.worker(name, slots=slots).starts() for name in ("bob", "eve")]
    for number in range(2 * slots - 2):
        ann.asks("echo", b"%d" % number, b"e%d" % number, key="red")
    got = {task.body: worker for worker in workers for task in worker.hears()}
    for number in range(2 * slots - 2):
        first = got[b"%d" % number]
        other = workers[1 - workers.index(first)]
        has_room = sum(worker is other for worker in got.values()) < slots
        hedge(ann, b"e%d" % number, key="red")
        if has_room:
            assert first.hears() == []
            task = other.gets_task()
            assert task.fields["hedge"] is True
            other.answers(task, b"answer")
            answer = ann.hears_one()
            assert (answer.envelope, answer.body) == (b"e%dh" % number, b"answer")
        else:
            assert ann.hears_outcome() == "REJECTED overload"
            assert [worker.hears() for worker in workers] == [[], []]
    session_slots = sum(session.free for session in broker.core.sessions.by_peer.values())
    assert session_slots == 2
    assert all(worker.is_in_lru() or not _free(broker, worker) for worker in workers)


def _free(broker: Broker, worker: Worker) -> int:
    return broker.core.sessions.by_peer[worker.peer].free


def test_it_neither_goes_to_the_worker_of_the_first_nor_waits(broker: Broker, ann: Client) -> None:
    bob = broker.worker("bob", slots=3).starts()
    ann.asks("echo", b"1", b"e1", idempotent=True)
    first = bob.gets_task()
    hedge(ann, b"e1")
    answer = ann.hears_one()
    assert (answer.envelope, answer.fields["outcome"], answer.code) == (b"e1h", "REJECTED", "overload")
    assert (bob.hears(), bob.is_in_lru(), _free(broker, bob)) == ([], True, 2)
    bob.answers(first)
    assert ann.hears_outcome() == "OK"
    assert broker.core.outcomes.open_tasks == 0


def test_nor_does_it_wait_for_another_one_or_overtake_those_that_wait(broker: Broker, ann: Client) -> None:
    bob, eve = broker.worker("bob").starts(), broker.worker("eve").starts()
    for number in range(3):
        ann.asks("echo", b"%d" % number, b"e%d" % number)
    hedge(ann, b"e0")
    assert ann.hears_outcome() == "REJECTED overload"
    bob.answers(bob.gets_task())
    assert ann.hears_outcome() == "OK"
    assert bob.gets_task().body == b"2"
    eve.gets_task()


def test_the_first_of_another_client_does_not_matter(broker: Broker, ann: Client) -> None:
    bob = broker.worker("bob", slots=3).starts()
    zoe = broker.client("zoe")
    zoe.asks("echo", b"1", b"e1")
    hedge(ann, b"e1")
    assert len(bob.hears()) == 2


def test_it_is_never_tried_again_by_its_broker(broker: Broker, ann: Client) -> None:
    bob, eve = broker.worker("bob", "again").starts(), broker.worker("eve", "again").starts()
    ann.asks("again", b"1", b"e1", idempotent=True)
    first = bob.gets_task()
    hedge(ann, b"e1", "again")
    eve.gets_task()
    lost(broker, eve)
    assert ann.hears_outcome() == "UNKNOWN worker_lost"
    assert broker.core.counters.attempts_again == 0
    bob.answers(first)
    assert ann.hears_outcome() == "OK"


def test_nor_given_to_the_first_ones_worker_when_its_own_cannot_be_reached(broker: Broker, ann: Client) -> None:
    bob, eve = broker.worker("bob", slots=2).starts(), broker.worker("eve").starts()
    ann.asks("echo", b"1", b"e1", idempotent=True)
    bob.gets_task()
    eve.gone = True
    hedge(ann, b"e1")
    assert ann.hears_outcome() == "REJECTED overload"
    assert bob.hears() == []
    assert broker.core.outcomes.open_bytes == len(b"1"), "that of the first, which may be given to another worker"


def test_it_is_cancelled_like_any_task(broker: Broker, ann: Client) -> None:
    bob, eve = broker.worker("bob").starts(), broker.worker("eve").starts()
    ann.asks("echo", b"1", b"e1", idempotent=True)
    bob.gets_task()
    hedge(ann, b"e1")
    task = eve.gets_task()
    ann.sends(b"", headers.CANCEL, b"e1h")
    told = eve.hears_one()
    assert (told.kind, told.body) == ("CANCEL", task.envelope)


def test_it_becomes_no_flow_and_is_not_remembered(broker: Broker, ann: Client) -> None:
    bob, _ = broker.worker("bob", slots=5).starts(), broker.worker("eve", slots=5).starts()
    ann.asks("echo", b"1", b"e1", idempotent=True)
    for _ in range(2):
        hedge(ann, b"e1")
    assert broker.core.counters.by_flow == 0
    assert broker.core.counters.accepted == 3
    assert len(bob.hears()) == 1


def test_a_full_broker_and_too_little_time_are_reasons_against_it(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(Bounds(open_tasks_max=1))
    ann = broker.client("ann")
    broker.worker("bob").starts()
    broker.worker("eve").starts()
    ann.asks("echo", b"1", b"e1", idempotent=True)
    hedge(ann, b"e1")
    answer = ann.hears_one()
    assert "holds all it can" in answer.fields["reason"]


def test_it_is_not_handed_over(broker: Broker, ann: Client) -> None:
    bob = broker.worker("bob").starts()
    bee = Neighbour(broker, "bee", echo=2)
    meet(broker, bee)
    ann.asks("echo", b"1", b"e1", idempotent=True)
    bob.gets_task()
    hedge(ann, b"e1")
    assert ann.hears_outcome() == "REJECTED overload"
    assert bee.hears() == []
