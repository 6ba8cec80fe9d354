"""What an executor does with the rows of a partition, without Spark around it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.processes.conftest import wait_until

from famulus import Task, Worker
from famulus.errors import AskFailed, BrokerUnreachable
from famulus.spark import clients
from famulus.spark.options import Chosen, Options, terms_of
from famulus.spark.partition import answered
from famulus.testing import RunningBroker, running_broker

KEYED = Chosen(body=(1,), key=(0,), kept=2, body_schema=None)
UNKEYED = Chosen(body=(1,), key=(), kept=2, body_schema=None)

worker = Worker(slots=1)
#: How often each task was begun, by its id.
begun: Counter[str] = Counter()
#: How many held rows may end.
gate = threading.Semaphore(0)


@worker.service("upper")
def upper(body: bytes, task: Task) -> bytes:
    begun[task.message_id] += 1
    if body == b"bad":
        raise ValueError("as you wish")
    return body.upper()


@worker.service("held")
def held(body: bytes, task: Task) -> bytes:
    begun[task.message_id] += 1
    gate.acquire(timeout=20)
    return body


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    settings = tmp_path_factory.mktemp("broker") / "broker.toml"
    settings.write_text("[services.held]\nbacklog_tasks_max = 5\n")
    with running_broker("--config", str(settings)) as broker, worker.started(broker.backend):
        yield broker


@pytest.fixture(autouse=True)
def nothing_begun() -> Iterator[None]:
    begun.clear()
    while gate.acquire(blocking=False):
        pass
    yield
    gate.release(1000)


def rows(*bodies: str | None, first: int = 0) -> pa.RecordBatch:
    keys = list(range(first, first + len(bodies)))
    return pa.record_batch({"id": pa.array(keys, pa.int64()), "text": pa.array(bodies, pa.string())})


def terms(service: str, address: str, place: Chosen = KEYED, **options: Any) -> Any:
    said = Options(broker=address, **options)  # type: ignore[typeddict-item]
    return terms_of("test", service, place, codec_name="bytes", returns=None, rows_per_task=1, options=said)


def asked(of: Any, *batches: pa.RecordBatch) -> list[dict[str, Any]]:
    return [row for batch in answered(of, batches) for row in batch.to_pylist()]


def forget_clients() -> None:
    """As in another process of Spark. Whoever is left alone would go on looking for its broker."""
    while clients._clients:
        clients._clients.popitem()[1].close()


@pytest.fixture(autouse=True)
def no_clients_are_left() -> Iterator[None]:
    yield
    forget_clients()


def test_rows_come_back_in_order_with_their_outcomes(broker: RunningBroker) -> None:
    found = asked(terms("upper", broker.frontend), rows("a", "bad", None), rows(), rows("x", "y", first=3))
    assert [row["id"] for row in found] == [0, 1, 2, 3, 4]
    assert [row["answer"] for row in found] == [b"A", None, None, b"X", b"Y"]
    assert [row["outcome"] for row in found] == ["OK", "ERROR", "REJECTED", "OK", "OK"]
    assert [row["reason"] for row in found][1:3] == ["ValueError: as you wish", "bad_arguments: the body is null"]
    assert sum(begun.values()) == 4
    assert all(row["message_id"].startswith("test-") for row in found)


def test_a_row_that_is_computed_again_has_no_second_effect(broker: RunningBroker) -> None:
    of = terms("upper", broker.frontend)
    first = asked(of, rows("a", "bad", "c"))
    # In another process of Spark, with rows in another order, and then beside each other.
    forget_clients()
    again = asked(of, rows("c", first=2), rows("a", "bad"))
    assert sorted((row["id"], row["answer"], row["reason"]) for row in again) == sorted(
        (row["id"], row["answer"], row["reason"]) for row in first
    )
    assert set(begun.values()) == {1}
    # Another run is another matter.
    asked(terms("upper", broker.frontend), rows("a"))
    assert sum(begun.values()) == 4


def test_a_run_with_a_name_goes_on_in_another_program(broker: RunningBroker) -> None:
    for _ in range(2):
        forget_clients()
        asked(terms("upper", broker.frontend, run="nightly 2026-11-19"), rows("a", "b"))
    assert sorted(begun.values()) == [1, 1]
    assert all(each.startswith("nightly 2026-11-19.") for each in begun)


def test_overload_is_waited_out(broker: RunningBroker) -> None:
    """One slot and five places for forty rows: more than the client itself would try again in so short a time."""
    forget_clients()
    of = terms("held", broker.frontend, window=400, timeout_s=30)
    found: list[dict[str, Any]] = []
    asker = threading.Thread(target=lambda: found.extend(asked(of, rows(*map(str, range(300))))))
    asker.start()
    wait_until(lambda: begun, 10, "the first row begun")
    gate.release(1000)
    asker.join(30)
    assert Counter(row["outcome"] for row in found) == {"OK": 300}
    assert set(begun.values()) == {1}


def test_no_row_waits_longer_than_its_time(broker: RunningBroker) -> None:
    found = asked(terms("held", broker.frontend, timeout_s=0.5), rows(*"abcdefghijkl"))
    assert {row["outcome"] for row in found} <= {"REJECTED", "UNKNOWN"}
    assert {row["reason"].partition(":")[0] for row in found} <= {"expired", "overload"}
    assert max(row["took_ms"] for row in found) < 5_000


def test_a_window_bounds_what_is_in_memory(broker: RunningBroker) -> None:
    taken = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal taken
        for number in range(100):
            taken += 1
            yield rows(*"ab", first=2 * number)

    of = terms("upper", broker.frontend, window=4)
    for number, _ in enumerate(answered(of, batches()), 1):
        assert taken <= number + 4


def test_whoever_leaves_early_cancels_what_is_open(broker: RunningBroker) -> None:
    given = answered(terms("held", broker.frontend, window=3), [rows("a", first=100), rows(*"bcd")])
    asker = threading.Thread(target=lambda: next(given, None))
    asker.start()
    wait_until(lambda: begun, 10, "the first row begun")
    gate.release()
    asker.join(20)
    wait_until(lambda: len(begun) == 2, 10, "the second row begun")
    given.close()
    # The third was open, and is gone before it could begin: this one would come after it.
    assert asked(terms("nobody", broker.frontend), rows("x"))[0]["outcome"] == "REJECTED"
    gate.release(1000)
    assert asked(terms("upper", broker.frontend), rows("y"))[0]["outcome"] == "OK"
    assert len(begun) == 3


def test_a_service_without_workers_is_an_outcome(broker: RunningBroker) -> None:
    (row,) = asked(terms("nobody", broker.frontend), rows("a"))
    assert (row["outcome"], row["reason"].partition(":")[0]) == ("REJECTED", "no_service")


def test_rows_without_keys_may_run_twice(broker: RunningBroker) -> None:
    found = asked(terms("upper", broker.frontend, UNKEYED, idempotent=True), rows("a", "a", "bad"))
    assert [row["answer"] for row in found] == [b"A", b"A", None]
    # The broker has named them, and tells so only of those that went wrong.
    assert [row["message_id"] is None for row in found] == [True, True, False]
    assert sum(begun.values()) == 3


def test_two_rows_with_one_key_are_a_mistake(broker: RunningBroker) -> None:
    of = terms("upper", broker.frontend)
    with pytest.raises(AskFailed, match="two rows have the same key, id=1: "):
        asked(of, rows("a", "b"), rows("c", first=1))
    double = pa.record_batch({"id": [5, 6, 5], "text": ["a", "b", "c"]})
    with pytest.raises(AskFailed, match="two rows have the same key, id=5: "):
        asked(of, double)
    without = pa.record_batch({"id": pa.nulls(2, pa.int64()), "text": ["a", "b"]})
    assert {row["reason"] for row in asked(of, without)} == {"bad_arguments: the key is null"}


def test_an_outcome_that_nobody_wants_fails(broker: RunningBroker) -> None:
    with pytest.raises(AskFailed, match=r"upper: ERROR, ValueError: as you wish \(task test-"):
        asked(terms("upper", broker.frontend, fail_on=["ERROR"]), rows("a", "bad"))
    with pytest.raises(AskFailed, match="REJECTED, bad_arguments"):
        asked(terms("upper", broker.frontend, fail_on=["REJECTED"]), rows(None))


def test_without_a_broker_there_is_no_outcome() -> None:
    with pytest.raises(BrokerUnreachable, match=r"no broker answers at tcp://127.0.0.1:9: say broker="):
        asked(terms("upper", "127.0.0.1:9", timeout_s=0.3), rows("a"))
