"""What a dispatcher tells about itself, in a dialogue with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.core.conftest import Broker

from famulus.core import telling
from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.dispatch.latency import Latency
from famulus.web.status.board import SILENCE_NS
from famulus.wire import status


def told(broker: Broker) -> status.Dispatcher:
    made = telling.Snapshot(broker.core, broker.core.count().all())
    while not made.go_on(2):
        pass
    snapshot = made.whole(7)
    assert status.read(status.write(snapshot)) == snapshot
    return snapshot


def service(broker: Broker, name: str = "echo") -> status.Service:
    return next(each for each in told(broker).services if each.name == name)


def test_a_task_is_counted_at_its_service_with_its_duration(broker: Broker) -> None:
    ann, bob = broker.client("ann"), broker.worker("bob", slots=2).starts()
    ann.asks("echo")
    assert (service(broker).free, service(broker).busy, service(broker).workers) == (1, 1, 1)
    broker.later(900, bob)
    bob.answers(bob.gets_task())
    assert ann.hears_outcome() == "OK"
    assert (service(broker).ok, service(broker).free) == (1, 2)
    latency = broker.core.services.by_name[b"echo"].latency
    assert (sum(latency.counts), latency.sum_ns) == (1, 900_000_000)


def test_every_outcome_is_counted_where_it_belongs(broker: Broker) -> None:
    ann, bob = broker.client("ann"), broker.worker("bob").starts()
    ann.asks("echo")
    bob.answers(bob.gets_task(), outcome="ERROR")
    ann.asks("echo")
    for _ in range(4):
        ann.asks("echo")  # one more than may wait
    bob.gone = True
    broker.later(30_000)
    counted = service(broker)
    assert (counted.ok, counted.error) == (0, 1)
    assert (counted.unknown, counted.rejected) == (1, 4)
    counters = told(broker).counters
    assert [counters[name] for name in ("ok", "error", "rejected", "unknown")] == [0, 1, 4, 1]


def test_workers_are_told_with_their_state(broker: Broker) -> None:
    broker.worker("bob", "echo", "again", slots=3).starts(heartbeat_ms=2000)
    broker.worker("eve").connects()
    broker.later(400)
    bob, eve = told(broker).workers
    assert (bob.identity, bob.state, bob.slots, bob.free) == ("bob", "ready", 3, 3)
    assert (bob.silent_ms, bob.heartbeat_ms, bob.services) == (400, 2000, ("echo", "again"))
    assert eve.state == "connecting"
    assert (told(broker).free, told(broker).workers_total) == (3, 2)


def test_lists_are_bounded_and_the_rest_is_counted(
    broker_with: Callable[..., Broker],
) -> None:
    broker = broker_with()
    for number in range(status.WORKERS_MAX + 5):
        broker.worker(f"w{number}", f"s{number}").starts()
    snapshot = told(broker)
    assert (len(snapshot.workers), snapshot.workers_total) == (status.WORKERS_MAX, status.WORKERS_MAX + 5)
    assert len(snapshot.services) == status.SERVICES_MAX
    assert snapshot.free == status.WORKERS_MAX + 5, "those that are not listed count, too"


def test_whoever_comes_or_goes_between_two_steps_of_a_snapshot_does_no_harm(broker: Broker) -> None:
    bob = broker.worker("bob").starts()
    counted = broker.core.count().all()
    broker.worker("eve", "new").starts()
    snapshot = telling.Snapshot(broker.core, counted)
    assert not snapshot.go_on(1)
    bob.says("DISCONNECT")
    while not snapshot.go_on(1):
        pass
    whole = snapshot.whole(7)
    assert [worker.identity for worker in whole.workers] == ["bob", "eve"], "as it was"
    assert whole.workers_total == 1
    assert [(each.name, each.free) for each in whole.services] == [("echo", 1), ("again", 0), ("new", 0)]


def test_durations_are_told_when_they_move(broker: Broker) -> None:
    latencies = telling.Latencies("dispatcher-7")
    assert latencies.news(broker.core, broker.now_ns) is None
    ann, bob = broker.client("ann"), broker.worker("bob").starts()
    ann.asks("echo")
    bob.answers(bob.gets_task())
    news = latencies.news(broker.core, broker.now_ns)
    assert news is not None
    assert list(news.services) == ["echo"]
    assert sum(news.services["echo"].counts) == 1
    assert latencies.news(broker.core, broker.now_ns) is None
    assert not Latency().counts, "a service that nobody used costs nothing"


@pytest.mark.parametrize(
    ("cost_ms", "pause_ms"),
    [(0, 500), (1, 500), (20, 1000), (1000, 1500)],
)
def test_snapshots_take_a_small_part_of_the_time_but_come_before_anybody_misses_them(
    cost_ms: int, pause_ms: int
) -> None:
    assert telling.pause_ns(cost_ms * NS_PER_MS) == pause_ms * NS_PER_MS


def test_a_dispatcher_that_is_well_is_never_taken_for_gone() -> None:
    """Not even if a snapshot comes a second late."""
    assert telling.PAUSE_MAX_NS + NS_PER_S < SILENCE_NS


# -- tasks ----------------------------------------------------------------------------------------------------------


def ended(broker: Broker) -> tuple[status.TaskEnd, ...]:
    snapshot = telling.of_tasks(broker.core, broker.now_ns)
    if snapshot is None:
        return ()
    assert status.read(status.write(snapshot)) == snapshot
    return snapshot.tasks


def test_a_task_that_has_ended_is_told_once_with_who_had_it_and_how_long(broker: Broker) -> None:
    assert ended(broker) == (), "from now on somebody asks"
    ann, bob = broker.client("ann"), broker.worker("bob").starts()
    ann.asks("echo", b"12345", message_id='order "4711"', priority=3)
    broker.later(900, bob)
    bob.answers(bob.gets_task(), b"123")
    broker.later(100, bob)
    (task,) = ended(broker)
    assert (task.message_id, task.service, task.outcome, task.reason) == ('order "4711"', "echo", "OK", "")
    assert (task.worker, task.attempt, task.at_most_once, task.priority) == ("bob", 1, True, 3)
    assert (task.ended_ago_us, task.total_us, task.queue_us) == (100_000, 900_000, 0)
    assert (task.request_bytes, task.response_bytes) == (5, 3)
    assert ended(broker) == ()


def test_tasks_that_failed_are_told_with_the_code_of_their_reason(broker: Broker) -> None:
    ended(broker)
    ann, bob = broker.client("ann"), broker.worker("bob").starts()
    ann.asks("nobody")
    ann.asks("echo")
    bob.answers(bob.gets_task(), outcome="ERROR", reason="bad_order: it has no customer, Mr Smith")
    ann.asks("echo")
    broker.later(30_000, bob)
    assert [(task.service, task.outcome, task.reason, task.worker) for task in ended(broker)] == [
        ("nobody", "REJECTED", "no_service", ""),
        ("echo", "ERROR", "bad_order", "bob"),
        ("echo", "UNKNOWN", "expired", "bob"),
    ]


def test_many_tasks_that_ended_well_do_not_hide_one_that_failed(broker: Broker) -> None:
    ended(broker)
    ann, bob = broker.client("ann"), broker.worker("bob").starts()
    for _ in range(status.OK_TASKS_MAX + 5):
        ann.asks("echo")
        bob.answers(bob.gets_task())
    for _ in range(status.FAILED_TASKS_MAX + 5):
        ann.asks("nobody")
    outcomes = [task.outcome for task in ended(broker)]
    assert (outcomes.count("OK"), outcomes.count("REJECTED")) == (status.OK_TASKS_MAX, status.FAILED_TASKS_MAX)
    ann.asks("nobody")
    assert len(ended(broker)) == 1, "there is room again"


def test_without_anybody_who_asks_no_task_is_kept(broker: Broker) -> None:
    ann = broker.client("ann")
    ann.asks("nobody")
    assert broker.core.outcomes.take_sample(0, 0) == []
    ann.asks("nobody")
    assert broker.core.outcomes.take_sample(0, 0) == []
