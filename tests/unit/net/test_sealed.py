"""Messages over a connection with keys, on both twins and between them: whole, secret, and only what was sent."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType

import pytest
import zmq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import parcels

from famulus.core.access import FOREIGN, NO_KEY, UNKNOWN_KEY, TurnedAway
from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.net import connections_python, handshake_rate, native, sealing, stream_python
from famulus.net.line import Line
from famulus.net.listener import Listener, ListenerBounds
from famulus.net.native import Connections, Stream
from famulus.net.opening import Begin
from famulus.wire import zmtp
from famulus.wire.curve import COMMAND, MORE, OVERHEAD_BYTES, CurveKey, Seal
from famulus.wire.parcels import BYTES_MAX

if native.NATIVE:
    from famulus.net import _pump as native_module

MAX = 4 * 1024 * 1024
KEY = bytes(range(32))
TASK = [b"envelope", b"header", b"body"]
without_native = pytest.mark.skipif(not native.NATIVE, reason=f"no native pump: {native.WHY_NOT_NATIVE}")
TWINS = [pytest.param("native", marks=without_native), "python"]

Pair = tuple[socket.socket, socket.socket]
New = Callable[[socket.socket, int, Seal | None], Stream]


def client_seal() -> Seal:
    return Seal(KEY, is_client=True, sent=2, heard=1)


def server_seal() -> Seal:
    return Seal(KEY, is_client=False, sent=1, heard=2)


def streams(name: object) -> New:
    return native_module.Stream if name == "native" else stream_python.Stream


def hall(name: object) -> Connections:
    module: ModuleType = native_module if name == "native" else connections_python
    made: Connections = module.Connections(MAX, 4 * MAX, 4 * MAX, 16 * MAX, 10**9)
    return made


@pytest.fixture(params=TWINS)
def new(request: pytest.FixtureRequest) -> New:
    return streams(request.param)


@pytest.fixture(params=TWINS)
def other(request: pytest.FixtureRequest) -> New:
    return streams(request.param)


@pytest.fixture
def pair() -> Iterator[Pair]:
    left, right = socket.socketpair()
    for each in (left, right):
        each.setblocking(False)
    yield left, right
    left.close()
    right.close()


def read_all(stream: Stream) -> list[list[bytes]]:
    messages: list[list[bytes]] = []
    received = -1
    while received != stream.received:
        received = stream.received
        messages += stream.recv()
    return messages


def exchange(sender: Stream, receiver: Stream, messages: Sequence[Sequence[bytes]]) -> list[list[bytes]]:
    arrived: list[list[bytes]] = []
    sent = 0
    while sent < len(messages) or sender.unsent:
        sent += sender.send(messages[sent:])
        sender.flush()
        arrived += read_all(receiver)
    return arrived + read_all(receiver)


def frame(content: bytes, flags: int = 0) -> bytes:
    if len(content) < 256:
        return bytes([flags, len(content)]) + content
    return bytes([flags | zmtp.LONG]) + len(content).to_bytes(8, "big") + content


def frames_in(data: bytes) -> list[bytes]:
    """The frames of these bytes, which must all be plain ones."""
    found = []
    while data:
        flags, size, head = data[0], data[1], 2
        if flags == zmtp.LONG:
            size, head = int.from_bytes(data[1:9], "big"), 9
        assert flags in (0, zmtp.LONG)
        found.append(data[head : head + size])
        data = data[head + size :]
    return found


SHAPES: dict[str, Sequence[bytes]] = {
    "a task": TASK,
    "empty frames": [b"", b"", b""],
    "one frame": [b"x"],
    "one empty frame": [b""],
    "four frames": [b"a", b"", b"b", b""],
    "around the short length": [b"x" * (size - OVERHEAD_BYTES) for size in (254, 255, 256, 257)],
    "an envelope that no parcel holds": [b"e" * 256, b"h", b"b"],
    "a header that no parcel holds": [b"e", b"h" * 65536, b"b"],
    "as much as a parcel holds": [b"e", b"h", b"b" * (BYTES_MAX - 8 - 2)],
    "one byte more": [b"e", b"h", b"b" * (BYTES_MAX - 8 - 1)],
    "around the inbox": [b"x" * (64 * 1024 - size) for size in (0, 1, 8, 9, 10, 41, 42, 43)],
    "1 MiB": [b"e", b"h", os.urandom(2**20)],
    "what looks like a parcel, and is not alone": [b"a", parcels.write([TASK])],
}


@pytest.mark.parametrize("message", SHAPES.values(), ids=SHAPES.keys())
def test_every_shape_arrives_as_it_left(new: New, other: New, pair: Pair, message: Sequence[bytes]) -> None:
    client, server = new(pair[0], MAX, client_seal()), other(pair[1], MAX, server_seal())
    for sender, receiver in ((client, server), (server, client)):
        assert exchange(sender, receiver, [message, TASK] * 3) == [list(message), TASK] * 3
        assert not receiver.ended


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    st.lists(st.lists(st.binary(max_size=40_000) | st.binary(max_size=20), min_size=1, max_size=4), max_size=40),
    st.sampled_from(["native", "python"] if native.NATIVE else ["python"]),
    st.sampled_from(["native", "python"] if native.NATIVE else ["python"]),
)
def test_any_messages_arrive_in_order(messages: list[list[bytes]], one: str, another: str) -> None:
    left, right = socket.socketpair()
    with left, right:
        left.setblocking(False)
        right.setblocking(False)
        client, server = streams(one)(left, MAX, client_seal()), streams(another)(right, MAX, server_seal())
        # A message of one frame that happens to be a parcel is one.
        plain = [each for each in messages if len(each) > 1 or each[0][:1] != b"\x01"]
        assert exchange(client, server, plain) == plain
        assert exchange(server, client, plain) == plain


def test_nothing_leaves_that_could_be_read(new: New, pair: Pair) -> None:
    stream = new(pair[0], MAX, client_seal())
    stream.send([TASK, [b"secret words"], [b"e", b"h", b"secret body" * 10_000]])
    stream.command(b"\x04PING\0\0secret")
    stream.flush()
    said = b""
    while True:
        try:
            said += pair[1].recv(1 << 20)
        except BlockingIOError:
            if stream.flush():
                break
    assert b"secret" not in said
    assert b"envelope" not in said
    seal = server_seal()
    assert [seal.open(each)[1] for each in frames_in(said)] == [0, 0, MORE, MORE, 0, COMMAND]


def test_messages_leave_in_few_parcels(new: New, pair: Pair) -> None:
    stream = new(pair[0], MAX, client_seal())
    assert stream.send([TASK] * 100) == 100
    (sealed,) = frames_in(pair[1].recv(1 << 20))
    assert server_seal().open(sealed) == (parcels.write([TASK] * 100), 0)


def test_commands_are_sealed_as_well(new: New, other: New, pair: Pair) -> None:
    client, server = new(pair[0], MAX, client_seal()), other(pair[1], MAX, server_seal())
    client.command(zmtp.PING)
    assert exchange(client, server, [TASK]) == [TASK]
    assert server.commands == [zmtp.PING]


# -- those who do not keep to it ------------------------------------------------------------------------------------


def sealed(*contents: tuple[bytes, int]) -> list[bytes]:
    seal = client_seal()
    return [seal.close(content, flags) for content, flags in contents]


GOOD = (b"hello", 0)
BREACHES: dict[str, bytes] = {
    "not sealed": frame(b"hello"),
    "a command that is not sealed": zmtp.framed_command(zmtp.PING),
    "sealed as a command of ZMTP": frame(sealed(GOOD)[0], zmtp.COMMAND),
    "more outside": frame(sealed(GOOD)[0], zmtp.MORE),
    "repeated": 2 * frame(sealed(GOOD)[0]),
    "one is missing": frame(sealed(GOOD, GOOD)[1]),
    "cut": frame(sealed(GOOD)[0][:-1]),
    "too short": frame(sealed((b"", 0))[0][:-1]),
    "empty": frame(b""),
    "another name": frame(b"\x07MASSAGE" + sealed(GOOD)[0][8:]),
    "more and a command": frame(sealed((b"\x04PING\0\0", MORE | COMMAND))[0]),
    "a command that is too large": frame(sealed((b"\x04PING" + bytes(4096), COMMAND))[0]),
    "a large one that was changed": frame(sealed((bytes(100_000), 0))[0][:-1] + b"x"),
    "a large command": frame(sealed((bytes(100_000), COMMAND))[0]),
    "from the wrong side": frame(server_seal().close(b"hello", 0)),
    "another key": frame(Seal(bytes(32), is_client=True, sent=2, heard=1).close(b"hello", 0)),
}


@pytest.mark.parametrize("breach", BREACHES.values(), ids=BREACHES.keys())
def test_a_breach_ends_it(new: New, pair: Pair, breach: bytes) -> None:
    stream = new(pair[1], MAX, server_seal())
    later = client_seal()
    later.sent += 1
    pair[0].setblocking(True)
    pair[0].sendall(breach + frame(later.close(b"later", 0)))
    messages = read_all(stream)
    assert stream.ended
    assert messages in ([], [[b"hello"]])
    assert [b"later"] not in messages


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(st.data(), st.sampled_from(["native", "python"] if native.NATIVE else ["python"]))
def test_any_byte_that_was_changed_is_noticed(data: st.DataObject, twin: str) -> None:
    left, right = socket.socketpair()
    with left, right:
        right.setblocking(False)
        stream = streams(twin)(right, MAX, server_seal())
        said = bytearray(frame(sealed((parcels.write([TASK] * 3), 0))[0]))
        said[data.draw(st.integers(0, len(said) - 1))] ^= data.draw(st.integers(1, 255))
        left.sendall(said)
        left.close()
        assert read_all(stream) == []
        assert stream.recv() == []
        assert stream.ended


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(st.binary(max_size=2000), st.sampled_from(["native", "python"] if native.NATIVE else ["python"]))
def test_any_bytes_at_all_bring_nothing(junk: bytes, twin: str) -> None:
    left, right = socket.socketpair()
    with left, right:
        right.setblocking(False)
        stream = streams(twin)(right, MAX, server_seal())
        left.sendall(junk)
        left.close()
        assert read_all(stream) == []


# -- many peers -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=TWINS)
def many(request: pytest.FixtureRequest) -> Iterator[Connections]:
    made = hall(request.param)
    yield made
    made.close()


def test_some_peers_have_keys_and_some_have_none(many: Connections, other: New) -> None:
    ends = [socket.socketpair() for _ in range(2)]
    try:
        for connected, _ in ends:
            connected.setblocking(False)
        for (connected, kept), seal in zip(ends, (server_seal(), None), strict=True):
            del connected
            many.add(os.dup(kept.fileno()), b"ann" if seal else b"bob", seal)
        ann, bob = other(ends[0][0], MAX, client_seal()), other(ends[1][0], MAX, None)
        assert ann.send([TASK] * 3) == bob.send([TASK] * 3) == 3
        heard = many.recv(100) + many.recv(100)
        assert sorted(heard) == [[b"ann", *TASK]] * 3 + [[b"bob", *TASK]] * 3
        assert many.send([[b"ann", *TASK], [b"bob", *TASK]] * 50) == []
        assert read_all(ann) == read_all(bob) == [TASK] * 50
        many.publish([b"news", b"signature"])
        assert read_all(ann) == read_all(bob) == [[b"news", b"signature"]]
        ann.command(b"\x04PING\0\0here")
        many.recv(100)
        assert read_all(ann) == []
        assert ann.commands == [b"\x04PONGhere"]
    finally:
        for two in ends:
            for each in two:
                each.close()


def test_who_sends_no_parcels_is_sent_none(many: Connections) -> None:
    near, far = socket.socketpair()
    with near, far:
        seal = client_seal()
        many.add(os.dup(far.fileno()), b"ann", server_seal())
        near.sendall(b"".join(frame(seal.close(each, MORE if each != b"body" else 0)) for each in TASK))
        assert many.recv(100) == [[b"ann", *TASK]]
        assert many.send([[b"ann", *TASK]]) == []
        assert [seal.open(each) for each in frames_in(near.recv(10_000))] == [
            (b"envelope", MORE), (b"header", MORE), (b"body", 0)
        ]  # fmt: skip
        near.sendall(frame(seal.close(parcels.write([TASK]), 0)))
        assert many.recv(100) == [[b"ann", *TASK]]
        assert many.send([[b"ann", *TASK]] * 2) == []
        (parcel,) = frames_in(near.recv(10_000))
        assert seal.open(parcel) == (parcels.write([TASK] * 2), 0)


def test_a_breach_ends_one_connection_and_no_other(many: Connections) -> None:
    ends = [socket.socketpair() for _ in range(2)]
    try:
        for name, (_, far) in zip((b"ann", b"eve"), ends, strict=True):
            many.add(os.dup(far.fileno()), name, server_seal())
        ends[1][0].sendall(frame(b"hello"))
        ends[0][0].sendall(frame(client_seal().close(parcels.write([TASK]), 0)))
        assert many.recv(100) == [[b"ann", *TASK]]
        assert many.gone == [b"eve"]
        assert len(many) == 1
    finally:
        for two in ends:
            for each in two:
                each.close()


@without_native
@pytest.mark.parametrize("field", ["key", "sends", "hears", "sent", "heard"])
def test_a_seal_that_is_none_is_refused(pair: Pair, field: str) -> None:
    seal = client_seal()
    setattr(seal, field, b"short")
    with pytest.raises((TypeError, ValueError)):
        native_module.Stream(pair[0], MAX, seal)


# -- lines and listeners --------------------------------------------------------------------------------------------

SERVER, ANN, EVE = (CurveKey(bytes([number]) * 32) for number in (1, 2, 3))
BOUNDS = ListenerBounds(MAX, 4 * MAX, 4 * MAX, 16 * MAX, 5 * NS_PER_S)


@pytest.fixture(params=TWINS)
def guarded(request: pytest.FixtureRequest) -> Iterator[Listener]:
    module: ModuleType = native_module if request.param == "native" else connections_python
    doorman = sealing.KeyAuthenticator(SERVER)
    doorman.known = {ANN.public: "ann"}
    made = Listener(b"ROUTER", BOUNDS, module.Connections, doorman)
    yield made
    made.close()


@pytest.fixture
def plain_too() -> Iterator[Listener]:
    authenticator = sealing.KeyAuthenticator(SERVER)
    authenticator.known, authenticator.plain_ok = {ANN.public: "ann"}, True
    made = Listener(b"ROUTER", BOUNDS, authenticator=authenticator)
    yield made
    made.close()


def serve(listener: Listener, until: Callable[[], object], line: Line | None = None) -> list[list[bytes]]:
    """What came until that holds; the line is looked after as well."""
    came: list[list[bytes]] = []
    deadline = time.monotonic() + 20
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.001)
        came += listener.recv(100)
        if line is not None:
            line.follow(time.monotonic_ns())
    return came


def test_a_line_with_a_key_that_is_known(guarded: Listener) -> None:
    port = guarded.bind("127.0.0.1", 0, "port")
    line = Line(f"tcp://127.0.0.1:{port}", asks=False, begin=sealing.to_server(ANN, SERVER.public))
    try:
        serve(guarded, lambda: line.up, line)
        ((peer, principal, key),) = guarded.come
        assert (principal, key) == ("ann", ANN.public)
        assert line.send([TASK] * 3) == 3
        came: list[list[bytes]] = []
        while len(came) < 3:
            came += guarded.recv(100)
        assert came == [[peer, *TASK]] * 3
        assert guarded.send([[peer, *TASK]]) == []
        heard: list[list[bytes]] = []
        while not heard:
            heard = line.recv()
        assert heard == [TASK]
    finally:
        line.close()


def many_have_come(listener: Listener) -> None:
    """So many from this machine that the next one has to wait for a moment."""
    authenticator = listener._authenticator
    assert isinstance(authenticator, sealing.KeyAuthenticator)
    for _ in range(handshake_rate.AT_ONCE + 20):
        authenticator._rate.turn_ns("127.0.0.1", time.monotonic_ns())


def test_a_line_waits_for_its_turn(guarded: Listener) -> None:
    many_have_come(guarded)
    port = guarded.bind("127.0.0.1", 0, "port")
    line = Line(f"tcp://127.0.0.1:{port}", asks=False, begin=sealing.to_server(ANN, SERVER.public))
    try:
        serve(guarded, lambda: guarded.due_ns < NEVER_NS, line)
        turn_ns = guarded.due_ns
        guarded.let_in(turn_ns - 1)
        assert (guarded.due_ns, line.up) == (turn_ns, False)
        guarded.let_in(turn_ns)
        assert guarded.due_ns == NEVER_NS
        serve(guarded, lambda: line.up, line)
        assert [principal for _, principal, _ in guarded.come] == ["ann"]
        assert guarded.turned_away == {}
    finally:
        line.close()


def test_who_waits_when_the_doors_close_is_sent_away(guarded: Listener) -> None:
    many_have_come(guarded)
    port = guarded.bind("127.0.0.1", 0, "port")
    line = Line(f"tcp://127.0.0.1:{port}", asks=False, begin=sealing.to_server(ANN, SERVER.public))
    try:
        serve(guarded, lambda: guarded.due_ns < NEVER_NS, line)
        guarded.close_doors()
        assert guarded.due_ns == NEVER_NS
        serve(guarded, lambda: line.turned_away, line)
    finally:
        line.close()


def test_where_too_many_wait_the_next_is_sent_away(guarded: Listener) -> None:
    many_have_come(guarded)
    guarded._waiting_max = 0
    port = guarded.bind("127.0.0.1", 0, "port")
    line = Line(f"tcp://127.0.0.1:{port}", asks=False, begin=sealing.to_server(ANN, SERVER.public))
    try:
        serve(guarded, lambda: bool(guarded.turned_away), line)
        assert set(guarded.turned_away) == {TurnedAway(b"overload", b"127.0.0.1", b"")}
        assert guarded.due_ns == NEVER_NS
    finally:
        line.close()


@pytest.mark.parametrize(
    ("begin", "why", "key"),
    [
        (zmtp.null_opening, NO_KEY, b""),
        (sealing.to_server(EVE, SERVER.public), UNKNOWN_KEY, EVE.public),
        (sealing.to_server(ANN, EVE.public), FOREIGN, b""),
    ],
    ids=["no key", "a key that is not known", "the key of another server"],
)
def test_a_line_that_is_not_let_in(guarded: Listener, begin: Begin, why: bytes, key: bytes) -> None:
    port = guarded.bind("127.0.0.1", 0, "port")
    line = Line(f"tcp://127.0.0.1:{port}", asks=False, begin=begin)
    try:
        serve(guarded, lambda: bool(guarded.turned_away), line)
        assert set(guarded.turned_away) == {TurnedAway(why, b"127.0.0.1", key)}
        assert not line.up
        assert len(guarded) == 0
        assert guarded.come == []
    finally:
        line.close()


@pytest.mark.parametrize(
    ("begin", "principals"), [(zmtp.null_opening, []), (sealing.to_server(ANN, SERVER.public), ["ann"])]
)
def test_a_line_without_a_key_while_that_is_allowed(plain_too: Listener, begin: Begin, principals: list[str]) -> None:
    port = plain_too.bind("127.0.0.1", 0, "port")
    line = Line(f"tcp://127.0.0.1:{port}", asks=False, begin=begin)
    try:
        serve(plain_too, lambda: line.up, line)
        assert line.send([TASK]) == 1
        came: list[list[bytes]] = []
        while not came:
            came = plain_too.recv(100)
        assert came[0][1:] == TASK
    finally:
        line.close()
    assert [each for _, each, _ in plain_too.come] == principals


def test_those_without_a_key_are_told_of_if_they_are_given_a_name(plain_too: Listener) -> None:
    authenticator = plain_too._authenticator
    assert isinstance(authenticator, sealing.KeyAuthenticator)
    authenticator.plain_name = "plain"
    line = Line(f"tcp://127.0.0.1:{plain_too.bind('127.0.0.1', 0, 'port')}", asks=False, begin=zmtp.null_opening)
    try:
        serve(plain_too, lambda: bool(plain_too.come), line)
    finally:
        line.close()
    assert [each[1:] for each in plain_too.come] == [("plain", b"")]


def test_a_dealer_of_libzmq_without_a_key_while_that_is_allowed(plain_too: Listener) -> None:
    port = plain_too.bind("127.0.0.1", 0, "port")
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.connect(f"tcp://127.0.0.1:{port}")
        dealer.send_multipart(TASK)
        came: list[list[bytes]] = []
        while not came:
            came = plain_too.recv(100)
        assert came[0][1:] == TASK


def test_a_dealer_of_libzmq_with_a_key_that_is_known(guarded: Listener) -> None:
    port = guarded.bind("127.0.0.1", 0, "port")
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.setsockopt(zmq.CURVE_SECRETKEY, ANN.secret)
        dealer.setsockopt(zmq.CURVE_PUBLICKEY, ANN.public)
        dealer.setsockopt(zmq.CURVE_SERVERKEY, SERVER.public)
        dealer.connect(f"tcp://127.0.0.1:{port}")
        for body in (b"body", bytes(300_000)):
            dealer.send_multipart([b"e", b"h", body])
            came: list[list[bytes]] = []
            while not came:
                came = guarded.recv(100)
            ((peer, *frames),) = came
            assert frames == [b"e", b"h", body]
            assert guarded.send([[peer, *frames]]) == []
            while not dealer.poll(1):
                guarded.recv(100)
            assert dealer.recv_multipart() == [b"e", b"h", body]
        assert [principal for _, principal, _ in guarded.come] == ["ann"]
