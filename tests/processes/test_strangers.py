"""Strangers at the ports of a broker, before anybody knows who they are: they choose no name, and take up no memory."""

from __future__ import annotations

import json
import socket
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.processes.conftest import BrokerProcess, Raw, WorkerProcess, memory_kib, wait_until
from tests.processes.networks import Network

from famulus import Client
from famulus.wire import zmtp
from famulus.wire.peers import LETTER_BYTES_MAX

MIB = 1024 * 1024


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def opening(identity: bytes, kind: bytes = b"DEALER") -> bytes:
    """How somebody begins who calls himself this."""
    properties = b"".join(
        bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value
        for name, value in ((b"Socket-Type", kind), (b"Identity", identity))
    )
    return zmtp.opening(b"DEALER")[:64] + zmtp.command(b"READY", properties)


def connected(host: str, port: int, identity: bytes = b"", kind: bytes = b"DEALER") -> socket.socket:
    """One who has been let in."""
    stranger = socket.create_connection((host, port), 5)
    stranger.sendall(opening(identity, kind))
    heard = b""
    while b"Socket-Type" not in heard:
        chunk = stranger.recv(1000)
        assert chunk, "it was sent away"
        heard += chunk
    return stranger


def errors_of(broker: BrokerProcess) -> list[str]:
    address = broker.wait_for_line(r"dashboard: (http://\S+)/$")[1]
    with urllib.request.urlopen(address + "/api/v1/errors", timeout=10) as answer:
        return [each["identity"] for each in json.loads(answer.read())["errors"]]


def numbers_that_are_told(broker: BrokerProcess, raw: Callable[..., Raw]) -> set[int]:
    """Those that a ROUTER of libzmq gave to strangers, if somebody tells them."""
    stranger = raw(broker.backend)
    for _ in range(5):
        stranger.send(b"rubbish")
    told: list[str] = []

    def is_listed() -> bool:
        told[:] = errors_of(broker)
        return bool(told)

    wait_until(is_listed, 20, "the stranger is listed")
    (name,) = told
    return {int(name[2:], 16)} if name.startswith("0x") else set()


def test_nobody_takes_a_name_that_is_about_to_be_given(
    brokers: Callable[..., BrokerProcess], echo_workers: Callable[..., WorkerProcess], raw: Callable[..., Raw]
) -> None:
    """libzmq counts the names of connections, and ended the whole process when one was taken."""
    broker = brokers("--routers", "1", "--http-port", "0", "--heartbeat-ms", "1000")
    dispatcher = broker.dispatcher
    echo_workers(broker.backend)
    known = numbers_that_are_told(broker, raw)
    likely = {number + step for number in (*known, 0, 1 << 31) for step in range(1, 33)}
    with ExitStack() as closing, Client(broker.frontend) as client:
        for port in (port_of(broker.backend), port_of(broker.frontend)):
            for number in sorted(likely):
                with suppress(OSError, AssertionError):  # there may be nobody left to let it in
                    closing.enter_context(connected("127.0.0.1", port, b"\0" + struct.pack("!I", number & 0xFFFFFFFF)))
        # Those who come now would get one of these names.
        for _ in range(40):
            with suppress(AssertionError):
                late = raw(broker.backend)
                late.tell("PING")
                assert late.hear(2)["reason"].startswith("not_connected")
        assert client.request("echo", b"x") == b"x"
        with Client(broker.frontend) as another:
            assert another.request("echo", b"x") == b"x"
    assert broker.dispatcher == dispatcher, broker.output
    assert "died" not in broker.output


def answer_to(stranger: socket.socket, *frames: bytes) -> bytes:
    """What comes back for these, up to a header."""
    heads = [bytes([frame is not frames[-1], len(frame)]) for frame in frames]
    stranger.sendall(b"".join(head + frame for head, frame in zip(heads, frames, strict=True)))
    heard = b""
    while b'"RESPONSE"' not in heard and (chunk := stranger.recv(10_000)):
        heard += chunk
    return heard


@pytest.mark.parametrize("identity", [b"\0\0\0\0\1", b"ann", b"x" * 255])
def test_those_who_call_themselves_the_same_are_served_alike(
    served: BrokerProcess, raw: Callable[..., Raw], identity: bytes
) -> None:
    """A ROUTER of libzmq hears only the first of them: whoever knew the name of another could keep it out."""
    doors = {
        served.frontend: (b'{"request":"TASK","type":"REQUEST","service":"echo"}', b'"outcome":"OK"'),
        served.backend: (b'{"request":"PING","type":"REQUEST"}', b"not_connected"),
    }
    for door, (header, expected) in doors.items():
        with ExitStack() as closing:
            for _ in range(3):
                stranger = closing.enter_context(connected("127.0.0.1", port_of(door), identity))
                assert expected in answer_to(stranger, b"e", header, b"x")


def test_a_stranger_is_listed_by_where_it_comes_from(
    brokers: Callable[..., BrokerProcess], raw: Callable[..., Raw]
) -> None:
    broker = brokers("--routers", "1", "--http-port", "0")
    stranger = raw(broker.backend)
    for _ in range(5):
        stranger.send(b"rubbish")
    wait_until(lambda: [name.startswith("127.0.0.1:") for name in errors_of(broker)] == [True], 20, "its address")


#: What may grow whatever strangers send: bounds are on what is held, and freed memory is not always given back.
GROWTH_KIB = 100 * 1024


def grown(pid: int, before: int) -> int:
    return (memory_kib(pid) - before) // 1024


@pytest.mark.parametrize("size", [10, 100_000])
def test_an_endless_message_takes_up_no_memory(
    brokers: Callable[..., BrokerProcess], echo_workers: Callable[..., WorkerProcess], size: int
) -> None:
    broker = brokers("--routers", "1")
    echo_workers(broker.backend)
    dispatcher = broker.dispatcher
    part = b"\x03" + size.to_bytes(8, "big") + b"x" * size
    part *= max(1, 200_000 // len(part))
    before, sent = memory_kib(dispatcher), 0
    with Client(broker.frontend) as client:
        for port in (port_of(broker.frontend), port_of(broker.backend)):
            with connected("127.0.0.1", port) as attacker, suppress(OSError):
                until = time.monotonic() + 5
                while time.monotonic() < until and sent < 400 * MIB:
                    attacker.sendall(part)
                    sent += len(part)
                    assert memory_kib(dispatcher) - before < GROWTH_KIB, f"it grew by {grown(dispatcher, before)} MiB"
        assert client.request("echo", b"x") == b"x"
    assert broker.dispatcher == dispatcher


def test_large_messages_that_never_come_take_up_no_memory_and_others_pass(
    brokers: Callable[..., BrokerProcess], echo_workers: Callable[..., WorkerProcess]
) -> None:
    """Many announce what is within the limit and bring a bit of it: the room for large ones is bounded, and is made."""
    broker = brokers("--routers", "1")
    echo_workers(broker.backend)
    dispatcher = broker.dispatcher
    before = memory_kib(dispatcher)
    announcement = b"\x02" + (30 * MIB).to_bytes(8, "big") + bytes(200_000)
    with ExitStack() as closing, Client(broker.frontend) as client:
        for _ in range(100):
            attacker = closing.enter_context(connected("127.0.0.1", port_of(broker.frontend)))
            attacker.setblocking(False)
            attacker.send(announcement)
        assert client.request("echo", b"small") == b"small"
        large = bytes(12 * MIB)
        assert client.request("echo", large, timeout=30) == large
        assert memory_kib(dispatcher) - before < 2 * GROWTH_KIB, f"it grew by {grown(dispatcher, before)} MiB"
    assert broker.dispatcher == dispatcher


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    network = Network(tmp_path)
    yield network
    network.close()


def test_names_that_strangers_choose_mean_nothing_where_brokers_talk(network: Network) -> None:
    first = network.found("b1")
    second = network.join("b2")
    stewards = first.steward, second.steward
    names = [*(b"\0" + struct.pack("!I", number) for number in (*range(40), 1 << 31, (1 << 32) - 1)), b"b2", b"b2"]
    with ExitStack() as closing:
        for port, kind in ((first.peer_port, b"DEALER"), (first.ports[2], b"SUB")):
            for name in names:
                stranger = closing.enter_context(connected(first.machine.host, port, name, kind))
                stranger.sendall(b"\x00\x01\x01")
        second.admin.put("service/named", {"timeout_ms": 1234})
        wait_until(lambda: first.admin.value("service/named") is not None, 20, "the edit at the other one")
    assert (first.steward, second.steward) == stewards


@pytest.mark.parametrize(("port", "kind"), [("peers", b"DEALER"), ("news", b"SUB")])
def test_an_endless_message_to_a_steward_takes_up_no_memory(network: Network, port: str, kind: bytes) -> None:
    member = network.found("b1")
    steward = member.steward
    before, sent = memory_kib(steward), 0
    # Each frame is small enough for either port.
    part = (b"\x01\xc8" + b"x" * 200) * 1000
    number = member.peer_port if port == "peers" else member.ports[2]
    with connected(member.machine.host, number, kind=kind) as attacker, suppress(OSError):
        until = time.monotonic() + 5
        while time.monotonic() < until and sent < 400 * MIB:
            attacker.sendall(part)
            sent += len(part)
            assert memory_kib(steward) - before < GROWTH_KIB, f"it grew by {grown(steward, before)} MiB"
    member.admin.put("service/endless", {"timeout_ms": 1234})
    assert member.steward == steward


def test_letters_of_strangers_take_up_no_memory_and_brokers_hear_each_other(network: Network) -> None:
    """They fit into a letter's size, come over many connections, and are signed by nobody."""
    first = network.found("b1")
    second = network.join("b2")
    steward = first.steward
    before = memory_kib(steward)
    size = 2 * LETTER_BYTES_MAX - 100  # all that a connection may bring at once
    letter = b"\x03" + size.to_bytes(8, "big") + bytes(size) + b"\x00\x01x"
    with ExitStack() as closing:
        strangers: list[list[Any]] = []
        sent = 0
        for _ in range(60):
            stranger = closing.enter_context(connected(first.machine.host, first.peer_port))
            stranger.setblocking(False)
            strangers.append([stranger, letter])
        edit_at = time.monotonic() + 1
        edited = False

        def is_heard() -> bool:
            nonlocal edited, sent
            for each in strangers:
                with suppress(OSError):
                    taken = each[0].send(each[1][:MIB])
                    each[1] = each[1][taken:] or letter
                    sent += taken
            assert memory_kib(steward) - before < 2 * GROWTH_KIB, f"it grew by {grown(steward, before)} MiB"
            if not edited and time.monotonic() > edit_at:
                edited = True
                second.admin.put("service/flood", {"timeout_ms": 1234})
            return sent > 700 * MIB and edited and second.logged_digest() == first.logged_digest()

        wait_until(is_heard, 30, "the edit at the other one")
        assert first.admin.value("service/flood")["timeout_ms"] == 1234
    assert first.steward == steward


def test_who_comes_and_goes_where_news_is_told_leaves_nothing(network: Network) -> None:
    """libzmq's PUB kept 10 kB of each until the next edit."""
    member = network.found("b1")
    port, steward = member.ports[2], member.steward

    def come_and_go(times: int) -> None:
        for _ in range(times):
            with connected(member.machine.host, port, kind=b"SUB") as listener:
                listener.sendall(b"\x00\x01\x01")

    come_and_go(300)
    before = memory_kib(steward)
    come_and_go(1500)
    assert memory_kib(steward) - before < 6 * 1024
