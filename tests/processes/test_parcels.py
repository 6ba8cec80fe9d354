"""Parcels at a real broker: those who send them are served like all others, and there is no way to do harm.

The clients and workers here are plain sockets that write parcels by themselves, from the protocol's words.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterator, Sequence

import pytest
from tests.processes.conftest import BrokerProcess, Raw, memory_kib, wait_until

from famulus import Client
from famulus.wire import limits

TASK = b'{"request":"TASK","type":"REQUEST","service":"echo"}'
DONE = b'{"request":"TASK","type":"RESPONSE","outcome":"OK"}'
MIB = 1024 * 1024
HEAD = struct.Struct("!BHI")

Message = list[bytes]


def parcel(messages: Sequence[Sequence[bytes]]) -> bytes:
    return b"\x01" + b"".join(HEAD.pack(*map(len, message)) + b"".join(message) for message in messages)


def opened(frames: Message) -> list[Message]:
    """The messages of a parcel, or the one message that it is."""
    if len(frames) != 1:
        return [frames]
    frame, at, messages = frames[0], 1, []
    assert frame[0] == 1
    while at < len(frame):
        lengths = HEAD.unpack_from(frame, at)
        at += HEAD.size
        message = []
        for length in lengths:
            message.append(frame[at : at + length])
            at += length
        messages.append(message)
    assert at == len(frame)
    return messages


def heard(raw: Raw, count: int) -> list[Message]:
    """So many messages, in parcels or not."""
    messages: list[Message] = []
    while len(messages) < count:
        messages += opened(raw.recv())
    assert len(messages) == count
    return messages


def requests(count: int, header: bytes = TASK) -> list[Message]:
    return [[b"%d" % number, header, b"body %d" % number] for number in range(count)]


def bodies(messages: list[Message]) -> dict[bytes, bytes]:
    """By envelope. All went well, and each was answered once."""
    assert all(json.loads(header)["outcome"] == "OK" for _, header, _ in messages)
    by_envelope = {envelope: body for envelope, _, body in messages}
    assert len(by_envelope) == len(messages)
    return by_envelope


def reason(message: Message) -> str:
    _, header, body = message
    fields = json.loads(header)
    assert (fields["request"], fields["type"], body) == ("ERROR", "RESPONSE", b"")
    return str(fields["reason"]).partition(":")[0]


# -- those who send parcels -----------------------------------------------------------------------------------------


def test_every_task_of_a_parcel_is_answered(served: BrokerProcess, raw: Callable[..., Raw]) -> None:
    client = raw(served.frontend)
    for _ in range(20):
        client.send(parcel(requests(50)))
        assert bodies(heard(client, 50)) == {envelope: body for envelope, _, body in requests(50)}
    assert client.silent(0.05)


def test_parcels_and_plain_messages_mix(served: BrokerProcess, raw: Callable[..., Raw]) -> None:
    """Large answers come alone, also to those who take parcels."""
    client = raw(served.frontend)
    sizes = [0, 10, 8192, 8193, 20_000, 10, 100_000, MIB, 10]
    messages = [[b"%d" % number, TASK, b"x" * size] for number, size in enumerate(sizes)]
    client.send(parcel(messages))
    for envelope, header, body in messages:
        client.send(b"plain " + envelope, header, body)
    expected = {prefix + envelope: body for prefix in (b"", b"plain ") for envelope, _, body in messages}
    assert bodies(heard(client, 2 * len(sizes))) == expected


def test_one_bad_message_does_not_spoil_its_parcel(served: BrokerProcess, raw: Callable[..., Raw]) -> None:
    client = raw(served.frontend)
    good = requests(20)
    client.send(parcel([*good[:10], [b"bad", b"no JSON", b""], *good[10:]]))
    messages = heard(client, 21)
    assert [reason(message) for message in messages if message[0] == b"bad"] == ["bad_header"]
    assert len(bodies([message for message in messages if message[0] != b"bad"])) == 20


def test_a_worker_may_answer_in_parcels(served: BrokerProcess, raw: Callable[..., Raw]) -> None:
    worker, client = raw(served.backend), raw(served.frontend)
    worker.become_worker("packer", "packed", slots=100, heartbeat_ms=10_000)
    header = TASK.replace(b"echo", b"packed")
    for _ in range(3):
        client.send(parcel(requests(50, header)))
        tasks: list[Message] = []
        while len(tasks) < 50:
            tasks += opened(worker.recv())
        worker.send(parcel([[ticket, DONE, body] for ticket, _, body in tasks]))
        assert bodies(heard(client, 50)) == {envelope: body for envelope, _, body in requests(50)}
    worker.tell("DISCONNECT")


# -- those who do not -----------------------------------------------------------------------------------------------


def test_who_never_sends_a_parcel_never_gets_one(served: BrokerProcess, raw: Callable[..., Raw]) -> None:
    """Not even while others do, and while its worker answers in parcels."""
    packing, plain = raw(served.frontend), raw(served.frontend)
    for _ in range(10):
        packing.send(parcel(requests(50)))
        for message in requests(50):
            plain.send(*message)
    came = [plain.recv() for _ in range(500)]
    assert {len(frames) for frames in came} == {3}
    assert {(envelope, body) for envelope, _, body in came} == {(envelope, body) for envelope, _, body in requests(50)}
    heard(packing, 500)
    assert plain.silent(0.05)


def test_a_worker_that_never_sends_a_parcel_never_gets_one(served: BrokerProcess, raw: Callable[..., Raw]) -> None:
    worker, client = raw(served.backend), raw(served.frontend)
    worker.become_worker("plain", "plain", slots=100, heartbeat_ms=10_000)
    client.send(parcel(requests(50, TASK.replace(b"echo", b"plain"))))
    tasks = [worker.recv() for _ in range(50)]
    assert {len(frames) for frames in tasks} == {3}
    for ticket, _, body in tasks:
        worker.send(ticket, DONE, body)
    assert bodies(heard(client, 50)) == {envelope: body for envelope, _, body in requests(50)}
    worker.tell("DISCONNECT")


def test_a_broken_parcel_does_not_make_one_a_taker_of_parcels(served: BrokerProcess, raw: Callable[..., Raw]) -> None:
    client = raw(served.frontend)
    client.send(parcel(requests(50))[:-1])
    assert reason(client.recv()) == "bad_frames"
    for message in requests(100):
        client.send(*message)
    assert {len(client.recv()) for _ in range(100)} == {3}


# -- those who mean harm --------------------------------------------------------------------------------------------


@pytest.fixture
def attacked(served: BrokerProcess) -> Iterator[BrokerProcess]:
    """A broker that after the attack must be the same one, serve as before, and have grown by little."""
    processes = [served.dispatcher, *served.routers]
    before = {pid: memory_kib(pid) for pid in processes}
    with Client(served.frontend) as client:
        assert client.request("echo", b"x") == b"x"
        yield served
        assert list(client.map("echo", [b"x"] * 500)) == [b"x"] * 500
    assert [served.dispatcher, *served.routers] == processes, served.output
    for pid, kib in before.items():
        assert memory_kib(pid) - kib < 200 * 1024
    assert "Traceback" not in served.output
    assert "died" not in served.output


EMPTY = [b"", b"", b""]
LONG_HEADER = TASK[:-1] + b',"x":"' + b"y" * limits.HEADER_BYTES_MAX + b'"}'

#: What is sent, and the reasons that may be given, at the frontend and at the backend.
ATTACKS: dict[str, tuple[bytes, set[str]]] = {
    "too many messages": (parcel([EMPTY] * 1025), {"bad_frames"}),
    "too many good messages": (parcel(requests(1025)), {"bad_frames"}),
    "cut": (parcel(requests(50))[:-1], {"bad_frames"}),
    "cut in a head": (parcel(requests(50)) + b"\x00\x00", {"bad_frames"}),
    "another version": (b"\x02" + parcel(requests(50))[1:], {"bad_frames"}),
    "only a version": (b"\x01", {"bad_frames"}),
    "zeros": (bytes(1_000_000), {"bad_frames"}),
    "zeros of version 1": (b"\x01" + bytes(1_000_000), {"bad_frames"}),
    "ones": (b"\xff" * 1_000_000, {"bad_frames"}),
    "endless lengths": (b"\x01" + b"\xff" * 7, {"bad_frames"}),
    "lengths beyond 32 bits": (b"\x01" + b"\x01\x00\x00\xff\xff\xff\xff" + b"x" * 50, {"bad_frames"}),
    "a long header": (parcel([[b"E", LONG_HEADER, b""]]), {"too_large"}),
    "a header of 64 KiB": (parcel([[b"E", b"{" * 65535, b""]]), {"too_large"}),
    "a large body": (parcel([[b"E", TASK, bytes(limits.BODY_BYTES_MAX + 1)]]), {"too_large"}),
    "a parcel in a parcel": (parcel([[b"E", parcel(requests(2)), b""]]), {"bad_header"}),
    "as many as may be, all bad": (parcel([EMPTY] * 1024), {"bad_header"}),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_bad_parcel_has_a_typed_answer_at_both_ports(
    attacked: BrokerProcess, raw: Callable[..., Raw], attack: str
) -> None:
    frame, reasons = ATTACKS[attack]
    for address in (attacked.frontend, attacked.backend):
        stranger = raw(address)  # a new one for each: at the backend they are ignored after a few
        stranger.send(frame)
        assert {reason(message) for message in opened(stranger.recv())} == reasons
    # A client may err as often as it likes: it is still served.
    client = raw(attacked.frontend)
    client.send(frame)
    client.send(b"after", TASK, b"body")
    wait_until(lambda: [b"after", b"body"] in [[each[0], each[2]] for each in opened(client.recv())], 20, "an answer")


@pytest.mark.parametrize("seed", range(2))
def test_a_flood_of_broken_parcels(attacked: BrokerProcess, raw: Callable[..., Raw], seed: int) -> None:
    """Hit, cut, doubled: most are no parcels any more, some are, and say something else."""
    chance = random.Random(seed)
    senders = [raw(address) for address in (attacked.frontend, attacked.backend) for _ in range(5)]
    connect = b'{"request":"CONNECT","type":"REQUEST","identity":"x","services":["rubbish"]}'
    headers = [TASK, connect, DONE, b"", b"{}", b'{"request":"PING","type":"REQUEST"}']
    for _ in range(1500):
        frame = bytearray(
            parcel(
                [
                    [chance.randbytes(chance.randrange(9)), chance.choice(headers), chance.randbytes(5)]
                    for _ in range(chance.randrange(1, 10))
                ]
            )
        )
        at = chance.randrange(len(frame))
        frame[at : at + chance.randrange(9)] = chance.randbytes(chance.choice([0, 0, 1, 9]))
        sender = chance.choice(senders)
        sender.send(bytes(frame))
        while not sender.silent(0):
            sender.recv()  # or else its pipe fills, and it waits for itself


def test_many_messages_in_little_are_bounded_by_what_is_in_a_parcel(
    attacked: BrokerProcess, raw: Callable[..., Raw]
) -> None:
    """Seven bytes make a message, and a message an answer. It is no worse than to send them one by one."""
    stranger = raw(attacked.frontend)
    for _ in range(20):
        stranger.send(parcel([EMPTY] * 1024))
    assert {reason(message) for message in heard(stranger, 20 * 1024)} == {"bad_header"}
