"""What is known about running tasks: the latest word about each, and nothing about those that have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from famulus.core import telling
from famulus.core.dispatch.progress import ToldProgress
from famulus.wire import headers, status, stream

if TYPE_CHECKING:
    from tests.unit.core.conftest import Broker, Heard, Worker


@pytest.fixture
def bob(broker: Broker) -> Worker:
    return broker.worker("bob", "echo", slots=4).starts()


def say(worker: Worker, task: Heard, body: bytes) -> None:
    worker.sends(stream.write_place(task.envelope, stream.PROGRESS), headers.PART, body)


def running(broker: Broker) -> tuple[status.TaskProgress, ...]:
    snapshot = telling.Snapshot(broker.core, broker.core.count().all())
    snapshot.go_on(100)
    return snapshot.whole(0).running


def begin(broker: Broker, worker: Worker, name: str) -> Heard:
    broker.client(name).asks("echo", message_id=name)
    return worker.gets_task()


def test_the_latest_word_of_each_is_told(broker: Broker, bob: Worker) -> None:
    first, second = begin(broker, bob, "one"), begin(broker, bob, "two")
    assert running(broker) == ()
    say(bob, first, stream.write_progress(0.1))
    say(bob, second, stream.write_progress(0.2, "resizing"))
    broker.later(300, bob)
    say(bob, first, stream.write_progress(0.4))
    told = running(broker)
    assert [(each.message_id, each.done, each.note) for each in told] == [("one", 0.4, ""), ("two", 0.2, "resizing")]
    assert [(each.told_ago_ms, each.arrived_ago_ms) for each in told] == [(0, 300), (300, 300)]
    assert (told[0].service, told[0].worker, told[0].delegated_to) == ("echo", "bob", "")
    assert (told[0].attempt, told[0].at_most_once, told[0].assigned_ago_ms) == (1, True, 300)


def test_of_what_has_ended_nothing_is_told(broker: Broker, bob: Worker) -> None:
    task = begin(broker, bob, "one")
    say(bob, task, stream.write_progress(0.5))
    bob.answers(task)
    say(bob, task, stream.write_progress(1))
    assert running(broker) == ()
    assert not broker.core.progress


def test_of_what_waits_for_another_attempt_nothing_is_told(broker: Broker) -> None:
    bob = broker.worker("bob", "again").starts()
    broker.client("ann").asks("again", message_id="one")
    say(bob, bob.gets_task(), stream.write_progress(0.5))
    assert len(running(broker)) == 1
    broker.later(10_000)
    assert (running(broker), broker.core.outcomes.open_tasks) == ((), 1)


def test_nonsense_is_not_told(broker: Broker, bob: Worker) -> None:
    say(bob, begin(broker, bob, "one"), b"half of it")
    assert running(broker) == ()


def test_only_so_many_are_known(broker: Broker, bob: Worker) -> None:
    broker.core.progress = ToldProgress(tasks_max=2)
    tasks = [begin(broker, bob, name) for name in ("one", "two", "three")]
    say(bob, tasks[0], stream.write_progress(0.1))
    say(bob, tasks[1], stream.write_progress(0.2))
    bob.answers(tasks[1])
    say(bob, tasks[2], stream.write_progress(0.3))
    assert [each.message_id for each in running(broker)] == ["three", "one"]
    say(bob, begin(broker, bob, "four"), stream.write_progress(0.4))
    assert [each.message_id for each in running(broker)] == ["four", "three"]
