"""Cancelling through a real broker: what waits never runs, what runs is stopped where that is possible."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes.conftest import HERE, BrokerProcess, Process, Raw

from famulus import AsyncClient, Client, Rejected, Unknown
from famulus.wire import headers

#: Far less than any function here takes.
SOON_S = 20.0

Start = Callable[[int, int], Process]


@pytest.fixture
def start(broker: BrokerProcess, processes: Callable[..., Process]) -> Start:
    def start_worker(slots: int, in_processes: int) -> Process:
        command = (sys.executable, str(HERE / "cancelled_worker.py"))
        worker = processes(*command, broker.backend, str(slots), str(in_processes))
        worker.wait_for_line("is ready: ")
        return worker

    return start_worker


@pytest.fixture
def worker(start: Start) -> Process:
    return start(1, 0)


def test_what_waits_at_the_broker_never_runs(broker: BrokerProcess, worker: Process) -> None:
    with Client(broker.frontend) as client:
        first = client.submit("work", b"first")
        worker.wait_for_line("began first")
        second = client.submit("work", b"second")
        assert second.cancel()
        with pytest.raises(Rejected) as caught:
            second.result(SOON_S)
        assert caught.value.code == "cancelled"
        assert not second.cancel(), "it has its outcome"
        assert first.cancel()
        with pytest.raises(Unknown, match="cancelled"):
            first.result(SOON_S)
        assert client.request("quick", b"x") == b"x"
    assert "second" not in worker.output


def test_a_function_in_a_thread_may_look(broker: BrokerProcess, worker: Process) -> None:
    with Client(broker.frontend) as client:
        future = client.submit("work", b"1")
        worker.wait_for_line("began 1")
        began = time.monotonic()
        future.cancel()
        worker.wait_for_line("saw 1")
        with pytest.raises(Unknown) as caught:
            future.result(SOON_S)
        assert caught.value.code == "cancelled"
        assert "while its function ran" in caught.value.reason
        assert time.monotonic() - began < SOON_S


def test_a_coroutine_is_cancelled(broker: BrokerProcess, worker: Process) -> None:
    with Client(broker.frontend) as client:
        future = client.submit("wait", b"1")
        worker.wait_for_line("began 1")
        future.cancel()
        with pytest.raises(Unknown, match="while its function ran"):
            future.result(SOON_S)
        worker.wait_for_line("stopped 1")
        assert client.request("quick", b"x", timeout=SOON_S) == b"x", "the slot is free"
    assert "Traceback" not in worker.output, "nothing failed"


def test_a_child_process_is_killed_and_what_waits_for_it_never_runs(broker: BrokerProcess, start: Start) -> None:
    worker = start(3, 1)
    with Client(broker.frontend) as client:
        first = client.submit("work", b"first")
        worker.wait_for_line("began first")
        second, third = client.submit("work", b"second"), client.submit("work", b"third")
        second.cancel()
        with pytest.raises(Rejected, match="cancelled"):
            second.result(SOON_S)
        first.cancel()
        with pytest.raises(Unknown, match="while its function ran"):
            first.result(SOON_S)
        worker.wait_for_line("began third")
        third.cancel()
        with pytest.raises(Unknown, match="cancelled"):
            third.result(SOON_S)
        assert client.request("quick", b"x", timeout=SOON_S) == b"x"
    assert "began second" not in worker.output
    assert "saw" not in worker.output


def test_who_leaves_a_map_early_cancels_the_rest(broker: BrokerProcess, worker: Process) -> None:
    with Client(broker.frontend) as client:
        # From now on the header is known, and the order is kept.
        assert client.request("work", b"now") == b"now"
        for answer in client.map("work", [b"now", *(b"%d" % number for number in range(100))], window=10):
            assert answer == b"now"
            began = worker.wait_for_line(r"began (\d+)")[1]
            break
        worker.wait_for_line(f"saw {began}")
        assert client.request("quick", b"x", timeout=SOON_S) == b"x"
    assert worker.output.count("began") == 1


def test_who_is_cancelled_in_asyncio_cancels_the_task(broker: BrokerProcess, worker: Process) -> None:
    async def ask() -> None:
        async with AsyncClient(broker.frontend) as client:
            for number in range(2):
                body = b"%d" % number
                waiting = client.submit("wait", body) if number else asyncio.ensure_future(client.request("wait", body))
                await asyncio.to_thread(worker.wait_for_line, f"began {number}")
                waiting.cancel()
                await asyncio.to_thread(worker.wait_for_line, f"stopped {number}")
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            answers = client.map("wait", [b"2"] * 10)
            left = asyncio.ensure_future(anext(aiter(answers)))
            await asyncio.to_thread(worker.wait_for_line, "began 2")
            left.cancel()
            await asyncio.to_thread(worker.wait_for_line, "stopped 2")
            assert await client.request("quick", b"x", timeout=SOON_S) == b"x"

    asyncio.run(ask())


def test_a_client_that_is_interrupted_cancels_its_task(
    broker: BrokerProcess, worker: Process, processes: Callable[..., Process]
) -> None:
    caller = processes(sys.executable, "-m", "famulus", "call", "--broker", broker.frontend, "work", "1")
    worker.wait_for_line("began 1")
    caller.signal(signal.SIGINT)
    worker.wait_for_line("saw 1")
    caller.wait(SOON_S)


def test_what_a_lost_client_leaves_behind_is_cancelled_where_the_service_says_so(
    brokers: Callable[..., BrokerProcess], processes: Callable[..., Process], tmp_path: Path
) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[services.work]\nabandon = "cancel"\n')
    broker = brokers("--config", str(settings))
    worker = processes(sys.executable, str(HERE / "cancelled_worker.py"), broker.backend, "2", "0")
    worker.wait_for_line("is ready: ")
    client = Client(broker.frontend)
    futures = [client.submit("work", b"left"), client.submit("wait", b"finished")]
    worker.wait_for_line("began left")
    worker.wait_for_line("began finished")
    client.close()
    worker.wait_for_line("saw left")
    for future in futures:
        with pytest.raises(Unknown, match="broker_lost"):
            future.result()
    assert "stopped" not in worker.output


def test_plain_sockets_can_do_it(broker: BrokerProcess, raw: Callable[..., Raw]) -> None:
    """As the page about the protocol says."""
    client, worker = raw(broker.frontend), raw(broker.backend)
    worker.become_worker("plain", "work")
    client.tell("TASK", envelope=b"\0\1", service="work", timeout_ms=10_000)
    ticket, header, _ = worker.recv()
    client.tell("CANCEL", body=b"\0\1")
    assert worker.recv() == [b"", headers.CANCEL, ticket]
    told = headers.read(header)
    assert isinstance(told, headers.TaskRequest)
    worker.tell("TASK", "RESPONSE", envelope=ticket, outcome="REJECTED", reason="cancelled: it had not begun")
    envelope, answer, _ = client.recv()
    assert envelope == b"\0\1"
    assert headers.read(answer) == headers.TaskResponse(
        told.message_id, "work", "REJECTED", "cancelled: it had not begun"
    )
