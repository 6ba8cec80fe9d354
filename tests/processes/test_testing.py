"""What tests of other programs use: a broker that is there for a test, and workers that are ready when it begins."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from tests.processes.conftest import descendants, wait_until

from famulus import BrokerUnreachable, Worker
from famulus.errors import BrokerDidNotStart
from famulus.testing import RunningBroker, running_broker
from famulus.testing.fixtures import famulus_broker

__all__ = ["famulus_broker"]


def adder() -> Worker:
    worker = Worker(slots=2)

    @worker.service("add")
    def add(a: int, b: int) -> int:
        return a + b

    return worker


def test_a_worker_is_known_when_the_test_begins(famulus_broker: RunningBroker) -> None:
    worker = adder()
    for _ in range(2):  # it may be started again
        with worker.started(famulus_broker.backend) as same, famulus_broker.client(timeout=5) as client:
            assert same is worker
            assert client.call("add", a=1, b=2) == 3
        assert not [each for each in threading.enumerate() if each.name.startswith("famulus-worker")]


def test_it_ends_with_its_test_whatever_happens_there(famulus_broker: RunningBroker) -> None:
    worker = adder()
    with pytest.raises(ZeroDivisionError), worker.started(famulus_broker.backend):
        raise ZeroDivisionError
    assert not [each for each in threading.enumerate() if each.name.startswith("famulus-worker")]


def test_a_worker_that_cannot_start_says_why_and_may_start_later(famulus_broker: RunningBroker) -> None:
    worker = adder()
    worker.change(connect_timeout_s=0.2)
    with pytest.raises(BrokerUnreachable, match="no broker answers"), worker.started("127.0.0.1:1"):
        pytest.fail("there is no broker")
    worker.change(connect_timeout_s=20)
    with worker.started(famulus_broker.backend), famulus_broker.client(timeout=5) as client:
        assert client.call("add", a=1, b=2) == 3


@pytest.mark.parametrize("settings", [{"at_once": True}, {"wait": True}])
def test_it_waits_for_its_brokers_so_long_and_says_which_did_not_come(
    famulus_broker: RunningBroker, settings: dict[str, bool]
) -> None:
    worker = adder()
    there = [famulus_broker.backend] if "at_once" in settings else []
    worker.change(addresses=[*there, "127.0.0.1:1"], **settings)
    said = r"after 0.5 s the worker is not known to tcp://127.0.0.1:1$"
    with pytest.raises(BrokerUnreachable, match=said), worker.started(timeout=0.5):
        pytest.fail("one broker is not there")
    assert not [each for each in threading.enumerate() if each.name.startswith("famulus-worker")]


@pytest.mark.parametrize("kill", [False, True])
def test_a_broker_ends_whole(kill: bool) -> None:
    with running_broker() as broker:
        every = [broker.pid, *descendants(broker.pid)]
        assert len(every) > 2, "a broker has several processes"
        if kill:
            os.kill(broker.pid, signal.SIGKILL)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in every), what="its end")


def test_a_broker_that_cannot_start_says_why() -> None:
    began = time.monotonic()
    with pytest.raises(BrokerDidNotStart, match="no-such-flag"), running_broker("--no-such-flag"):
        pytest.fail("it should not start")
    assert time.monotonic() - began < 30
