"""A task that is asked for again by its own id runs once, and whoever asked hears how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from famulus.core.clock import NS_PER_S
from famulus.core.delivery import ServicePolicy
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.decisions import WAITERS_MAX
from famulus.core.dispatch.repeats import OVERHEAD_BYTES, Repeats
from famulus.core.dispatch.service import Service

if TYPE_CHECKING:
    from tests.unit.core.conftest import Broker, Client, Worker


@pytest.fixture
def ann(broker: Broker) -> Client:
    return broker.client("ann")


@pytest.fixture
def bob(broker: Broker) -> Worker:
    return broker.worker("bob", "echo", "again", slots=3).starts()


def test_an_answered_task_is_told_again_and_not_run_again(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"hello", b"1", message_id="mine")
    bob.answers(bob.gets_task(), b"answer")
    first = ann.hears_one()
    ann.asks("echo", b"hello", b"2", message_id="mine")
    second = ann.hears_one()
    assert bob.hears() == []
    assert (second.envelope, second.fields, second.body) == (b"2", first.fields, first.body)
    assert broker.core.counters.repeated == 1
    assert broker.core.counters.accepted == 1


def test_an_error_is_told_again_too(ann: Client, bob: Worker) -> None:
    ann.asks("echo", message_id="mine")
    bob.answers(bob.gets_task(), outcome="ERROR", reason="ValueError: no")
    assert ann.hears_outcome() == "ERROR ValueError"
    ann.asks("echo", message_id="mine")
    assert ann.hears_outcome() == "ERROR ValueError"
    assert bob.hears() == []


def test_who_asks_again_while_it_runs_hears_it_with_the_first(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", envelope=b"1", message_id="mine")
    task = bob.gets_task()
    ann.asks("echo", envelope=b"2", message_id="mine")
    assert bob.hears() == []
    bob.answers(task, b"answer")
    assert [(heard.envelope, heard.body) for heard in ann.hears()] == [(b"1", b"answer"), (b"2", b"answer")]
    assert broker.core.outcomes.open_tasks == 0


def test_the_same_id_for_another_service_is_another_task(ann: Client, bob: Worker) -> None:
    ann.asks("echo", message_id="mine")
    bob.answers(bob.gets_task())
    assert ann.hears_outcome() == "OK"
    ann.asks("again", message_id="mine")
    assert bob.gets_task().fields["service"] == "again"


def test_what_was_rejected_did_not_run_and_may_be_asked_for_again(broker: Broker, ann: Client) -> None:
    ann.asks("echo", message_id="mine", timeout_ms=1000)
    broker.later(2000)
    assert ann.hears_outcome() == "REJECTED expired"
    bob = broker.worker("bob").starts()
    ann.asks("echo", message_id="mine")
    bob.answers(bob.gets_task())
    assert ann.hears_outcome() == "OK"


def test_an_unknown_of_an_at_most_once_service_stays_unknown(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", message_id="mine")
    bob.gets_task()
    broker.later(4000)  # silence: the worker is lost
    assert ann.hears_outcome() == "UNKNOWN worker_lost"
    carl = broker.worker("carl").starts()
    ann.asks("echo", message_id="mine")
    assert ann.hears_outcome() == "UNKNOWN worker_lost"
    assert carl.hears() == []


def test_an_unknown_of_an_at_least_once_service_may_run_again(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("again", message_id="mine", timeout_ms=3000)
    bob.gets_task()
    broker.later(4000)
    assert ann.hears_outcome() == "UNKNOWN expired"
    carl = broker.worker("carl", "again").starts()
    ann.asks("again", message_id="mine")
    carl.answers(carl.gets_task())
    assert ann.hears_outcome() == "OK"


def test_it_is_forgotten_after_a_while(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", message_id="mine")
    bob.answers(bob.gets_task())
    ann.hears()
    broker.later(ServicePolicy().results_age_ms, bob)
    ann.asks("echo", message_id="mine")
    bob.gets_task()


def test_an_answer_too_large_to_keep_is_told_to_be_gone(ann: Client, bob: Worker) -> None:
    ann.asks("echo", message_id="mine")
    bob.answers(bob.gets_task(), bytes(2 << 20))
    assert ann.hears_outcome() == "OK"
    ann.asks("echo", message_id="mine")
    assert ann.hears_outcome() == "UNKNOWN too_large"
    assert bob.hears() == []


def test_a_thousand_repeats_of_one_open_task_are_not_kept(broker: Broker, ann: Client, bob: Worker) -> None:
    for number in range(1000):
        ann.asks("echo", envelope=b"%d" % number, message_id="mine")
    assert {heard.code for heard in ann.hears()} == {"overload"}
    bob.answers(bob.gets_task())
    assert len(ann.hears()) == 101


def test_a_draining_broker_still_tells_what_it_knows(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", message_id="mine")
    bob.answers(bob.gets_task())
    assert ann.hears_outcome() == "OK"
    broker.core.drain(10 * NS_PER_S)
    ann.asks("echo", message_id="mine")
    assert ann.hears_outcome() == "OK"


# -- how much is remembered -----------------------------------------------------------------------------------------


def end(repeats: Repeats, key: bytes, service: Service, body: bytes = b"", now_ns: int = 1) -> None:
    repeats.end(repeats.begin(key), service, b"tail", body, now_ns)


def service_with(name: bytes = b"echo", count: int = 1000, size: int = 1 << 20, age_ns: int = 1000) -> Service:
    service = Service(name)
    service.results_max, service.results_bytes_max, service.results_age_ns = count, size, age_ns
    return service


def known_of(repeats: Repeats, keys: str, now_ns: int = 1) -> str:
    return "".join(key for key in keys if repeats.get(key.encode(), now_ns))


def test_however_many_are_open_all_are_remembered(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(Bounds(results_max=1), echo=ServicePolicy(results_max=1))
    ann, bob = broker.client("ann"), broker.worker("bob", slots=3).starts()
    for message_id in ("first", "second", "first"):
        ann.asks("echo", message_id=message_id)
    tasks = bob.hears()
    assert len(tasks) == 2
    for task in tasks:
        bob.answers(task)
    assert [heard.fields["outcome"] for heard in ann.hears()] == ["OK"] * 3
    assert broker.core.repeats._tasks == 1


def test_count_and_bytes_of_a_service_are_bounded_and_its_oldest_goes_first() -> None:
    repeats = Repeats(tasks_max=1000, bytes_max=1 << 30)
    service = service_with(count=3, size=2 * (OVERHEAD_BYTES + 1000))
    for key in (b"a", b"b", b"c"):
        end(repeats, key, service, bytes(900))
    assert known_of(repeats, "abc") == "bc"
    for key in (b"d", b"e", b"f", b"g"):
        end(repeats, key, service)
    assert known_of(repeats, "abcdefg") == "efg"
    assert len(repeats._known) == 3


def test_what_is_too_old_is_not_known_and_makes_room() -> None:
    repeats = Repeats(10, 1 << 20)
    service = service_with(age_ns=100)
    end(repeats, b"a", service, now_ns=1)
    assert known_of(repeats, "a", 100) == "a"
    assert known_of(repeats, "a", 101) == ""
    end(repeats, b"b", service, now_ns=101)
    assert list(repeats._known) == [b"b"]


def test_no_service_makes_a_broker_forget_anothers() -> None:
    repeats = Repeats(1000, 1 << 20)
    rare, busy = service_with(b"rare", count=2), service_with(b"busy", count=3)
    end(repeats, b"r", rare)
    for number in range(100):
        end(repeats, b"%d" % number, busy)
    assert known_of(repeats, "r") == "r"
    assert repeats._tasks == 4


def test_beyond_the_bound_of_all_the_largest_memory_forgets() -> None:
    repeats = Repeats(4, 1 << 20)
    rare, busy = service_with(b"rare"), service_with(b"busy")
    end(repeats, b"r", rare)
    for key in (b"a", b"b", b"c", b"d", b"e"):
        end(repeats, key, busy)
    assert known_of(repeats, "rabcde") == "rcde"
    large = Repeats(1000, 2 * (OVERHEAD_BYTES + 10_000))
    end(large, b"r", rare, bytes(100))
    end(large, b"a", busy, bytes(10_000))
    end(large, b"b", busy, bytes(10_000))
    assert known_of(large, "rab") == "rb"


def test_a_service_that_keeps_nothing_keeps_nothing() -> None:
    repeats = Repeats(10, 1 << 20)
    end(repeats, b"a", service_with(count=0))
    assert not repeats._known
    assert not repeats._memories
    assert (repeats._tasks, repeats._bytes) == (0, 0)


def test_what_begins_anew_is_not_what_ended() -> None:
    repeats = Repeats(10, 1 << 20)
    service = service_with(age_ns=1)
    end(repeats, b"a", service, now_ns=1)
    second = repeats.begin(b"a")
    end(repeats, b"b", service, now_ns=5)  # which looks for what is too old
    assert repeats.get(b"a", 5) is second
    repeats.drop(second)
    assert repeats.get(b"a", 5) is None


def test_a_service_has_the_memory_that_its_config_says(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(echo=ServicePolicy(results_max=1), again=ServicePolicy(results_age_ms=1000))
    ann, bob = broker.client("ann"), broker.worker("bob", "echo", "again").starts()

    def runs(service: str, message_id: str) -> bool:
        ann.asks(service, message_id=message_id, client_token="a" * 16)
        has_run = bool(tasks := bob.hears())
        for task in tasks:
            bob.answers(task)
        assert ann.hears_outcome() == "OK"
        return has_run

    assert [runs("echo", name) for name in ("a", "b", "b", "a")] == [True, True, False, True]
    assert [runs("again", name) for name in ("a", "b", "b", "a")] == [True, True, False, False]
    broker.later(1000, bob)
    assert [runs("again", "a"), runs("echo", "a")] == [True, False]


def test_one_too_many_to_ask_is_not_told_that_it_did_not_run(broker: Broker, ann: Client, bob: Worker) -> None:
    for _ in range(WAITERS_MAX + 1):
        ann.asks("echo", message_id="mine")
    task = bob.gets_task()
    ann.asks("echo", message_id="mine")
    assert ann.hears_outcome() == "UNKNOWN overload"
    bob.answers(task)
    assert len(ann.hears()) == WAITERS_MAX + 1


# -- whose they are -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hers", "his"), [(None, None), ("a" * 32, "b" * 32), ("a" * 32, None), (None, "b" * 32)])
@pytest.mark.parametrize("has_ended", [True, False])
def test_another_clients_id_brings_nobody_elses_answer_and_keeps_no_task_from_running(
    broker: Broker, ann: Client, bob: Worker, hers: str | None, his: str | None, has_ended: bool
) -> None:
    ann.asks("echo", b"hers", message_id="mine", client_token=hers)
    task = bob.gets_task()
    if has_ended:
        bob.answers(task, b"for ann")
    eve = broker.client("eve")
    eve.asks("echo", b"his", message_id="mine", client_token=his)
    assert eve.hears() == []
    other = bob.gets_task()
    assert (other.body, other.fields["message_id"]) == (b"his", "mine")
    bob.answers(other, b"for eve")
    if not has_ended:
        bob.answers(task, b"for ann")
    assert eve.hears_one().body == b"for eve"
    assert ann.hears_one().body == b"for ann"
    assert broker.core.counters.repeated == 0


def test_a_client_that_comes_back_with_its_token_finds_its_answer(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"hello", message_id="mine", client_token="a" * 32)
    bob.answers(bob.gets_task(), b"answer")
    again = broker.client("ann-again")
    again.asks("echo", b"hello", message_id="mine", client_token="a" * 32)
    assert again.hears_one().body == b"answer"
    assert bob.hears() == []


def test_a_client_without_a_token_is_known_by_its_connection_only(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", message_id="mine")
    bob.answers(bob.gets_task())
    broker.client("ann-again").asks("echo", message_id="mine")
    bob.gets_task()


@pytest.mark.parametrize("message_id", [None, "mine"])
def test_neither_workers_nor_clients_are_told_the_token(ann: Client, bob: Worker, message_id: str | None) -> None:
    ann.asks("echo", message_id=message_id, client_token="a" * 32)
    task = bob.gets_task()
    bob.answers(task)
    assert "client_token" not in task.fields
    assert "client_token" not in ann.hears_one().fields
