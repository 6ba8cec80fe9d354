"""Functions in threads: all are answered, slow ones side by side, and a stuck one keeps nobody else."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from famulus.net.waiting import Bell
from famulus.worker.calls import Answer, Call
from famulus.worker.runner import Runner
from famulus.worker.threads import Threads

MakeCall = Callable[..., Call]
Collect = Callable[[Runner, int], list[Answer]]
MakeThreads = Callable[[int], Threads]


@pytest.fixture
def make_threads(bell: Bell) -> Iterator[MakeThreads]:
    made: list[Threads] = []

    def make(threads_max: int) -> Threads:
        made.append(Threads(bell, threads_max))
        return made[-1]

    yield make
    for threads in made:
        assert threads.close()


def test_every_call_is_answered_once(make_threads: MakeThreads, make_call: MakeCall, collect: Collect) -> None:
    threads = make_threads(3)
    calls = [make_call(bytes.upper, b"body %d" % number) for number in range(5000)]
    for start in range(0, 5000, 1000):
        threads.start(calls[start : start + 1000])
    answers = collect(threads, 5000)
    assert {answer.given.ticket for answer in answers} == {call.given.ticket for call in calls}
    assert all(answer.body == answer.given.body.upper() for answer in answers)
    assert threads.take(0) == []


def test_a_quick_function_needs_few_threads(make_threads: MakeThreads, make_call: MakeCall, collect: Collect) -> None:
    threads = make_threads(256)
    for _ in range(20):
        threads.start([make_call(bytes.upper) for _ in range(256)])
        collect(threads, 256)
    assert len(threads) < 64


def test_slow_functions_get_a_thread_each(make_threads: MakeThreads, make_call: MakeCall, collect: Collect) -> None:
    threads = make_threads(40)
    # It passes only when all forty are inside at the same time.
    barrier = threading.Barrier(40, timeout=20)

    def meet(body: bytes) -> None:
        barrier.wait()

    threads.start([make_call(meet) for _ in range(40)])
    assert [answer.reason for answer in collect(threads, 40)] == [""] * 40
    assert len(threads) == 40


def test_one_slot_is_one_thread(make_threads: MakeThreads, make_call: MakeCall, collect: Collect) -> None:
    threads = make_threads(1)
    inside: list[int] = []

    def alone(body: bytes) -> None:
        inside.append(1)
        assert len(inside) == 1
        inside.pop()

    threads.start([make_call(alone) for _ in range(100)])
    assert {answer.reason for answer in collect(threads, 100)} == {""}
    assert len(threads) == 1


def test_an_exit_in_a_function_ends_no_thread(
    make_threads: MakeThreads, make_call: MakeCall, collect: Collect, caplog: pytest.LogCaptureFixture
) -> None:
    def leave(body: bytes) -> None:
        raise SystemExit(1)

    threads = make_threads(1)
    with caplog.at_level(logging.CRITICAL):
        threads.start([make_call(leave), make_call(bytes.upper, b"on")])
        first, second = collect(threads, 2)
    assert first.reason == "SystemExit: 1"
    assert second.body == b"ON"


def test_a_stuck_function_does_not_keep_the_end(bell: Bell, make_call: MakeCall) -> None:
    threads = Threads(bell, 2)
    inside, release = threading.Event(), threading.Event()

    def stuck(body: bytes) -> None:
        inside.set()
        release.wait(20)

    ran: list[bytes] = []
    threads.start([make_call(stuck)])
    assert inside.wait(20)
    assert not threads.close()
    threads.start([make_call(ran.append)])  # what comes after the end is not run
    release.set()
    assert threads.end(20)
    assert ran == []
