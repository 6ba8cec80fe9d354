"""Functions that take longer than they may: what their tasks are told, and that the slot is there for the next one."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from tests.unit.worker.conftest import Broker, Run

from famulus import TaskError, Worker
from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.session.header_cache import Given, ParsedHeader
from famulus.errors import SettingsError
from famulus.net.waiting import Bell
from famulus.testing import StandIn
from famulus.wire import headers
from famulus.worker.batching import BatchTerms
from famulus.worker.calls import Answer, BatchAnswer, BatchCall, Call
from famulus.worker.child import serve
from famulus.worker.coroutines import Coroutines
from famulus.worker.nursery import Nursery
from famulus.worker.processes import Processes
from famulus.worker.runner import Runner
from famulus.worker.services import Services
from famulus.worker.threads import Threads

Collect = Callable[[Runner, int], list[Answer]]

#: Short, and long enough for a function that returns at once, on a machine that does other things.
LIMIT_NS = 300 * NS_PER_MS


def nap(body: bytes) -> bytes:
    time.sleep(float(body))
    return body


def nap_all(bodies: list[bytes]) -> list[bytes]:
    return [nap(body) for body in bodies]


def services(**functions: Any) -> Services:
    made = Services()
    for name, function in functions.items():
        terms = BatchTerms(4, 0) if name.endswith("_all") else None
        made.add(name, function, terms, LIMIT_NS)
    return made


def call(functions: Services, name: str, body: bytes = b"") -> Call:
    header = headers.write("TASK", "REQUEST", service=name, message_id="m")
    return Call(Given(b"t", ParsedHeader(name, None), b'"m"', header, body), functions[name], NEVER_NS)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL + 1, "famulus.worker"):
        yield


# -- coroutines -------------------------------------------------------------------------------------------------


def test_a_coroutine_is_cancelled(bell: Bell, collect: Collect) -> None:
    ended: list[str] = []

    async def hang(body: bytes) -> bytes:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return body

    async def quick(body: bytes) -> bytes:
        return body

    functions = services(hang=hang, quick=quick)
    coroutines = Coroutines(bell)
    coroutines.start([call(functions, "hang"), call(functions, "quick")])
    quick_one, late = collect(coroutines, 2)
    assert quick_one.reason == ""
    assert late.reason == "time_limit: it ran longer than its limit of 0.3 s, and was cancelled"
    assert ended == ["cancelled"]
    assert coroutines.close()


def test_so_is_one_with_a_batch_and_one_that_will_not_hear_of_it(bell: Bell, collect: Collect) -> None:
    async def hang_all(bodies: list[bytes]) -> list[bytes]:
        await asyncio.sleep(1000)
        return bodies

    async def deaf(body: bytes) -> bytes:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            return b"all the same"
        return body

    functions = services(hang_all=hang_all, deaf=deaf)
    coroutines = Coroutines(bell)
    coroutines.start([BatchCall([call(functions, "hang_all"), call(functions, "hang_all")]), call(functions, "deaf")])
    for answer in collect(coroutines, 2):
        for each in answer.answers if isinstance(answer, BatchAnswer) else [answer]:
            assert each.reason.startswith("time_limit: ")
    assert coroutines.close()


# -- processes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nap", "nap_all"])
def test_a_child_is_killed_and_another_one_goes_on(bell: Bell, collect: Collect, name: str) -> None:
    functions = services(nap=nap, nap_all=nap_all)
    functions.add("unlimited", nap)
    nursery = Nursery(partial(serve, services=functions))
    processes = Processes(bell, nursery, 1)
    (first,) = processes.pids
    slow = call(functions, name, b"1000")
    processes.start([BatchCall([slow]) if name == "nap_all" else slow, call(functions, "nap", b"0")])
    late, next_one = collect(processes, 2)
    reason = late.answers[0].reason if isinstance(late, BatchAnswer) else late.reason
    assert reason == "time_limit: it ran longer than its limit of 0.3 s, and its process was killed"
    assert next_one.body == b"0"
    (second,) = processes.pids
    assert first != second
    processes.start([call(functions, "unlimited", b"0.4")])
    assert collect(processes, 1)[0].body == b"0.4", "a limit is that of its service"
    assert processes.pids == [second]
    assert processes.close()
    nursery.close()


# -- threads ----------------------------------------------------------------------------------------------------


def test_a_thread_goes_on_in_vain_and_another_one_takes_its_place(bell: Bell, collect: Collect) -> None:
    go_on = {b"first": threading.Event(), b"second": threading.Event()}

    def hold(body: bytes) -> bytes:
        go_on[body].wait(20)
        return body

    functions = services(hold=hold, nap=nap)
    threads = Threads(bell, 1)
    threads.start([call(functions, "hold", b"first"), call(functions, "nap", b"0")])
    assert threads.next_due_ns <= time.monotonic_ns() + LIMIT_NS
    late, next_one = collect(threads, 2)
    assert late.reason == "time_limit: it ran longer than its limit of 0.3 s, and may still be running"
    assert next_one.body == b"0"
    assert len(threads) == 1
    # Both places are taken now, that of the slot and the only one beside it, so nobody is given up any more.
    threads.start([call(functions, "hold", b"second")])
    assert threads.take(time.monotonic_ns() + 2 * LIMIT_NS) == []
    go_on[b"second"].set()
    assert collect(threads, 1)[0].body == b"second"
    go_on[b"first"].set()
    threads.start([call(functions, "nap", b"0"), call(functions, "nap", b"0")])
    assert [answer.body for answer in collect(threads, 2)] == [b"0", b"0"]
    assert len(threads) == 1
    assert threads.end(20.0)


def test_what_is_lost_does_not_keep_the_worker_from_ending(bell: Bell, collect: Collect) -> None:
    go_on = threading.Event()
    functions = services(hold=lambda body: go_on.wait(20))
    threads = Threads(bell, 1)
    threads.start([call(functions, "hold")])
    collect(threads, 1)
    began = time.monotonic()
    assert not threads.close()
    assert time.monotonic() - began < 10
    go_on.set()
    assert threads.end(20.0)


def test_the_slot_of_a_worker_comes_back(broker: Broker, run: Run) -> None:
    go_on = threading.Event()
    worker = Worker(broker.address, time_limit_s=0.3)

    @worker.service("hold")
    def hold(body: bytes) -> None:
        go_on.wait(20)

    @worker.service("patient", time_limit_s=math.inf)
    def patient(body: bytes) -> None:
        time.sleep(0.5)

    running = run(worker)
    broker.welcome(heartbeat_ms=60_000)
    broker.give(b"t1", "hold")
    ticket, fields, _ = broker.hear("TASK")
    assert (ticket, fields["outcome"]) == (b"t1", "ERROR")
    assert fields["reason"].startswith("time_limit: ")
    broker.give(b"t2", "patient")
    ticket, fields, _ = broker.hear("TASK")
    assert (ticket, fields.get("outcome", "OK")) == (b"t2", "OK")
    worker.stop()
    broker.let_go()
    running.wait()
    assert running.result is True
    go_on.set()


def test_a_quick_function_with_a_limit_has_a_thread_of_its_own(broker: Broker, run: Run) -> None:
    threads: set[str] = set()
    worker = Worker(broker.address, time_limit_s=10)

    @worker.service("echo")
    def echo(body: bytes) -> bytes:
        threads.add(threading.current_thread().name)
        return body

    run(worker)
    broker.welcome(heartbeat_ms=60_000)
    for number in range(100):
        broker.give(b"q%d" % number, "echo")
        broker.hear("TASK")
    assert threads == {"famulus-worker-0"}


# -- settings, and the stand-in ---------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, -1, float("nan"), True])
def test_a_limit_that_makes_no_sense_is_named(limit: float) -> None:
    with pytest.raises(SettingsError, match=r"^time_limit_s: seconds"):
        Worker(time_limit_s=limit)
    with pytest.raises(SettingsError, match=r"^service 'nap': time_limit_s"):
        Worker().service("nap", time_limit_s=limit)


def test_that_of_the_service_counts_and_then_that_of_the_worker() -> None:
    worker = Worker(time_limit_s=5)
    worker.service("own", time_limit_s=2)(nap)
    worker.service("none", time_limit_s=math.inf)(nap)
    worker.service("workers")(nap)
    worker.service("batch", batch=4, time_limit_s=3)(nap_all)
    found = {name: (each.is_limited, each.time_limit_ns) for name, each in worker.functions.items()}
    assert found["own"] == (True, 2 * NS_PER_S)
    assert not found["none"][0]
    assert found["workers"] == (True, 5 * NS_PER_S)
    assert found["batch"] == (True, 3 * NS_PER_S)
    worker.change(time_limit_s=1)
    assert worker.functions["workers"].time_limit_ns == NS_PER_S
    assert not Worker().functions


def test_the_stand_in_says_so_when_the_function_has_returned() -> None:
    worker = Worker(time_limit_s=0.05)
    worker.service("nap")(nap)

    @worker.service("hang")
    async def hang(body: bytes) -> None:
        await asyncio.sleep(1000)

    with StandIn(worker) as broker, broker.client() as client:
        for name in ("nap", "hang"):
            with pytest.raises(TaskError, match="time_limit: it ran longer") as caught:
                client.request(name, b"0.1")
            assert caught.value.code == "time_limit"
