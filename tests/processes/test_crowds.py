"""More than a broker can hold: connections, and answers that nobody reads. It bends and does not break."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests import parcels
from tests.processes.conftest import BrokerProcess, Raw, WorkerProcess, memory_kib, retry, wait_until

from famulus import Client
from famulus.net.native import Stream
from famulus.wire import zmtp


def files_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def files_limit(pid: int) -> int:
    (line,) = [line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if "Max open files" in line]
    return int(line.split()[3])


def test_a_soft_limit_of_files_is_raised(brokers: Callable[..., BrokerProcess]) -> None:
    broker = brokers("--routers", "1", ulimit="-Sn 64")
    assert files_limit(broker.dispatcher) == files_limit(os.getpid()) > 64


FILES = 64
#: The rest is for the broker's own processes.
FULL = FILES - 16


def test_more_connections_than_files(
    brokers: Callable[..., BrokerProcess], echo_workers: Callable[..., WorkerProcess], raw: Callable[..., Raw]
) -> None:
    broker = brokers("--routers", "3", ulimit=f"-n {FILES}")
    broker.wait_for_line(f"at most {FILES} files may be open")
    echo_workers(broker.backend)
    dispatcher = broker.dispatcher
    with Client(broker.frontend) as early:
        assert early.request("echo", b"x") == b"x"
        crowd = [raw(broker.frontend) for _ in range(300)]
        wait_until(lambda: files_of(dispatcher) >= FULL, 20, "it is full")
        # Those who are in are served.
        for _ in range(200):
            assert early.request("echo", b"x") == b"x"
        # What routers had is taken by the crowd; the next ones get something all the same.
        former = broker.routers
        os.kill(broker.pid, signal.SIGSTOP)
        for router in former:
            os.kill(router, signal.SIGKILL)
        wait_until(lambda: files_of(dispatcher) >= FULL, 20, "it is full again")
        os.kill(broker.pid, signal.SIGCONT)
        wait_until(lambda: len(set(broker.routers) - {*former}) == len(former), 20, "other routers")
        # A task of a kind that the dispatcher has not had yet is one that a router decides.
        assert early.request("echo", b"x", priority=3) == b"x"
        for each in crowd:
            each.socket.close(0)
        # Those who come when others have left are served as well.
        with Client(broker.frontend) as late:
            retry(late, "echo", within_s=30)
        assert early.request("echo", b"x") == b"x"
    assert broker.dispatcher == dispatcher
    assert "dispatcher died" not in broker.output


BODY = 32 * 1024
#: What may wait for one client, as in the dispatcher; and what is on its way: tasks of a burst, the answers to them.
UNREAD_KIB = 64 * 1024
SLACK_KIB = 48 * 1024


def connections_of(pid: int, port: int) -> int:
    """Of this process, those that were made to this port."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):
            inodes.add(os.readlink(f"/proc/{pid}/fd/{name}").removeprefix("socket:[").removesuffix("]"))
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "01" and row[9] in inodes for row in rows)


def test_answers_that_a_client_does_not_read_are_bounded_in_bytes(
    broker: BrokerProcess, echo_workers: Callable[..., WorkerProcess]
) -> None:
    """It is cut off after a while; meanwhile and afterwards the others are served, and memory does not grow."""
    echo_workers(broker.backend)
    port = int(broker.frontend.rpartition(":")[2])
    header, body = b'{"request":"TASK","type":"REQUEST","service":"echo","timeout_ms":60000}', os.urandom(BODY)
    task = b"\x01\x00" + b"\x01" + bytes([len(header)]) + header + b"\x02" + BODY.to_bytes(8, "big") + body
    # Large ones: on a busy machine it would be cut off before many small ones had filled anything.
    burst = left = memoryview(task * 100)
    before = memory_kib(broker.dispatcher)
    sent = 0
    with Client(broker.frontend) as client, socket.create_connection(("127.0.0.1", port), 5) as deaf:
        assert client.request("echo", b"x") == b"x"
        deaf.sendall(zmtp.opening(b"DEALER"))
        assert deaf.recv(len(zmtp.opening(b"DEALER")), socket.MSG_WAITALL)
        deaf.settimeout(0.2)
        deadline = time.monotonic() + 60
        while connections_of(broker.dispatcher, port) == 2 or sent == 0:
            assert time.monotonic() < deadline, "it was never cut off"
            # Enough to fill what may be held for it four times over, if somebody kept that.
            with suppress(TimeoutError, ConnectionError):
                while sent < 4 * UNREAD_KIB * 1024:
                    taken = deaf.send(left)
                    sent += taken
                    left = left[taken:]
                    if not left:
                        left = burst
                        break
            assert client.request("echo", b"x") == b"x"
            grown = memory_kib(broker.dispatcher) - before
            assert grown < UNREAD_KIB + SLACK_KIB, f"it grew by {grown // 1024} MiB"
        assert list(client.map("echo", [b"x"] * 100)) == [b"x"] * 100
    assert sent > UNREAD_KIB * 1024
    assert broker.stop() == 0
    assert "refused_by_client" in broker.output


def test_a_burst_of_outcomes_for_a_client_that_reads_is_not_cut(
    broker: BrokerProcess, echo_workers: Callable[..., WorkerProcess]
) -> None:
    """40,000 at once, some of them rejections, to one who begins to read when all are sent: each of them arrives."""
    echo_workers(broker.backend, slots=1000)
    count, port = 40_000, int(broker.frontend.rpartition(":")[2])
    header = b'{"request":"TASK","type":"REQUEST","service":"echo","timeout_ms":60000}'
    with socket.create_connection(("127.0.0.1", port), 5) as raw:
        raw.sendall(zmtp.opening(b"DEALER"))
        assert raw.recv(len(zmtp.opening(b"DEALER")), socket.MSG_WAITALL)
        for first in range(0, count, 500):
            messages = [[b"%d" % number, header, b"x" * 200] for number in range(first, first + 500)]
            for at in range(0, 500, 100):
                parcel = parcels.write(messages[at : at + 100])
                raw.sendall(b"\x02" + len(parcel).to_bytes(8, "big") + parcel)
        raw.setblocking(False)
        stream = Stream(raw, 1 << 30)
        heard: set[bytes] = set()

        def all_are_there() -> bool:
            for envelope, answer, _ in stream.recv():
                assert b'"outcome"' in answer, answer
                assert envelope not in heard
                heard.add(envelope)
            return len(heard) == count or bool(stream.ended)

        wait_until(all_are_there, 60, "all outcomes")
        assert len(heard) == count, stream.ended
