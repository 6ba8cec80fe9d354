"""Whatever arrives at the two ports: a typed answer where a message came, and a broker that serves the others."""

from __future__ import annotations

import json
import os
import random
import socket
import time
from collections.abc import Callable, Iterator

import pytest
import zmq
from tests.processes.conftest import BrokerProcess, Raw, memory_kib, wait_until

from famulus import Client
from famulus.wire import limits

TASK = b'{"request":"TASK","type":"REQUEST","service":"echo"}'
MIB = 1024 * 1024


@pytest.fixture
def attacked(served: BrokerProcess) -> Iterator[BrokerProcess]:
    """A broker that after the attack must be the same one, serve as before, and have grown by little."""
    processes = [served.dispatcher, *served.routers]
    before = {pid: memory_kib(pid) for pid in processes}
    with Client(served.frontend) as client:
        assert client.request("echo", b"x") == b"x"
        yield served
        assert list(client.map("echo", [b"x"] * 500)) == [b"x"] * 500
        with Client(served.frontend) as new:
            assert new.request("echo", b"x") == b"x"
    assert [served.dispatcher, *served.routers] == processes, served.output
    for pid, kib in before.items():
        assert memory_kib(pid) - kib < 200 * 1024
    assert "Traceback" not in served.output
    assert "died" not in served.output


def reason(message: list[bytes]) -> str:
    header = json.loads(message[-2])
    assert (header["request"], header["type"]) == ("ERROR", "RESPONSE")
    assert message[-1] == b""
    return str(header["reason"]).partition(":")[0]


BREACHES = {
    "one frame": ([b"x"], b"x", "bad_frames"),
    "two frames": ([b"E", TASK], b"E", "bad_frames"),
    "four frames": ([b"E", TASK, b"", b""], b"E", "bad_frames"),
    "five thousand frames": ([b"E"] + [b"x"] * 5000, b"E", "bad_frames"),
    "long envelope": ([b"E" * 256, TASK, b""], b"", "bad_frames"),
    "empty header": ([b"E", b"", b""], b"E", "bad_header"),
    "no JSON": ([b"E", b"\xff\x00{", b""], b"E", "bad_header"),
    "no object": ([b"E", b"[1]", b""], b"E", "bad_header"),
    "deep": ([b"E", b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}", b""], b"E", "bad_header"),
    "key twice": ([b"E", TASK[:-1] + b',"service":"echo"}', b""], b"E", "bad_header"),
    "not a number": ([b"E", TASK[:-1] + b',"x":NaN}', b""], b"E", "bad_header"),
    "huge number": ([b"E", TASK[:-1] + b',"x":' + b"9" * 400 + b"}", b""], b"E", "bad_header"),
    "long header": ([b"E", TASK[:-1] + b',"x":"' + b"y" * limits.HEADER_BYTES_MAX + b'"}', b""], b"E", "too_large"),
    "large body": ([b"E", TASK, bytes(limits.BODY_BYTES_MAX + 1)], b"E", "too_large"),
    "no such request": ([b"E", b'{"request":"DANCE","type":"REQUEST"}', b""], b"E", "unknown_request"),
    "other protocol": ([b"E", TASK[:-1] + b',"protocol":2}', b""], b"E", "bad_header"),
    "no service": ([b"E", b'{"request":"TASK","type":"REQUEST"}', b""], b"E", "bad_header"),
    "wrong type": ([b"E", TASK[:-1] + b',"timeout_ms":"soon"}', b""], b"E", "bad_header"),
}


def test_every_breach_has_a_typed_answer_at_the_frontend(attacked: BrokerProcess, raw: Callable[..., Raw]) -> None:
    sender = raw(attacked.frontend)
    for name, (frames, envelope, code) in BREACHES.items():
        sender.send(*frames)
        answer = sender.recv()
        assert (answer[0], reason(answer)) == (envelope, code), name
    # A client may err as often as it likes: it is still served.
    sender.send(b"E", TASK, b"body")
    assert sender.recv()[2] == b"body"


def test_every_breach_has_a_typed_answer_at_the_backend(attacked: BrokerProcess, raw: Callable[..., Raw]) -> None:
    for name, (frames, envelope, code) in BREACHES.items():
        if name in ("other protocol", "no service", "wrong type"):
            code = "bad_header"
        sender = raw(attacked.backend)  # a new one each time: they are ignored after a few
        sender.send(*frames)
        answer = sender.recv()
        assert (answer[0], reason(answer)) == (envelope, code), name
    sender = raw(attacked.backend)
    sender.send(b"E", TASK, b"")
    assert reason(sender.recv()) == "unknown_request", "tasks are for the other port"


def test_req_sockets_get_their_answers(attacked: BrokerProcess, raw: Callable[..., Raw]) -> None:
    asker = raw(attacked.frontend, zmq.REQ)
    asker.send(b"nonsense")
    assert reason(asker.recv()) == "bad_frames"
    asker.send(b"nonsense", b"body")
    assert reason(asker.recv()) == "bad_header"
    asker.send(TASK, b"body")
    assert asker.recv()[1] == b"body"


@pytest.mark.parametrize("seed", range(3))
def test_a_flood_of_random_messages(attacked: BrokerProcess, raw: Callable[..., Raw], seed: int) -> None:
    chance = random.Random(seed)
    addresses = (attacked.frontend, attacked.backend)
    kinds = (zmq.DEALER, zmq.REQ, zmq.PUB, zmq.PUSH, zmq.PAIR, zmq.SUB, zmq.ROUTER)
    senders = [raw(address, kind) for address in addresses for kind in kinds]
    senders += [raw(address) for address in addresses for _ in range(10)]
    words = [TASK, b"", b"\x00", b"{}", b'{"request":"CONNECT","type":"REQUEST","identity":"x","services":["echo"]}']
    for _ in range(3000):
        frames = [
            chance.choice(words) if chance.random() < 0.5 else chance.randbytes(chance.randrange(2000))
            for _ in range(chance.randrange(1, 8))
        ]
        try:
            chance.choice(senders).socket.send_multipart(frames, zmq.DONTWAIT)
        except zmq.ZMQError:
            continue  # full, or not of a kind that can send


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + b"\x00" + bytes(31)
READY = b"\x05READY\x0bSocket-Type" + (6).to_bytes(4, "big") + b"DEALER"
HANDSHAKE = GREETING + b"\x04" + bytes([len(READY)]) + READY
HUGE = (1 << 62).to_bytes(8, "big")


def test_raw_tcp(attacked: BrokerProcess) -> None:
    chance = random.Random(7)
    assert len(GREETING) == 64
    pieces = [
        b"",
        b"GET / HTTP/1.1\r\nHost: famulus\r\n\r\n",
        GREETING[:5],
        GREETING,
        GREETING + b"\x04\xff",
        GREETING + b"\x06" + HUGE,  # a command of endless length
        HANDSHAKE,
        HANDSHAKE + b"\x02" + HUGE,  # a message of endless length
        HANDSHAKE + b"\x03" + (30 * MIB).to_bytes(8, "big") + b"x" * 1000,  # one that never comes
        HANDSHAKE + b"\x01\x05hello",  # a first frame, and no second one
        HANDSHAKE + b"\x08\xff",
        HANDSHAKE + b"\x04\x05\x04PING",
        HANDSHAKE + b"\x04\x06\x05ERROR",
    ]
    pieces += [chance.randbytes(chance.randrange(1, 5000)) for _ in range(100)]
    pieces += [HANDSHAKE + chance.randbytes(chance.randrange(1, 500)) for _ in range(100)]
    opened = []
    try:
        for address in (attacked.frontend, attacked.backend):
            port = int(address.rpartition(":")[2])
            for piece in pieces:
                connection = socket.create_connection(("127.0.0.1", port), 5)
                opened.append(connection)
                try:
                    connection.sendall(piece)
                except ConnectionError:
                    continue  # it has heard enough
        with Client(attacked.frontend) as client:
            assert client.request("echo", b"meanwhile") == b"meanwhile"
    finally:
        for connection in opened:
            connection.close()


def test_idle_tcp_connections_are_sent_away(attacked: BrokerProcess) -> None:
    """Who does not finish the handshake within two seconds gives its descriptor back, though its own end stays open."""

    def files() -> int:
        return len(os.listdir(f"/proc/{attacked.dispatcher}/fd"))

    before = files()
    ports = [int(address.rpartition(":")[2]) for address in (attacked.frontend, attacked.backend)]
    opened = [socket.create_connection(("127.0.0.1", port), 5) for port in ports * 50]
    try:
        for number, connection in enumerate(opened):
            connection.sendall(GREETING[: number % 64])
        wait_until(lambda: files() >= before + 90, 10, "they are in")
        wait_until(lambda: files() <= before + 5, 20, "they are out")
    finally:
        for connection in opened:
            connection.close()


def test_a_body_beyond_all_limits_ends_its_own_connection(attacked: BrokerProcess, raw: Callable[..., Raw]) -> None:
    """Twice the limit is not even read: libzmq closes the connection, and a client says UNKNOWN or gets an answer."""
    sender = raw(attacked.frontend)
    sender.send(b"E", TASK, bytes(2 * limits.BODY_BYTES_MAX + 1))
    assert sender.silent(0.5)
    sender.send(b"F", TASK, b"after")  # it has connected again by itself
    assert sender.recv()[2] == b"after"


def test_a_stranger_with_rubbish_is_ignored_for_a_growing_time(
    attacked: BrokerProcess, raw: Callable[..., Raw]
) -> None:
    stranger = raw(attacked.backend)

    def ignored_for_s() -> float:
        """From its rubbish on, until it is heard again."""
        began = time.monotonic()
        stranger.send(b"rubbish")
        while b"not_connected" in (answer := stranger.recv())[1]:
            pass  # to the last PING of before
        assert reason(answer) == "bad_frames"
        while time.monotonic() - began < 60:
            stranger.tell("PING")
            if not stranger.silent(0.05):
                assert stranger.hear()["reason"].startswith("not_connected")
                return time.monotonic() - began
        raise AssertionError("it is never heard again")

    for _ in range(3):
        stranger.send(b"rubbish")
        assert reason(stranger.recv()) == "bad_frames"
    stranger.tell("PING")
    assert stranger.hear()["reason"].startswith("not_connected"), "three are forgiven"
    # On a busy machine, what it hears it hears late.
    assert 1 <= ignored_for_s() < 15
    assert 2 <= ignored_for_s() < 30


def test_a_worker_that_keeps_sending_rubbish_loses_its_place(attacked: BrokerProcess, raw: Callable[..., Raw]) -> None:
    worker = raw(attacked.backend)
    worker.become_worker("villain", "villainy", heartbeat_ms=10_000)
    for _ in range(4):
        worker.send(b"", b"rubbish", b"")
        assert reason(worker.recv()) == "bad_header"
    worker.tell("CONNECT", identity="villain", services=["villainy"])
    refusal = worker.hear()["reason"]
    assert refusal.startswith("not_allowed: too many faults; come again in")
    # The name is what counts: another connection does not help.
    other = raw(attacked.backend)
    other.tell("CONNECT", identity="villain", services=["villainy"])
    assert other.hear()["reason"].startswith("not_allowed")

    def let_in() -> bool:
        other.tell("CONNECT", identity="villain", services=["villainy"])
        return bool(other.hear()["request"] == "CONFIG")

    wait_until(let_in, 10, "it is forgiven")


def test_a_bad_answer_is_unknown(attacked: BrokerProcess, raw: Callable[..., Raw]) -> None:
    worker, client = raw(attacked.backend), raw(attacked.frontend)
    worker.become_worker("clumsy", "clumsy", heartbeat_ms=10_000)
    client.tell("TASK", envelope=b"E", service="clumsy")
    ticket, _, _ = worker.recv()
    worker.send(ticket, b'{"request":"TASK","type":"RESPONSE","outcome":"PERHAPS"}', b"")
    header = client.hear()
    assert (header["outcome"], header["reason"].partition(":")[0]) == ("UNKNOWN", "bad_header")
    assert worker.hear()["reason"].startswith("bad_header")
