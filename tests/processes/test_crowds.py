"""More than a broker can hold: connections, and answers that nobody reads. It bends and does not break."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import zmq
from tests.processes.conftest import BrokerProcess, Raw, WorkerProcess, memory_kib, retry, wait_until

from famulus import Client


def files_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def files_limit(pid: int) -> int:
    (line,) = [line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if "Max open files" in line]
    return int(line.split()[3])


def test_a_soft_limit_of_files_is_raised(brokers: Callable[..., BrokerProcess]) -> None:
    broker = brokers("--routers", "1", ulimit="-Sn 64")
    assert files_limit(broker.dispatcher) == files_limit(os.getpid()) > 64


def test_more_connections_than_files(
    brokers: Callable[..., BrokerProcess], echo_workers: Callable[..., WorkerProcess], raw: Callable[..., Raw]
) -> None:
    broker = brokers("--routers", "1", ulimit="-n 64")
    broker.wait_for_line("at most 64 files may be open")
    echo_workers(broker.backend)
    dispatcher = broker.dispatcher
    with Client(broker.frontend) as early:
        assert early.request("echo", b"x") == b"x"
        crowd = [raw(broker.frontend) for _ in range(300)]
        wait_until(lambda: files_of(dispatcher) >= 63, 20, "it is full")
        # Those who are in are served.
        for _ in range(200):
            assert early.request("echo", b"x") == b"x"
        for each in crowd:
            each.socket.close(0)
        # Those who come when others have left are served as well.
        with Client(broker.frontend) as late:
            retry(late, "echo", within_s=30)
        assert early.request("echo", b"x") == b"x"
    assert broker.dispatcher == dispatcher
    assert "died" not in broker.output


BODY = 8 * 1024
BURST = 5000
BURSTS = 16
#: What the pipes to one client (SNDHWM) and from it (RCVHWM) hold, and what is under way between them.
HELD_MAX = 10_000 + 1000 + BURST


def test_a_client_that_never_reads(broker: BrokerProcess, echo_workers: Callable[..., WorkerProcess]) -> None:
    echo_workers(broker.backend)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    dealer.linger = 0
    dealer.rcvhwm = 1
    dealer.sndtimeo = 20_000
    dealer.connect(broker.frontend)
    header, body = b'{"request":"TASK","type":"REQUEST","service":"echo","timeout_ms":60000}', os.urandom(BODY)
    before = memory_kib(broker.dispatcher)
    most = 0
    try:
        with Client(broker.frontend) as client:
            for _ in range(BURSTS):
                for _ in range(BURST):
                    dealer.send_multipart([b"", header, body])
                # The others are served, in their turn; so by now the answers to most of the burst are made.
                assert client.request("echo", b"x") == b"x"
                most = max(most, memory_kib(broker.dispatcher))
    finally:
        dealer.close(0)
        context.term()
    bound_kib = HELD_MAX * (BODY + 1024) // 1024
    assert 3 * bound_kib < BURSTS * BURST * BODY // 1024, "what was sent is more than could be held"
    assert most - before < bound_kib + 64 * 1024, f"it grew by {(most - before) // 1024} MiB"
    assert broker.stop() == 0
    assert "refused_by_client" in broker.output
