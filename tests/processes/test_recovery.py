"""A broker or dispatcher that is there but does nothing is soon found. How soon, by the settings, is a unit test."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

import pytest
from tests.processes.conftest import HERE, BrokerProcess, Process, alive, wait_until
from tests.processes.lan import Namespaces

from famulus.lab.bench.recovery import FAULTS, without_answers_s
from famulus.lab.chaos.lan import can_have_namespaces

#: Less than it took at best with a PING every 2 s and a report once a second, and more than a busy machine needs.
WITHIN_S = 4.0
TRIES = 3

ASKS = """
import sys, time
from famulus import Client
from famulus.errors import OutcomeError
with Client(sys.argv[1:]) as client:
    while True:
        try:
            client.request("echo", b"x")
        except OutcomeError as error:
            print("lost", error.code, flush=True)
        else:
            print("OK", client.address, flush=True)
        time.sleep(0.01)
"""


def best_of_some_s(tried: Callable[[], float]) -> float:
    """What it takes when the machine is not busy with something else all the time."""
    tries: list[float] = []
    while not tries or (tries[-1] > WITHIN_S and len(tries) < TRIES):
        tries.append(tried())
    return min(tries)


@pytest.mark.parametrize("fault", FAULTS)
def test_who_does_nothing_is_soon_replaced(fault: str) -> None:
    assert best_of_some_s(lambda: without_answers_s(fault, 0.5)) < WITHIN_S


def test_a_busy_dispatcher_is_not_killed(broker: BrokerProcess) -> None:
    """Stopped for a moment, again and again: it reports as soon as it can, and that is soon enough."""
    dispatcher = broker.dispatcher
    for _ in range(4):
        os.kill(dispatcher, signal.SIGSTOP)
        time.sleep(0.5)
        os.kill(dispatcher, signal.SIGCONT)
        time.sleep(0.1)
    assert alive(dispatcher)
    assert broker.stop() == 0
    assert "killing it" not in broker.output


@pytest.mark.skipif(not can_have_namespaces(), reason="dropping packets takes network namespaces: root, and ip")
def test_packets_that_are_dropped_are_noticed() -> None:
    assert best_of_some_s(without_a_success_s) < WITHIN_S


def without_a_success_s() -> float:
    """From the moment when the packets of its broker are dropped until a client has an answer of another one."""
    lan = Namespaces()
    started: list[Process] = []
    try:
        for name in ("a", "b"):
            machine = lan.machine(name)
            flags = ["--host", machine.host, "--frontend-port", "7100", "--backend-port", "7101", "--routers", "1"]
            started.append(BrokerProcess(*flags, enter=machine.enter))
            worker = [f"tcp://{machine.host}:7101", "10", "echo"]
            command = [*machine.enter, sys.executable, str(HERE / "echo_worker.py"), *worker]
            started.append(Process(*command))
            started[-1].wait_for_line("is ready")
        asking = lan.machine("client")
        frontends = [f"tcp://{lan.machine(name).host}:7100" for name in ("a", "b")]
        client = Process(*asking.enter, sys.executable, "-c", ASKS, *frontends)
        started.append(client)
        client.wait_for_line(f"OK {frontends[0]}")
        cut_at = time.monotonic()
        lan.partition(["b", "client"], ["a"])
        wait_until(lambda: f"OK {frontends[1]}" in client.lines, 20, "a success at the other one")
        took_s = time.monotonic() - cut_at
        client.wait_for_line("^lost broker_lost$")
        return took_s
    finally:
        lan.heal()
        for process in reversed(started):
            process.close()
        lan.close()
