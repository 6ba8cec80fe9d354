"""Tasks with a delay and a real broker: not before their time, cancelled while they wait, given back when it stops."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.processes.conftest import BrokerProcess, WorkerProcess
from tests.processes.test_call import call

from famulus import AsyncClient, Client, Rejected

#: Far longer than anything here takes.
LONG_S = 60.0


@pytest.fixture
def worker(broker: BrokerProcess, echo_workers: Callable[..., WorkerProcess]) -> WorkerProcess:
    return echo_workers(broker.backend, "echo")


def test_it_runs_when_its_time_has_come(broker: BrokerProcess, worker: WorkerProcess) -> None:
    with Client(broker.frontend) as client:
        began = time.monotonic()
        later = client.submit("echo", b"later", delay_s=0.5, timeout=LONG_S)
        at = client.submit("echo", b"at", at=datetime.now(UTC) + timedelta(seconds=0.5), timeout=LONG_S)
        assert client.request("echo", b"now", timeout=LONG_S) == b"now"
        assert not later.done()
        assert (later.result(LONG_S), at.result(LONG_S)) == (b"later", b"at")
        assert time.monotonic() - began >= 0.5
        assert list(client.map("echo", [b"1", b"2"], delay_s=0.3, timeout=LONG_S)) == [b"1", b"2"]
        assert time.monotonic() - began >= 0.8


def test_its_time_out_begins_when_its_delay_is_over(broker: BrokerProcess, worker: WorkerProcess) -> None:
    with Client(broker.frontend) as client:
        assert client.request("echo", b"x", delay_s=3.0, timeout=2.9) == b"x"


def test_in_asyncio_too(broker: BrokerProcess, worker: WorkerProcess) -> None:
    async def main() -> None:
        async with AsyncClient(broker.frontend) as client:
            began = time.monotonic()
            assert await client.request("echo", b"x", delay_s=0.3, timeout=LONG_S) == b"x"
            assert await client.submit("echo", b"y", at=time.time() + 0.3, timeout=LONG_S) == b"y"
            assert [each async for each in client.map("echo", [b"z"], delay_s=0.3, timeout=LONG_S)] == [b"z"]
            assert time.monotonic() - began >= 0.85  # `at` is by another clock
            with pytest.raises(asyncio.TimeoutError):
                async with asyncio.timeout(0.1):
                    await client.request("echo", b"never", delay_s=LONG_S)

    asyncio.run(main())


def test_one_that_is_cancelled_while_it_waits_is_gone_at_once(broker: BrokerProcess, worker: WorkerProcess) -> None:
    with Client(broker.frontend) as client:
        client.request("echo", b"x", timeout=LONG_S)  # the connection is there
        future = client.submit("echo", b"never", delay_s=LONG_S)
        client.request("echo", b"x", timeout=LONG_S)  # the broker has read it
        assert future.cancel()
        with pytest.raises(Rejected, match="cancelled before it began"):
            future.result(LONG_S / 2)


def test_a_broker_that_stops_gives_back_what_waits(broker: BrokerProcess, worker: WorkerProcess) -> None:
    with Client(broker.frontend, retry=None) as client:
        future = client.submit("echo", b"never", delay_s=LONG_S)
        client.request("echo", b"x", timeout=LONG_S)
        broker.signal(signal.SIGINT)
        with pytest.raises(Rejected) as caught:
            future.result(LONG_S / 2)
        assert caught.value.code == "disabled"


def test_in_a_terminal(broker: BrokerProcess, worker: WorkerProcess) -> None:
    began = time.monotonic()
    said = call("echo", "hello", "--delay", "0.5", frontend=broker.frontend)
    assert (said.returncode, said.stdout) == (0, b"hello")
    assert time.monotonic() - began >= 0.5
    said = call("echo", "--delay", "3601", frontend=broker.frontend)
    assert said.returncode == 2
    assert b"delay_s is 0 to 3600" in said.stderr
    assert b"Traceback" not in said.stderr
