"""More tasks than slots: who cannot be served in time is told at once, and nothing is begun in vain."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.unit.core.test_delegation_at_the_broker import Neighbour, meet

from famulus.core.clock import NS_PER_S
from famulus.core.delivery import ServicePolicy

if TYPE_CHECKING:
    from tests.unit.core.conftest import Broker, Client, Worker

WORK_MS = 1000


@pytest.fixture
def broker(broker_with: Callable[..., Broker]) -> Broker:
    """Its services have room enough: what is scarce is time."""
    return broker_with(echo=ServicePolicy(timeout_ms=60_000), again=ServicePolicy(delivery="at_least_once"))


@pytest.fixture
def ann(broker: Broker) -> Client:
    return broker.client("ann")


@pytest.fixture
def bob(broker: Broker, ann: Client) -> Worker:
    """One slot, and it takes a second for a task, as ten of them have shown."""
    bob = broker.worker("bob", "echo", "again").starts()
    for service in ("echo", "again"):
        does(broker, ann, bob, service, 10)
    return bob


def does(broker: Broker, ann: Client, bob: Worker, service: str, count: int, ms: float = WORK_MS) -> None:
    for _ in range(count):
        ann.asks(service, timeout_ms=60_000)
        task = bob.gets_task()
        broker.later(ms, bob)
        bob.answers(task)
        assert ann.hears_outcome() == "OK"


def waits(broker: Broker, service: str = "echo") -> int:
    return broker.core.services.by_name[service.encode()].backlog.tasks


def rejections(ann: Client) -> list[str]:
    return [heard.code for heard in ann.hears() if heard.fields["outcome"] == "REJECTED"]


# -- at the door --------------------------------------------------------------------------------------------------


def test_who_would_wait_for_longer_than_it_has_is_rejected_at_once(broker: Broker, ann: Client, bob: Worker) -> None:
    for _ in range(10):
        ann.asks("echo", timeout_ms=5000)
    # One runs, and about three seconds are there for waiting: two more are needed for the task itself.
    assert waits(broker) == 3
    assert rejections(ann) == ["overload"] * 6


def test_who_has_more_time_may_wait_behind_them(broker: Broker, ann: Client, bob: Worker) -> None:
    for timeout_ms in [5000] * 10 + [30_000]:
        ann.asks("echo", timeout_ms=timeout_ms)
    assert waits(broker) == 4


def test_an_urgent_task_waits_for_those_only_that_are_as_urgent(broker: Broker, ann: Client, bob: Worker) -> None:
    for priority in [5] * 10 + [9]:
        ann.asks("echo", timeout_ms=5000, priority=priority)
    assert waits(broker) == 4
    assert broker.core.services.by_name[b"echo"].backlog.head().terms.priority == 9


def test_a_new_worker_counts_at_once(broker: Broker, ann: Client, bob: Worker) -> None:
    for _ in range(10):
        ann.asks("echo", timeout_ms=5000)
    ann.hears()
    broker.worker("ben", slots=9).starts()
    for _ in range(50):
        ann.asks("echo", timeout_ms=5000)
    # Six of the nine new slots were free for the first of them, and then three seconds of ten slots.
    assert waits(broker) == 30
    assert len(rejections(ann)) == 50 - 6 - 30


def test_before_anything_is_known_nobody_is_rejected(broker: Broker, ann: Client) -> None:
    broker.worker("bob").starts()
    for _ in range(100):
        ann.asks("echo", timeout_ms=50)
    assert waits(broker) == 99


def test_when_all_workers_are_gone_what_they_took_is_forgotten(broker: Broker, ann: Client, bob: Worker) -> None:
    bob.says("DISCONNECT")
    for _ in range(10):
        ann.asks("echo", timeout_ms=500)
    assert waits(broker) == 10


def test_two_may_wait_for_each_slot_however_slow_it_is(broker: Broker, ann: Client, bob: Worker) -> None:
    """Nobody knows when it will be free: if the first of them runs out of time, the second one may not have."""
    for _ in range(5):
        ann.asks("echo", timeout_ms=1500)
    assert waits(broker) == 2


def test_what_a_peer_has_room_for_is_not_rejected(broker: Broker, ann: Client, bob: Worker) -> None:
    for _ in range(4):
        ann.asks("echo", timeout_ms=5000)
    # The first in line has been at the peer, and so does not go there; who would be rejected here does.
    bee = Neighbour(broker, "bee", echo=0)
    meet(broker, bee)
    broker.core.delegates.by_identity[b"bee"].free[b"echo"] = 1
    ann.asks("echo", timeout_ms=5000)
    assert len(bee.hears()) == 1
    assert rejections(ann) == []


def test_an_overload_is_told_to_the_journal(broker: Broker, ann: Client, bob: Worker) -> None:
    broker.core.facts.on = True
    for _ in range(10):
        ann.asks("echo", timeout_ms=5000)
    assert broker.core.facts.refused == {b"echo": 6}


# -- when a slot is free ------------------------------------------------------------------------------------------


def test_a_task_with_too_little_time_left_is_not_begun(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo")
    long = bob.gets_task()
    ann.asks("echo", timeout_ms=3000)
    ann.asks("echo", timeout_ms=30_000)
    broker.later(990, bob)
    broker.now_ns += 20_000_000  # the timers have not looked yet
    bob.answers(long)
    assert [heard.fields.get("reason", "").partition(":")[0] for heard in ann.hears()] == ["", "expired"]
    assert bob.gets_task().fields["timeout_ms"] > 28_000, "the next one gets the slot"


def test_who_waits_is_told_as_soon_as_it_is_too_late(broker: Broker, ann: Client, bob: Worker) -> None:
    """It could still be begun, but hardly end: so it need not wait for the rest of its time."""
    ann.asks("echo")
    ann.asks("echo", timeout_ms=5000)
    broker.later(2900, bob)
    assert ann.hears() == []
    broker.later(120, bob)
    assert ann.hears_outcome() == "REJECTED expired"


def test_a_task_shorter_than_all_that_were_is_not_begun_on_a_free_slot(
    broker: Broker, ann: Client, bob: Worker
) -> None:
    ann.asks("echo", timeout_ms=500)
    bob.answers(bob.gets_task())  # the first one is tried, and was quicker than all before
    assert ann.hears_outcome() == "OK"
    does(broker, ann, bob, "echo", 32)
    outcomes = []
    for _ in range(4):
        ann.asks("echo", timeout_ms=500)
        outcomes += [heard.fields["outcome"] for heard in ann.hears()]
    assert outcomes == ["REJECTED"] * 3, "one of them was tried: it may be faster by now"


def test_a_service_that_has_become_faster_serves_short_tasks_again(broker: Broker, ann: Client, bob: Worker) -> None:
    outcomes = []
    for _ in range(200):
        ann.asks("echo", timeout_ms=500)
        for task in bob.hears():
            broker.later(1, bob)
            bob.answers(task)
        broker.later(100, bob)
        outcomes += [heard.fields["outcome"] for heard in ann.hears()]
    assert outcomes[-100:] == ["OK"] * 100


@pytest.mark.parametrize(("left_ms", "again"), [(1500, True), (500, False)])
def test_a_second_attempt_is_made_while_it_has_a_fair_chance(
    broker: Broker, ann: Client, bob: Worker, left_ms: int, again: bool
) -> None:
    """It may have run, so it is UNKNOWN if it does not run again."""
    ann.asks("again", timeout_ms=10_000)
    bob.gets_task()
    ben = broker.worker("ben", "again").starts()
    broker.later(10_000 - left_ms, bob, ben)
    bob.gone = True
    broker.core.sessions.unreachable([[bob.peer, b"", b"", b""]])
    broker.settle()
    assert bool(ben.hears()) is again
    assert [heard.fields["outcome"] for heard in ann.hears()] == ([] if again else ["UNKNOWN"])


def test_late_answers_tell_too_how_long_a_service_takes(broker: Broker, ann: Client) -> None:
    """Else a service that is too slow for all of its tasks would never be known to be slow."""
    bob = broker.worker("bob").starts()
    for _ in range(10):
        ann.asks("echo", timeout_ms=200)
        tasks = bob.hears()
        broker.later(WORK_MS, bob)
        for task in tasks:
            bob.answers(task)
    assert broker.core.services.by_name[b"echo"].service_time.least_ns == NS_PER_S
    ann.hears()
    ann.asks("echo", timeout_ms=200)
    assert ann.hears_outcome() == "REJECTED expired"
