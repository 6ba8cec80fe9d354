"""Async functions: all are answered, side by side on one loop, and nothing they raise ends the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

import pytest

from famulus.net.waiting import Bell
from famulus.worker.calls import Answer, Call
from famulus.worker.coroutines import Coroutines
from famulus.worker.runner import Runner
from famulus.worker.task import Task

MakeCall = Callable[..., Call]
Collect = Callable[[Runner, int], list[Answer]]


@pytest.fixture
def coroutines(bell: Bell) -> Iterator[Coroutines]:
    coroutines = Coroutines(bell)
    yield coroutines
    assert coroutines.close()


async def upper(body: bytes) -> bytes:
    await asyncio.sleep(0)
    return body.upper()


def test_every_call_is_answered_once(coroutines: Coroutines, make_call: MakeCall, collect: Collect) -> None:
    calls = [make_call(upper, b"body %d" % number) for number in range(2000)]
    coroutines.start(calls[:1000])
    coroutines.start(calls[1000:])
    answers = collect(coroutines, 2000)
    assert {answer.given.ticket for answer in answers} == {call.given.ticket for call in calls}
    assert all(answer.body == answer.given.body.upper() for answer in answers)


def test_they_run_side_by_side(coroutines: Coroutines, make_call: MakeCall, collect: Collect) -> None:
    inside = 0
    everybody = asyncio.Event()

    async def meet(body: bytes) -> None:
        nonlocal inside
        inside += 1
        if inside == 500:
            everybody.set()
        await asyncio.wait_for(everybody.wait(), 20)

    coroutines.start([make_call(meet) for _ in range(500)])
    assert {answer.reason for answer in collect(coroutines, 500)} == {""}


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError()])
def test_nothing_that_is_raised_ends_the_loop(
    coroutines: Coroutines,
    make_call: MakeCall,
    collect: Collect,
    caplog: pytest.LogCaptureFixture,
    error: BaseException,
) -> None:
    async def fail(body: bytes) -> None:
        raise error

    with caplog.at_level(logging.CRITICAL):
        coroutines.start([make_call(fail)])
        (answer,) = collect(coroutines, 1)
    assert answer.reason.startswith(type(error).__name__)
    coroutines.start([make_call(upper, b"on")])
    assert collect(coroutines, 1)[0].body == b"ON"


def test_expired_ones_are_not_run_and_wrong_results_are_errors(
    coroutines: Coroutines, make_call: MakeCall, collect: Collect, caplog: pytest.LogCaptureFixture
) -> None:
    async def number(body: bytes) -> int:
        return 5

    with caplog.at_level(logging.CRITICAL):
        coroutines.start([make_call(upper, left_ms=0), make_call(number)])
        reasons = sorted(answer.reason for answer in collect(coroutines, 2))
    assert reasons[0].startswith("TypeError: a service returns")
    assert reasons[1].startswith("expired: ")


def test_they_can_know_their_task(coroutines: Coroutines, make_call: MakeCall, collect: Collect) -> None:
    async def left(body: bytes, task: Task) -> str:
        return f"{task.service} {task.time_left() > 1}"

    coroutines.start([make_call(left, left_ms=60_000, name="clock")])
    assert collect(coroutines, 1)[0].body == b"clock True"


def test_what_still_runs_at_the_end_is_cancelled(bell: Bell, make_call: MakeCall) -> None:
    ended: list[str] = []

    async def stuck(body: bytes) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("cancelled")

    coroutines = Coroutines(bell)
    coroutines.start([make_call(stuck)])
    logging.getLogger("famulus.worker").setLevel(logging.CRITICAL)
    try:
        assert coroutines.close()
    finally:
        logging.getLogger("famulus.worker").setLevel(logging.NOTSET)
    assert ended == ["cancelled"]
