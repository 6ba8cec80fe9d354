"""How two sides that have keys open a connection, and seal what they say; with libzmq on either side as well."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl import bindings as sodium

from famulus.wire import curve, zmtp
from famulus.wire.curve import COMMAND, MORE, OVERHEAD_BYTES, CurveKey, Seal

CHANCE = random.Random(7)
SERVER, CLIENT, STRANGER, OTHER = (CurveKey(CHANCE.randbytes(32)) for _ in range(4))

Steps = Generator[zmtp.Step, bytes, Seal]
#: Is given all that one side says, and says what arrives of it.
Tamper = Callable[[str, int, bytes], bytes]


def unchanged(side: str, number: int, said: bytes) -> bytes:
    return said


@dataclass
class Side:
    name: str
    steps: Steps
    #: What has come and was not asked for yet.
    inbox: bytes = b""
    wanted: int = 0
    said: list[bytes] = field(default_factory=list)
    seal: Seal | None = None

    def go_on(self) -> bool:
        """As far as it gets with what has come; whether it got anywhere."""
        before = len(self.said), self.inbox, self.seal
        while self.seal is None and (not self.said or len(self.inbox) >= self.wanted):
            heard, self.inbox = self.inbox[: self.wanted], self.inbox[self.wanted :]
            try:
                said, self.wanted = self.steps.send(heard) if self.said else next(self.steps)
            except StopIteration as over:
                self.seal = over.value
                break
            self.said.append(said)
        return before != (len(self.said), self.inbox, self.seal)


def client_steps(own: CurveKey = CLIENT, server: bytes = SERVER.public, kind: bytes = b"DEALER") -> Steps:
    return curve.client_opening(kind, own, server, CHANCE.randbytes)


def server_steps(known: bytes = CLIENT.public, kind: bytes = b"ROUTER") -> Steps:
    if (yield from zmtp.heard_greeting()) != curve.CURVE:
        raise zmtp.Foreign("it has no key")
    return (yield from curve.server_opening(kind, [OTHER, SERVER], lambda key: key == known, CHANCE.randbytes))


def meet(client: Steps, server: Steps, tamper: Tamper = unchanged) -> tuple[Seal, Seal]:
    """Both sides, until both are open; EOFError if they wait for each other."""
    sides = Side("client", client), Side("server", server)
    told = [0, 0]
    while sum(side.go_on() for side in sides):
        for number, side in enumerate(sides):
            other = sides[1 - number]
            for each in side.said[told[number] :]:
                other.inbox += tamper(side.name, told[number], each)
                told[number] += 1
    ours, theirs = sides[0].seal, sides[1].seal
    if ours is None or theirs is None:
        raise EOFError
    return ours, theirs


@pytest.fixture
def pair() -> tuple[Seal, Seal]:
    return meet(client_steps(), server_steps())


# -- opened ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=500), st.sampled_from([0, MORE, COMMAND]))))
def test_what_one_seals_the_other_opens(frames: list[tuple[bool, bytes, int]]) -> None:
    client, server = meet(client_steps(), server_steps())
    for from_client, frame, flags in frames:
        sender, hearer = (client, server) if from_client else (server, client)
        sealed = sender.close(frame, flags)
        assert len(sealed) == len(frame) + OVERHEAD_BYTES
        assert len(frame) < 8 or frame not in sealed[8:]  # after MESSAGE, which is said openly
        assert hearer.open(sealed) == (frame, flags)


def test_no_two_connections_share_a_key(pair: tuple[Seal, Seal]) -> None:
    other = meet(client_steps(), server_steps())
    assert pair[0].key == pair[1].key != other[0].key == other[1].key


def test_flags_that_we_do_not_know_are_dropped(pair: tuple[Seal, Seal]) -> None:
    assert pair[1].open(pair[0].close(b"x", 0xFF)) == (b"x", MORE | COMMAND)


REPEATED: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "repeated": lambda frames: [frames[0], frames[0]],
    "before its turn": lambda frames: [frames[1]],
    "one is missing": lambda frames: [frames[0], frames[2]],
    "not sealed": lambda _: [b"hello"],
    "empty": lambda _: [b""],
    "cut": lambda frames: [frames[0][:-1]],
    "nothing in it": lambda frames: [frames[0][: OVERHEAD_BYTES - 1]],
    "our own": lambda frames: [frames[3]],
}


@pytest.mark.parametrize("change", REPEATED.values(), ids=REPEATED.keys())
def test_what_is_not_the_next_frame_is_not_opened(
    pair: tuple[Seal, Seal], change: Callable[[list[bytes]], list[bytes]]
) -> None:
    client, server = pair
    frames = [client.close(bytes([number]), 0) for number in range(3)] + [server.close(b"x", 0)]
    *before, last = change(frames)
    for frame in before:
        server.open(frame)
    with pytest.raises(zmtp.Foreign):
        server.open(last)


@given(st.data())
def test_a_byte_that_was_changed_is_noticed(data: st.DataObject) -> None:
    client, server = meet(client_steps(), server_steps())
    sealed = bytearray(client.close(b"some frame", 0))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(zmtp.Foreign):
        server.open(bytes(sealed))


# -- not opened -----------------------------------------------------------------------------------------------------

WRONG: dict[str, Callable[[], tuple[Steps, Steps]]] = {
    "a key that nobody knows": lambda: (client_steps(STRANGER), server_steps()),
    "the key of another server": lambda: (client_steps(server=STRANGER.public), server_steps()),
    "a key that is none": lambda: (client_steps(server=bytes(32)), server_steps()),
    "another kind": lambda: (client_steps(kind=b"PUB"), server_steps()),
    "two clients": lambda: (client_steps(), client_steps()),
    "two servers": lambda: (server_steps(), server_steps()),
}


@pytest.mark.parametrize("sides", WRONG.values(), ids=WRONG.keys())
def test_who_may_not_come_in(sides: Callable[[], tuple[Steps, Steps]]) -> None:
    with pytest.raises((zmtp.Foreign, EOFError)):
        meet(*sides())


@settings(max_examples=200)
@given(st.data())
def test_no_change_on_the_way_leads_to_an_open_connection(data: st.DataObject) -> None:
    """Whatever somebody between the two does to one of their bytes; but for what no side looks at."""
    side = data.draw(st.sampled_from(["client", "server"]))
    step = data.draw(st.integers(0, 3))
    changed = False

    def tamper(name: str, number: int, said: bytes) -> bytes:
        nonlocal changed
        if (name, number) != (side, step) or not said:
            return said
        at = data.draw(st.integers(0, len(said) - 1))
        if is_ignored(name, number, at):
            return said
        changed = True
        return said[:at] + bytes([said[at] ^ data.draw(st.integers(1, 255))]) + said[at + 1 :]

    try:
        meet(client_steps(), server_steps(), tamper)
    except (zmtp.Foreign, EOFError):
        assert changed
    else:
        assert not changed


def is_ignored(name: str, number: int, at: int) -> bool:
    """The middle of the signature, the version from 3 on, and what follows the mechanism in a greeting."""
    if name == "server" and number == 2:
        return 20 <= at < 52
    return number == 0 and (0 < at < 9 or at in (10, 11) or at >= 32)


@settings(max_examples=200)
@given(st.binary(max_size=600), st.sampled_from(["client", "server"]), st.integers(0, 3))
def test_any_bytes_instead_of_what_is_expected(junk: bytes, side: str, step: int) -> None:
    replaced = False

    def tamper(name: str, number: int, said: bytes) -> bytes:
        nonlocal replaced
        if (name, number) != (side, step) or not said or said == junk:
            return said
        replaced = True
        return junk

    try:
        meet(client_steps(), server_steps(), tamper)
    except (zmtp.Foreign, EOFError):
        assert replaced
    else:
        assert not replaced


def test_a_client_that_vouches_for_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the server that it wants. libzmq does not look at that."""
    original = curve._seal

    def forged(key: bytes, nonce: bytes, content: bytes) -> bytes:
        if nonce.startswith(b"VOUCH---"):
            content = content[:32] + STRANGER.public
        return original(key, nonce, content)

    monkeypatch.setattr(curve, "_seal", forged)
    with pytest.raises(zmtp.Foreign, match="vouches"):
        meet(client_steps(), server_steps())


def test_secrets_are_not_shown(pair: tuple[Seal, Seal]) -> None:
    for each in (CLIENT, pair[0]):
        shown = repr(each) + str(each)
        assert "secret" not in shown.lower()
        assert CLIENT.secret.hex() not in shown
        assert repr(CLIENT.secret) not in shown


# -- with libzmq ----------------------------------------------------------------------------------------------------


@contextmanager
def libzmq(kind: int, options: Mapping[int, bytes | int]) -> Iterator[zmq.Socket[bytes]]:
    with zmq.Context() as context, context.socket(kind) as made:
        for option, value in {zmq.LINGER: 0, zmq.RCVTIMEO: 20_000, **options}.items():
            made.setsockopt(option, value)
        yield made


def carry(connected: socket.socket, steps: Steps) -> Seal:
    said, wanted = next(steps)
    while True:
        connected.sendall(said)
        heard = connected.recv(wanted, socket.MSG_WAITALL) if wanted else b""
        assert len(heard) == wanted, "closed"
        try:
            said, wanted = steps.send(heard)
        except StopIteration as over:
            return over.value  # type: ignore[no-any-return]


def send(connected: socket.socket, content: bytes) -> None:
    assert len(content) < 256
    connected.sendall(bytes([0, len(content)]) + content)


def heard(connected: socket.socket) -> bytes:
    flags, size = connected.recv(2, socket.MSG_WAITALL)
    assert flags == 0
    return connected.recv(size, socket.MSG_WAITALL)


def test_our_client_and_a_router_of_libzmq() -> None:
    with libzmq(zmq.ROUTER, {zmq.CURVE_SERVER: 1, zmq.CURVE_SECRETKEY: SERVER.secret}) as router:
        port = router.bind_to_random_port("tcp://127.0.0.1")
        with socket.create_connection(("127.0.0.1", port), 20) as connected:
            seal = carry(connected, client_steps())
            for frame, flags in ((b"hello", MORE), (b"", MORE), (b"there", 0)):
                send(connected, seal.close(frame, flags))
            peer, *frames = router.recv_multipart()
            assert frames == [b"hello", b"", b"there"]
            router.send_multipart([peer, b"good", b"day"])
            assert [seal.open(heard(connected)) for _ in range(2)] == [(b"good", MORE), (b"day", 0)]
            send(connected, seal.close(zmtp.PING, COMMAND))
            assert seal.open(heard(connected)) == (b"\4PONG", COMMAND)


def test_a_dealer_of_libzmq_and_our_server() -> None:
    own: dict[int, bytes] = {zmq.CURVE_SECRETKEY: CLIENT.secret, zmq.CURVE_PUBLICKEY: CLIENT.public}
    own[zmq.CURVE_SERVERKEY] = SERVER.public
    with libzmq(zmq.DEALER, own) as dealer, socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)
        dealer.connect(f"tcp://127.0.0.1:{listening.getsockname()[1]}")
        connected, _ = listening.accept()
        with connected:
            connected.settimeout(20)
            seal = carry(connected, server_steps())
            dealer.send_multipart([b"hello", b"there"])
            assert [seal.open(heard(connected)) for _ in range(2)] == [(b"hello", MORE), (b"there", 0)]
            for frame, flags in ((b"good", MORE), (b"day", 0)):
                send(connected, seal.close(frame, flags))
            assert dealer.recv_multipart() == [b"good", b"day"]


def test_the_keys_of_a_broker_are_those_of_its_signatures() -> None:
    """Both halves can be computed apart: others know only the public one."""
    public, secret = sodium.crypto_sign_seed_keypair(bytes(range(32)))
    pair = CurveKey(sodium.crypto_sign_ed25519_sk_to_curve25519(secret))
    assert pair.public == sodium.crypto_sign_ed25519_pk_to_curve25519(public)
