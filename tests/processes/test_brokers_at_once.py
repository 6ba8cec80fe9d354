"""One worker at two real brokers at the same time: one of them is killed under load, and comes back."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tests.processes.conftest import Book, BrokerProcess, Process, retry, wait_until
from tests.processes.ports import free_port

from famulus import Client

MODULE = """
import time
from famulus import Worker

worker = Worker(slots=8, identity="w1")

@worker.service("nap")
def nap(body):
    time.sleep(0.02)
    return body
"""


def test_one_of_two_is_killed_under_load_and_the_other_loses_nothing(
    brokers: Callable[..., BrokerProcess], processes: Callable[..., Process], tmp_path: Path
) -> None:
    (tmp_path / "naps.py").write_text(MODULE)
    ports = [str(free_port()), str(free_port())]
    first = brokers("--routers", "1", "--frontend-port", ports[0], "--backend-port", ports[1])
    second = brokers("--routers", "1")
    both = ("--broker", first.backend, "--broker", second.backend)
    worker = processes(sys.executable, "-m", "famulus", "worker", "naps", "--at-once", *both, cwd=tmp_path)
    worker.wait_for_line(f"worker w1 is ready: nap at {first.backend} .4 slots")
    worker.wait_for_line(f"worker w1 is ready: nap at {second.backend} .4 slots")
    with Client(first.frontend) as doomed, Client(second.frontend) as client:
        lost, kept = Book(doomed, "lost"), Book(client, "kept")
        doomed_ids = [lost.ask("nap", b"%d" % number) for number in range(200)]
        kept_ids = [kept.ask("nap", b"%d" % number) for number in range(200)]
        wait_until(lambda: len(lost.ended) > 20 and len(kept.ended) > 20)
        first.perish()
        assert kept.open, "the load has to last beyond the kill"
        kept_ids += [kept.ask("nap", b"after") for _ in range(50)]
        kept.wait_for_all()
        assert kept.outcomes(*kept_ids) == {("OK", "")}
        lost.wait_for_all(60)
        assert {lost.ended[each].outcome for each in doomed_ids} <= {"OK", "UNKNOWN", "REJECTED"}
    worker.wait_for_line(f"worker w1 lost the broker at {first.backend}; trying again")
    again = brokers("--routers", "1", "--frontend-port", ports[0], "--backend-port", ports[1])
    worker.wait_for_line(f"worker w1 is ready again: nap at {again.backend}")
    with Client(again.frontend) as client:
        retry(client, "nap")
    assert f"lost the broker at {second.backend}" not in worker.output
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
