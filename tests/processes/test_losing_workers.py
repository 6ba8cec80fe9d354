"""A worker is killed, stopped or dies of its task: every task has its one outcome, soon, and the ledgers agree."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.processes.conftest import Book, BrokerProcess, WorkerProcess, retry, wait_until

from famulus import Client

#: 3 heartbeats of 500 ms, on a busy machine. The time-out of a task is far longer.
LOST_WITHIN_S = 8.0


def test_kill_of_a_worker_under_load(
    brokers: Callable[..., BrokerProcess], ledger_workers: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    settings = tmp_path / "broker.toml"
    settings.write_text('[services.again]\ndelivery = "at_least_once"\nmax_attempts = 2\n')
    broker = brokers("--config", str(settings), "--heartbeat-ms", "500")
    victim = ledger_workers(broker.backend, "once", "again", slots=16)
    other = ledger_workers(broker.backend, "once", "again", slots=16)
    with Client(broker.frontend) as client:
        book = Book(client)
        service_of = {}
        while len(victim.ledger) < 100 or not book.open:
            while len(book.open) < 40:
                service = "once" if len(book.sent) % 2 else "again"
                service_of[book.ask(service, b"sleep 0.05")] = service
            time.sleep(0.001)
        # Now tasks that the kill finds running for certain, of both services.
        services = 15 * ["once", "again"]
        random.Random(1).shuffle(services)  # two workers take turns as well: one of them could have all of a service
        held = {book.ask(service, b"sleep 3.0"): service for service in services}
        service_of.update(held)

        def some_of_each_are_held() -> bool:
            taken = {each.message_id for each in victim.ledger} & held.keys()
            holding = Counter(held[each] for each in taken if each not in book.ended)
            return holding["once"] >= 3 and holding["again"] >= 3

        wait_until(some_of_each_are_held, 10, "that the victim holds tasks of both services")
        finished_before = set(book.ended)
        victim.signal(signal.SIGKILL)
        killed_at = time.monotonic()
        for _ in range(50):  # load goes on: the sends that the ROUTER refuses find another slot
            service_of[book.ask("once", b"x")] = "once"
            service_of[book.ask("again", b"x")] = "again"
        book.wait_for_all()

    lost = {each.message_id for each in victim.ledger} - finished_before
    lost_once = {each for each in lost if service_of[each] == "once" and book.ended[each].outcome != "OK"}
    lost_again = {each.message_id for each in other.ledger if each.attempt == 2 and each.message_id in lost}
    assert lost_once
    assert lost_again
    assert book.outcomes(*lost_once) == {("UNKNOWN", "worker_lost")}
    for each in lost_once:
        assert book.ended[each].at - killed_at < LOST_WITHIN_S
    # The new attempts come first in line, too; until a slot is free, and for the work itself, it takes 3 seconds each.
    for each in lost_again:
        assert book.ended[each].at - killed_at < LOST_WITHIN_S + 7.0

    ran = Counter(each.message_id for each in (*victim.ledger, *other.ledger))
    for message_id, service in service_of.items():
        outcome = book.ended[message_id].outcome
        if service == "again":
            assert outcome == "OK"
            assert ran[message_id] >= 1
        else:
            assert outcome in ("OK", "UNKNOWN")
            assert ran[message_id] <= 1
            assert outcome != "OK" or ran[message_id] == 1
    assert {each.attempt for each in other.ledger if each.service == "once"} == {1}


def test_rejected_tasks_never_ran(
    brokers: Callable[..., BrokerProcess], ledger_workers: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    settings = tmp_path / "broker.toml"
    settings.write_text("[services.once]\nbacklog_tasks_max = 5\nbacklog_age_ms = 300\n")
    broker = brokers("--config", str(settings), "--heartbeat-ms", "500")
    victim = ledger_workers(broker.backend, "once", slots=4)
    with Client(broker.frontend) as client:
        book = Book(client)
        for _ in range(100):
            book.ask("once", b"sleep 60")
        wait_until(lambda: len(victim.ledger) == 4, 10, "four are running")
        wait_until(lambda: len(book.ended) >= 96, 10, "the others are rejected")
        victim.signal(signal.SIGKILL)
        book.wait_for_all()
    ran = Counter(each.message_id for each in victim.ledger)
    outcomes = Counter((end.outcome, end.code) for end in book.ended.values())
    assert outcomes == {("REJECTED", "overload"): 96, ("UNKNOWN", "worker_lost"): 4}
    for message_id, end in book.ended.items():
        assert ran[message_id] == (0 if end.outcome == "REJECTED" else 1)


def test_a_task_that_kills_its_workers_ends_after_max_attempts(
    brokers: Callable[..., BrokerProcess], ledger_workers: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    settings = tmp_path / "broker.toml"
    settings.write_text('[services.again]\ndelivery = "at_least_once"\nmax_attempts = 2\n')
    broker = brokers("--config", str(settings), "--heartbeat-ms", "100")
    started = [ledger_workers(broker.backend, "again", slots=1) for _ in range(3)]
    with Client(broker.frontend) as client:
        book = Book(client)
        book.ask("again", b"die")
        book.wait_for_all()
        assert book.outcomes() == {("UNKNOWN", "worker_lost")}
        assert sorted(each.attempt for worker in started for each in worker.ledger) == [1, 2]
        assert client.request("again", b"attempt") == b"1"  # the third one lives


def test_stop_and_continue_of_a_worker(
    brokers: Callable[..., BrokerProcess], ledger_workers: Callable[..., WorkerProcess]
) -> None:
    broker = brokers("--heartbeat-ms", "500")
    worker = ledger_workers(broker.backend, "once", slots=4)
    with Client(broker.frontend) as client:
        book = Book(client)
        held = [book.ask("once", b"sleep 2") for _ in range(4)]
        wait_until(lambda: len(worker.ledger) == 4, 10, "four are running")
        os.kill(worker.pid, signal.SIGSTOP)
        book.wait_for_all()
        assert book.outcomes(*held) == {("UNKNOWN", "worker_lost")}
        os.kill(worker.pid, signal.SIGCONT)
        worker.wait_until_ready_again()
        retry(client, "once")
        # Its late answers changed nothing, and all its slots are there again.
        more = [book.ask("once", b"sleep 0.2") for _ in range(8)]
        book.wait_for_all()
        assert book.outcomes(*more) == {("OK", "")}, (worker.output, broker.output)
        assert book.outcomes(*held) == {("UNKNOWN", "worker_lost")}
    assert Counter(each.message_id for each in worker.ledger).most_common(1)[0][1] == 1
    assert broker.stop() == 0
