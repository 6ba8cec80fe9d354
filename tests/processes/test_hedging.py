"""Tasks that may run twice, through a real broker: lost workers do not matter, and slow ones are not waited for."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.processes.conftest import HERE, BrokerProcess, Process, wait_until
from tests.processes.test_call import call

from famulus import AsyncClient, Client, Retry, Unknown

LONG_S = 120.0
#: Far less than that.
SOON_S = 25.0

Start = Callable[[BrokerProcess, int, float], Process]


@pytest.fixture
def start(processes: Callable[..., Process]) -> Start:
    def start_worker(broker: BrokerProcess, slots: int, seconds: float) -> Process:
        command = (sys.executable, str(HERE / "hedged_worker.py"))
        worker = processes(*command, broker.backend, str(slots), str(seconds))
        worker.wait_for_line("is ready: ")
        return worker

    return start_worker


def test_a_worker_that_is_killed_in_the_middle_does_not_matter(broker: BrokerProcess, start: Start) -> None:
    victim = start(broker, 1, LONG_S)
    with Client(broker.frontend) as client:
        future = client.submit("price", b"1", idempotent=True)
        victim.wait_for_line("began 1")
        waiting = client.submit("price", b"2")
        other = start(broker, 2, 0.0)
        other.wait_for_line("began 2")
        assert waiting.result(SOON_S).startswith(b"0.0 ")
        victim.signal(signal.SIGKILL)
        assert future.result(SOON_S).startswith(b"0.0 ")
        other.wait_for_line("began 1")


def test_nor_does_the_loss_of_all_workers_for_a_while(broker: BrokerProcess, start: Start) -> None:
    """As often as the broker tries by itself, and then its client does, under the same message_id."""
    with Client(broker.frontend, timeout=60) as client:
        future = client.submit("price", b"1", idempotent=True)
        for _ in range(4):
            victim = start(broker, 1, LONG_S)
            victim.wait_for_line("began 1", SOON_S)
            victim.signal(signal.SIGKILL)
        start(broker, 1, 0.0)
        assert future.result(SOON_S).startswith(b"0.0 ")


def test_without_that_word_the_loss_is_told(broker: BrokerProcess, start: Start) -> None:
    victim = start(broker, 1, LONG_S)
    with Client(broker.frontend) as client:
        future = client.submit("price", b"1")
        victim.wait_for_line("began 1")
        victim.signal(signal.SIGKILL)
        with pytest.raises(Unknown, match="worker_lost"):
            future.result(SOON_S)


@pytest.mark.parametrize("way", ["threads", "map", "asyncio"])
def test_a_slow_worker_is_not_waited_for_and_hears_that(broker: BrokerProcess, start: Start, way: str) -> None:
    # The one that has been free longest gets the first attempt.
    slow = start(broker, 5, LONG_S)
    quick = start(broker, 5, 0.0)
    began = time.monotonic()
    with Client(broker.frontend) as client:
        if way == "threads":
            answer = client.request("price", b"1", idempotent=True, hedge_after_s=0.1)
        elif way == "map":
            (answer,) = client.map("price", [b"1"], idempotent=True, hedge_after_s=0.1)
        else:
            answer = asyncio.run(_asked(broker))
        assert answer.startswith(b"0.0 ")
        assert 0.1 <= time.monotonic() - began < SOON_S
        slow.wait_for_line("began 1")
        slow.wait_for_line("stopped 1")
        quick.wait_for_line("began 1")


async def _asked(broker: BrokerProcess) -> bytes:
    async with AsyncClient(broker.frontend) as client:
        return await client.request("price", b"1", idempotent=True, hedge_after_s=0.1)


def test_the_slowest_are_hedged_when_it_is_known_what_is_usual(broker: BrokerProcess, start: Start) -> None:
    quick = start(broker, 1, 0.0)
    with Client(broker.frontend) as client:
        for number in range(60):
            client.request("price", str(number), idempotent=True, hedge="p95")
        slow = start(broker, 1, LONG_S)
        # Both have their turns, and none of the slow one's takes long.
        numbers = iter(range(100, 1000))

        def is_told() -> bool:
            answer = client.request("price", str(next(numbers)), idempotent=True, hedge="p95", timeout=SOON_S)
            assert answer.startswith(b"0.0 ")
            return "stopped 1" in slow.output

        wait_until(is_told, SOON_S, "the slow one had a task, and is told")
    assert "began 0" in quick.output


def test_with_one_worker_only_the_first_attempt_runs(broker: BrokerProcess, start: Start) -> None:
    worker = start(broker, 5, 0.5)
    with Client(broker.frontend) as client:
        answer = client.request("price", b"1", idempotent=True, hedge_after_s=0.05, timeout=SOON_S)
        assert answer.startswith(b"0.5 ")
    assert worker.output.count("began 1") == 1


def test_a_second_attempt_has_to_be_harmless(broker: BrokerProcess) -> None:
    with Client(broker.frontend, retry=Retry(attempts=2)) as client:
        wrong: tuple[dict[str, Any], ...] = (
            {"hedge_after_s": 0.1},
            {"hedge": "p95"},
            {"idempotent": True, "hedge_after_s": 0.0},
            {"idempotent": True, "hedge": "p99"},
            {"idempotent": True, "hedge": "p95", "hedge_after_s": 1.0},
        )
        for options in wrong:
            for method in (client.request, client.submit, client.call):
                with pytest.raises(ValueError, match=r"hedge|idempotent"):
                    method("price", **options)
            with pytest.raises(ValueError, match=r"hedge|idempotent"):
                client.map("price", [], **options)


def test_from_a_terminal(broker: BrokerProcess, start: Start) -> None:
    slow = start(broker, 1, LONG_S)
    start(broker, 1, 0.0)
    options = ("--broker", broker.frontend, "--timeout", str(SOON_S), "--json")
    said = call("price", "1", "--idempotent", "--hedge", "0.1", *options)
    assert (said.returncode, json.loads(said.stdout)["outcome"]) == (0, "OK"), said
    slow.wait_for_line("stopped 1")
    for wrong, word in ((("--hedge", "p95"), "idempotent"), (("--idempotent", "--hedge", "soon"), "neither")):
        said = call("price", "1", *wrong, *options)
        assert said.returncode == 2
        assert word in said.stderr.decode()
