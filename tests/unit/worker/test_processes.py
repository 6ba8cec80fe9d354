"""Functions in child processes: whatever happens to a child is one ERROR, and no child outlives its worker."""

from __future__ import annotations

import ctypes
import faulthandler
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from famulus.net.waiting import Bell
from famulus.wire import limits
from famulus.worker.calls import Answer, Call
from famulus.worker.child import serve
from famulus.worker.nursery import Nursery
from famulus.worker.processes import Processes
from famulus.worker.runner import Runner
from famulus.worker.services import Services
from famulus.worker.task import Task

MakeCall = Callable[..., Call]
Collect = Callable[[Runner, int], list[Answer]]


def pid_of(body: bytes) -> str:
    return str(os.getpid())


def echo(body: bytes) -> bytes:
    return body


def fail(body: bytes) -> bytes:
    raise ValueError("no")


def leave(body: bytes) -> bytes:
    sys.exit(3)


def vanish(body: bytes) -> bytes:
    os._exit(7)


def crash(body: bytes) -> bytes:
    faulthandler.disable()  # the one of pytest would say at length what we do on purpose
    ctypes.string_at(0)
    return b""


def slow(body: bytes) -> bytes:
    time.sleep(60)
    return b""


def about(body: bytes, task: Task) -> str:
    return f"{task.service} {task.header['traceparent']} {task.time_left() > 1}"


FUNCTIONS = {each.__name__: each for each in (pid_of, echo, fail, leave, vanish, crash, slow, about)}


@pytest.fixture
def services() -> Services:
    services = Services()
    for name, function in FUNCTIONS.items():
        services.add(name, function)
    return services


@pytest.fixture
def nursery(services: Services) -> Iterator[Nursery]:
    nursery = Nursery(partial(serve, services=services))
    yield nursery
    nursery.close()


@pytest.fixture
def two(bell: Bell, nursery: Nursery) -> Iterator[Processes]:
    processes = Processes(bell, nursery, 2)
    yield processes
    assert processes.close()


@pytest.fixture
def call(make_call: MakeCall) -> MakeCall:
    def call(name: str, body: bytes = b"", left_ms: int | None = 60_000) -> Call:
        return make_call(FUNCTIONS[name], body, left_ms, name)

    return call


def alive(pid: int) -> bool:
    try:
        # A zombie has ended, whoever is to take its status.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_functions_run_in_the_children(two: Processes, call: MakeCall, collect: Collect) -> None:
    two.start([call("pid_of") for _ in range(200)])
    pids = {int(answer.body) for answer in collect(two, 200)}
    assert pids <= set(two.pids)
    assert os.getpid() not in pids


@pytest.mark.parametrize("length", [0, 1, 65_536, limits.BODY_BYTES_MAX])
def test_bodies_of_any_length_come_and_go_whole(two: Processes, call: MakeCall, collect: Collect, length: int) -> None:
    body = os.urandom(length)
    two.start([call("echo", body), call("echo", body)])
    for answer in collect(two, 2):
        assert answer.reason == ""
        assert answer.body == body


def test_an_exception_is_told_and_logged_here(
    two: Processes, call: MakeCall, collect: Collect, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "famulus.worker"):
        two.start([call("fail")])
        (answer,) = collect(two, 1)
    assert answer.reason == "ValueError: no"
    assert "in fail" in caplog.text


def test_the_task_and_its_deadline_arrive_there(two: Processes, call: MakeCall, collect: Collect) -> None:
    two.start([call("about")])
    assert collect(two, 1)[0].body == b"about 00-ab True"
    two.start([call("pid_of", left_ms=0)])
    assert collect(two, 1)[0].reason.startswith("expired: ")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("leave", "SystemExit: 3"),
        ("vanish", "ProcessDied: the process that ran it died (exit code 7)"),
        ("crash", "ProcessDied: the process that ran it died (signal SIGSEGV)"),
    ],
)
def test_a_child_that_dies_is_an_error_and_is_replaced(
    two: Processes, call: MakeCall, collect: Collect, caplog: pytest.LogCaptureFixture, name: str, reason: str
) -> None:
    with caplog.at_level(logging.CRITICAL):
        two.start([call(name) for _ in range(4)] + [call("echo", b"on") for _ in range(10)])
        answers = collect(two, 14)
    assert [answer.reason for answer in answers if answer.given.parsed.service == name] == [reason] * 4
    assert [answer.body for answer in answers if answer.given.parsed.service == "echo"] == [b"on"] * 10
    assert len(two.pids) == 2
    assert all(alive(pid) for pid in two.pids)


def test_a_killed_child_is_replaced(
    two: Processes, call: MakeCall, collect: Collect, caplog: pytest.LogCaptureFixture
) -> None:
    first = two.pids
    with caplog.at_level(logging.CRITICAL):
        two.start([call("slow"), call("slow")])
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        reasons = {answer.reason for answer in collect(two, 2)}
    assert reasons == {"ProcessDied: the process that ran it died (signal SIGKILL)"}
    assert not set(first) & set(two.pids)


def test_ctrl_c_and_sigterm_are_left_to_the_worker(two: Processes, call: MakeCall, collect: Collect) -> None:
    for pid in two.pids:
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGTERM)
    two.start([call("echo", b"still here")])
    assert collect(two, 1)[0].body == b"still here"


def test_the_end_takes_the_children_along_even_busy_ones(bell: Bell, services: Services, call: MakeCall) -> None:
    nursery = Nursery(partial(serve, services=services))
    processes = Processes(bell, nursery, 2)
    pids = [nursery.pid, *processes.pids]
    processes.start([call("slow")])
    assert processes.close()
    nursery.close()
    assert not any(alive(pid) for pid in pids)


def test_without_the_nursery_the_runner_says_that_it_failed(
    bell: Bell, services: Services, call: MakeCall, collect: Collect
) -> None:
    nursery = Nursery(partial(serve, services=services))
    processes = Processes(bell, nursery, 1)
    (pid,) = processes.pids
    os.kill(nursery.pid, signal.SIGKILL)
    wait_until(lambda: not alive(nursery.pid))
    processes.start([call("vanish")])
    assert collect(processes, 1)[0].reason == "ProcessDied: the worker's processes are gone"
    assert "start the worker again" in processes.failure
    assert processes.close()
    nursery.close()
    wait_until(lambda: not alive(pid))


def test_a_second_nursery_does_not_keep_the_children_of_the_first(
    bell: Bell, services: Services, call: MakeCall
) -> None:
    first = Nursery(partial(serve, services=services))
    processes = Processes(bell, first, 1)
    second = Nursery(partial(serve, services=services))
    others = Processes(bell, second, 1)
    assert processes.close()
    first.close()
    assert not any(alive(pid) for pid in processes.pids)
    assert all(alive(pid) for pid in others.pids)
    assert others.close()
    second.close()


PARENT = """
import sys, time
from functools import partial
from famulus.net.waiting import Bell
from famulus.worker.child import serve
from famulus.worker.nursery import Nursery
from famulus.worker.processes import Processes
from famulus.worker.services import Services, Service
from famulus.worker.calls import Call
from famulus.core.session.header_cache import Given, ParsedHeader
from famulus.wire import headers

services = Services()
services.add("slow", lambda body: time.sleep(1000))
nursery = Nursery(partial(serve, services=services))
processes = Processes(Bell(), nursery, 3)
header = headers.write("TASK", "REQUEST", service="slow")
processes.start([Call(Given(b"", ParsedHeader("slow", None), b"", header, b""), services.get("slow"), 1 << 62)])
print(nursery.pid, *processes.pids, flush=True)
time.sleep(1000)
"""


def test_killing_the_worker_leaves_no_child() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 4
        assert all(alive(pid) for pid in pids)
        parent.kill()
        wait_until(lambda: not any(alive(pid) for pid in pids))
