"""Streams through real brokers and workers: whole and in order, never further ahead than asked for, and one outcome."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from tests.processes import warm
from tests.processes.conftest import HERE, BrokerProcess, Process, memory_kib, wait_until
from tests.processes.networks import Network
from tests.processes.stream_worker import Upto, squares
from tests.processes.test_call import call

from famulus import AsyncClient, Client, OutcomeError, TaskError, Unknown

Start = Callable[..., Process]

#: Of a part, in the test of what memory a reader takes that stops.
CREDIT = 10


@pytest.fixture
def start(processes: Callable[..., Process]) -> Start:
    def start_worker(backend: str, in_processes: int = 0) -> Process:
        worker = processes(sys.executable, str(HERE / "stream_worker.py"), backend, str(in_processes))
        worker.wait_for_line("is ready: ")
        return worker

    return start_worker


@pytest.fixture(params=[0, 2], ids=["threads", "processes"])
def worker(request: pytest.FixtureRequest, broker: BrokerProcess, start: Start) -> Process:
    return start(broker.backend, request.param)


def numbers(last: int) -> list[bytes]:
    return [b"%d" % number for number in range(last)]


def made(worker: Process) -> int:
    """How many parts of `endless` it was asked for, and had."""
    return max([0, *(int(line.split()[1]) for line in worker.lines if line.startswith("took "))])


@pytest.mark.parametrize("credit", [1, 7, 64, 10_000])
def test_parts_come_whole_and_in_order(broker: BrokerProcess, worker: Process, credit: int) -> None:
    with Client(broker.frontend) as client:
        assert list(client.stream("count", b"3000", credit=credit)) == numbers(3000)
        assert list(client.stream("count", b"0", credit=credit)) == []
        assert list(client.stream("plain", b"whole", credit=credit)) == [b"whole"]


def test_one_that_is_to_begin_later(broker: BrokerProcess, worker: Process) -> None:
    async def main() -> list[bytes]:
        async with AsyncClient(broker.frontend) as client:
            return [part async for part in client.stream("count", b"3", delay_s=0.3)]

    began = time.monotonic()
    with Client(broker.frontend) as client:
        assert list(client.stream("count", b"3", delay_s=0.3)) == numbers(3)
    assert asyncio.run(main()) == numbers(3)
    said = call("count", "3", "--stream", "--delay", "0.3", frontend=broker.frontend)
    assert said.stdout == b"012"
    assert time.monotonic() - began >= 0.9


def test_several_at_the_same_time_with_asyncio(broker: BrokerProcess, worker: Process) -> None:
    async def main() -> None:
        async with AsyncClient(broker.frontend) as client:

            async def read(last: int) -> list[bytes]:
                return [part async for part in client.stream("count", str(last), credit=16)]

            assert await asyncio.gather(*map(read, (1000, 10, 500, 0, 1000, 2))) == [
                numbers(last) for last in (1000, 10, 500, 0, 1000, 2)
            ]

    asyncio.run(main())


def test_parts_have_types(broker: BrokerProcess, worker: Process) -> None:
    with Client(broker.frontend) as client:
        assert list(client.stream(squares, Upto(5))) == [0, 1, 4, 9, 16]
        with pytest.raises(TaskError, match="bad_arguments"):
            list(client.stream("squares", b'{"last":"x"}'))
        with pytest.raises(TaskError, match=r"ask for it with stream\(\)"):
            client.call(squares, Upto(5))


def test_a_function_that_raises_in_the_middle(broker: BrokerProcess, worker: Process) -> None:
    with Client(broker.frontend) as client:
        parts = client.stream("break")
        assert [next(parts), next(parts)] == [b"1", b"2"]
        with pytest.raises(TaskError, match="ValueError: no more of it"):
            next(parts)


def test_progress_is_heard_while_waiting(broker: BrokerProcess, worker: Process) -> None:
    heard: list[tuple[float, str]] = []
    with Client(broker.frontend) as client:
        parts = client.stream("plain", b"x", on_progress=lambda done, note: heard.append((done, note)))
        assert list(parts) == [b"x"]
        assert heard == [(0.5, "half of it")]
        assert client.request("plain", b"y") == b"y", "whoever did not ask for a stream hears nothing"


def test_a_reader_that_stops_stops_the_function(broker: BrokerProcess, worker: Process) -> None:
    with Client(broker.frontend) as client:
        parts = client.stream("endless", credit=CREDIT)
        assert list(islice(parts, 2)) == [b"1", b"2"]
        # The last of those that were asked for was taken, and the next one waits at its `yield`.
        worker.wait_for_line(f"took {CREDIT}$")
        assert client.request("plain", b"x") == b"x"
        assert made(worker) == CREDIT
        assert len(list(islice(parts, 5 * CREDIT))) == 5 * CREDIT
        wait_until(lambda: made(worker) > 5 * CREDIT)
        assert made(worker) <= 6 * CREDIT + 2, "as far ahead as the credit goes"
        parts.close()
        worker.wait_for_line("closed after")


def test_memory_does_not_grow_with_the_stream(broker: BrokerProcess, start: Start) -> None:
    worker = start(broker.backend)
    watched = (worker.pid, broker.dispatcher)

    def memory() -> list[int]:
        return [memory_kib(pid) for pid in watched]

    with Client(broker.frontend) as client:
        parts = client.stream("count", b"60000", credit=100)
        assert len(list(islice(parts, 10_000))) == 10_000
        before = memory()
        assert len(list(parts)) == 50_000
        grown = [after - was for was, after in zip(before, memory(), strict=True)]
    assert max(grown) < 2000, grown


@pytest.mark.parametrize("how", ["close", "forget", "cancel"])
def test_whoever_leaves_early_closes_the_generator(broker: BrokerProcess, worker: Process, how: str) -> None:
    async def read_a_few() -> None:
        async with AsyncClient(broker.frontend) as client:
            parts = client.stream("endless", credit=CREDIT)

            async def read() -> None:
                async for part in parts:
                    if part == b"3":
                        reading.cancel()

            reading = asyncio.create_task(read())
            with pytest.raises(asyncio.CancelledError):
                await reading
            await asyncio.to_thread(worker.wait_for_line, "closed after")

    if how == "cancel":
        asyncio.run(read_a_few())
        return
    with Client(broker.frontend) as client:
        if how == "close":
            with client.stream("endless", credit=CREDIT) as parts:
                assert next(parts) == b"1"
        else:
            for part in client.stream("endless", credit=CREDIT):
                assert part == b"1"
                break
        worker.wait_for_line("closed after")
        assert client.request("plain", b"x") == b"x"


def test_and_a_coroutine_is_cancelled_where_it_waits(broker: BrokerProcess, start: Start) -> None:
    worker = start(broker.backend)
    with Client(broker.frontend) as client, client.stream("slow") as parts:
        assert next(parts) == b"part"
        parts.close()
        worker.wait_for_line("stopped")


def test_ctrl_c_at_the_client_closes_the_generator(
    broker: BrokerProcess, start: Start, processes: Callable[..., Process]
) -> None:
    worker = start(broker.backend)
    caller = processes(
        sys.executable, "-m", "famulus", "call", "--stream", "slow", "--broker", broker.frontend, "--json"
    )
    caller.wait_for_line('"part": 1')
    caller.signal(signal.SIGINT)
    assert caller.wait() == 130
    worker.wait_for_line("stopped")


# -- through a second broker ----------------------------------------------------------------------------------------


def test_through_a_second_broker(tmp_path: Path, start: Start) -> None:
    network = Network(tmp_path)
    try:
        first, second = network.found("b1"), network.join("b2")
        network.wait_until_active()
        worker = start(second.backend)
        with Client(first.frontend) as client:
            wait_until(lambda: goes_well(client), 20, "a task that is handed over")
            for credit in (1, 50):
                assert list(client.stream("count", b"500", credit=credit)) == numbers(500)
            assert list(client.stream("plain", b"whole")) == [b"whole"]
            with client.stream("endless", credit=CREDIT) as parts:
                assert len(list(islice(parts, 35))) == 35
                wait_until(lambda: made(worker) >= 35)
                assert made(worker) <= 35 + CREDIT
            worker.wait_for_line("closed after")
            with pytest.raises(TaskError, match="no more of it"):
                list(client.stream("break"))
    finally:
        network.close()


def goes_well(client: Client) -> bool:
    try:
        return client.request("plain", b"x", timeout=2) == b"x"
    except OutcomeError:
        return False


# -- losses ---------------------------------------------------------------------------------------------------------


def test_a_broker_that_dies_in_the_middle(brokers: Callable[..., BrokerProcess], start: Start) -> None:
    """Its client does not send the stream to another broker, though there is one that could have it done."""
    first, second = brokers(), brokers()
    workers = [start(broker.backend) for broker in (first, second)]
    with Client([first.frontend, second.frontend]) as client:
        parts = client.stream("endless", credit=CREDIT)
        assert next(parts) == b"1"
        first.perish()
        with pytest.raises(Unknown, match="broker_lost"):
            list(parts)
        wait_until(lambda: goes_well(client), 20, "the second broker")

    def began() -> int:
        return sum(worker.lines.count("began") for worker in workers)

    wait_until(began, what="a word of the worker")
    assert began() == 1


def test_a_broker_that_stops_waits_for_the_end(broker: BrokerProcess, start: Start) -> None:
    start(broker.backend)
    with Client(broker.frontend) as client:
        parts = client.stream("count", b"1000", credit=CREDIT)
        assert next(parts) == b"0"
        broker.signal(signal.SIGTERM)
        broker.wait_for_line("draining")
        assert list(parts) == numbers(1000)[1:]
    assert broker.wait() == 0


def test_a_worker_that_dies_in_the_middle(broker: BrokerProcess, start: Start) -> None:
    worker = start(broker.backend)
    with Client(broker.frontend) as client:
        parts = client.stream("endless", credit=CREDIT)
        assert next(parts) == b"1"
        worker.signal(signal.SIGKILL)
        with pytest.raises(Unknown, match="worker_lost"):
            list(parts)


# -- on the command line --------------------------------------------------------------------------------------------


def said(broker: BrokerProcess, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return call("--stream", *arguments, frontend=broker.frontend)


def test_what_call_prints(broker: BrokerProcess, start: Start) -> None:
    start(broker.backend)
    told = said(broker, "count", "12")
    assert (told.returncode, told.stdout, told.stderr) == (0, b"01234567891011", b"")
    told = said(broker, "break")
    assert (told.returncode, told.stdout) == (1, b"12")
    assert told.stderr.startswith(b"ERROR: ValueError: no more of it")
    told = said(broker, "break", "--json")
    first, second, end = told.stdout.decode().splitlines()
    assert (first, second) == ('{"part": 1, "body": "1"}', '{"part": 2, "body": "2"}')
    assert re.match(r'{"outcome": "ERROR", "reason": "ValueError: no more of it"', end)
    told = said(broker, "count", "1", "--json")
    assert re.search(rb'\n{"outcome": "OK", "parts": 1, "seconds": [0-9.e-]+}\n$', told.stdout)
    told = said(broker, "slow", "--timeout", "2")
    assert (told.returncode, told.stdout) == (4, b"part")
    for wrong in ("--count=2", "--at-least-once"):
        told = said(broker, "count", wrong)
        assert told.returncode == 2
        assert b"a stream is one task" in told.stderr


def test_on_a_terminal_each_part_has_a_line_and_progress_is_seen(broker: BrokerProcess, start: Start) -> None:
    start(broker.backend)
    leader, follower = pty.openpty()
    command = (sys.executable, "-m", "famulus", "call", "--broker", broker.frontend, "--stream")
    try:
        warm.run([*command, "plain", "whole"], stdout=follower, stderr=follower, timeout=60, check=True)
        assert os.read(leader, 1000) == b" 50% half of it\r\x1b[Kwhole\r\n"
        warm.run([*command, "count", "2"], stdout=follower, timeout=60, check=True)
        assert os.read(leader, 1000) == b"0\r\n1\r\n"
    finally:
        os.close(follower)
        os.close(leader)
