"""CurveZMQ: both sides of a connection show who they are, and what they say after that is sealed. Pure.

    HELLO     the client's key for this connection (C'), and that it knows the server's lasting key (S)
    WELCOME   the server's key for this connection (S'), for C' alone, and a cookie
    INITIATE  the cookie; and for S' alone: the client's lasting key (C), its word that C' is its own, and what it is
    READY     for C' alone: what the server is
    MESSAGE   from then on, from both sides: a frame, sealed, and its number

Each is a command of ZMTP, apart from MESSAGE, which is sent as a frame. https://rfc.zeromq.org/spec/26 has all of it,
and libzmq speaks the same. Lasting keys only show who somebody is: what was recorded cannot be read later by whoever
gets hold of them, since the keys of a connection are forgotten with it.

We demand more than libzmq does: numbers without a gap, so that no frame can be taken away unnoticed; and that the
client means this server and no other. The cookie is for servers that keep nothing about a connection before INITIATE.
We do, so ours is a random number.

Random bytes come in. Nothing here shows a secret in its `repr`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Final

from nacl import bindings as sodium
from nacl.exceptions import CryptoError

from famulus.wire import zmtp
from famulus.wire.zmtp import Foreign, Step

KEY_BYTES: Final = 32
#: Inside a MESSAGE, before the frame; not the flags that ZMTP has outside.
MORE: Final = 1
COMMAND: Final = 2
#: By how much a sealed frame is longer than the frame itself: its name, its number, the seal and the flags.
OVERHEAD_BYTES: Final = 8 + 8 + 16 + 1

CURVE: Final = b"CURVE"
_MESSAGE: Final = b"\x07MESSAGE"
_NUMBER: Final = struct.Struct("!Q")
_SEAL_BYTES: Final = 16
_CHANCE_BYTES: Final = 16
_COOKIE_BYTES: Final = 96
#: The version, and so many zeros that whoever answers it never sends more than it got.
_HELLO_HEAD: Final = bytes([1, 0]) + bytes(72)
_HELLO_PROOF: Final = bytes(64)
#: What the numbers of frames begin with, by who sends them.
_CLIENT: Final = b"CurveZMQMESSAGEC"
_SERVER: Final = b"CurveZMQMESSAGES"

Random = Callable[[int], bytes]


class CurveKey:
    __slots__ = ("public", "secret")

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self.public: bytes = sodium.crypto_scalarmult_base(secret)


class Seal:
    """What an open connection seals and opens its frames with."""

    __slots__ = ("heard", "hears", "key", "sends", "sent")

    def __init__(self, key: bytes, *, is_client: bool, sent: int, heard: int) -> None:
        self.key = key
        #: The numbers of the last frame that we sent, and of the last one that we heard; and what they begin with.
        self.sent, self.heard = sent, heard
        self.sends, self.hears = (_CLIENT, _SERVER) if is_client else (_SERVER, _CLIENT)

    def close(self, frame: bytes, flags: int) -> bytes:
        """The content of the frame that is sent instead of this one."""
        self.sent += 1
        number = _NUMBER.pack(self.sent)
        return _MESSAGE + number + _seal(self.key, self.sends + number, bytes([flags]) + frame)

    def open(self, content: bytes) -> tuple[bytes, int]:
        """The frame that was sealed, and its flags."""
        begin, end = len(_MESSAGE), len(_MESSAGE) + _NUMBER.size
        if content[:begin] != _MESSAGE or len(content) < OVERHEAD_BYTES:
            raise Foreign("it sends what is not sealed")
        number = content[begin:end]
        if _NUMBER.unpack(number)[0] != self.heard + 1:
            raise Foreign("it repeats a frame, or one is missing")
        self.heard += 1
        opened = _open(self.key, self.hears + number, content[end:])
        return opened[1:], opened[0] & (MORE | COMMAND)


# -- who connects ---------------------------------------------------------------------------------------------------


def client_opening(kind: bytes, own: CurveKey, server: bytes, random: Random) -> Generator[Step, bytes, Seal]:
    """Open a connection to the one whose lasting key is `server`; see `zmtp.null_opening`."""
    yield from zmtp.greetings(CURVE)
    passing = CurveKey(random(KEY_BYTES))
    to_server = _shared(server, passing)
    number = _NUMBER.pack(1)
    proof = _seal(to_server, b"CurveZMQHELLO---" + number, _HELLO_PROOF)
    hello = zmtp.command(b"HELLO", _HELLO_HEAD + passing.public + number + proof)
    welcome = yield from zmtp.heard_command(b"WELCOME", hello)
    opened = _open(to_server, b"WELCOME-" + welcome[:_CHANCE_BYTES], welcome[_CHANCE_BYTES:])
    if len(opened) != KEY_BYTES + _COOKIE_BYTES:
        raise Foreign("its welcome has another size")
    of_server, cookie = opened[:KEY_BYTES], opened[KEY_BYTES:]
    shared = _shared(of_server, passing)
    chance, number = random(_CHANCE_BYTES), _NUMBER.pack(2)
    vouch = _seal(_shared(of_server, own), b"VOUCH---" + chance, passing.public + server)
    told = _seal(shared, b"CurveZMQINITIATE" + number, own.public + chance + vouch + zmtp.properties(kind))
    ready = yield from zmtp.heard_command(b"READY", zmtp.command(b"INITIATE", cookie + number + told))
    if ready[: _NUMBER.size] != _NUMBER.pack(1):
        raise Foreign("it does not count its frames")
    zmtp.check_partner(kind, _open(shared, b"CurveZMQREADY---" + ready[: _NUMBER.size], ready[_NUMBER.size :]))
    return Seal(shared, is_client=True, sent=2, heard=1)


# -- who is connected to --------------------------------------------------------------------------------------------


def server_opening(
    kind: bytes, owns: Sequence[CurveKey], admit: Callable[[bytes], bool], random: Random
) -> Generator[Step, bytes, Seal]:
    """Open a connection that somebody made to us, after its greeting: see `zmtp.heard_greeting`.

    `owns`: our lasting keys; whoever connects knows one of them. `admit` says whether the one with this lasting key of
    its own may come in.
    """
    hello = yield from zmtp.heard_command(b"HELLO", zmtp.rest_of_greeting(CURVE))
    head, client, number, proof = _cut(hello, len(_HELLO_HEAD), KEY_BYTES, _NUMBER.size)
    if head != _HELLO_HEAD:
        raise Foreign("its hello is of another version")
    own, to_client = _meant(owns, client, b"CurveZMQHELLO---" + number, proof)
    if number != _NUMBER.pack(1):
        raise Foreign("it does not count its frames")
    passing, chance, cookie = CurveKey(random(KEY_BYTES)), random(_CHANCE_BYTES), random(_COOKIE_BYTES)
    welcome = chance + _seal(to_client, b"WELCOME-" + chance, passing.public + cookie)
    initiate = yield from zmtp.heard_command(b"INITIATE", zmtp.command(b"WELCOME", welcome))
    returned, number, told = _cut(initiate, _COOKIE_BYTES, _NUMBER.size)
    if returned != cookie or number != _NUMBER.pack(2):
        raise Foreign("it answers another welcome")
    shared = _shared(client, passing)
    lasting, chance, vouch, properties = _cut(
        _open(shared, b"CurveZMQINITIATE" + number, told), KEY_BYTES, _CHANCE_BYTES, 2 * KEY_BYTES + _SEAL_BYTES
    )
    # Whoever has C says that C' is its own, and that it wants to talk to us and nobody else.
    if _open(_shared(lasting, passing), b"VOUCH---" + chance, vouch) != client + own.public:
        raise Foreign("it vouches for another connection")
    zmtp.check_partner(kind, properties)
    if not admit(lasting):
        raise Foreign("nobody here knows its key")
    number = _NUMBER.pack(1)
    ready = number + _seal(shared, b"CurveZMQREADY---" + number, zmtp.properties(kind))
    yield zmtp.command(b"READY", ready), 0
    return Seal(shared, is_client=False, sent=1, heard=2)


def _meant(owns: Sequence[CurveKey], client: bytes, nonce: bytes, proof: bytes) -> tuple[CurveKey, bytes]:
    """The key of ours that the client knows, and what we share with it by that."""
    for own in owns:
        shared = _shared(client, own)
        with suppress(Foreign):
            if _open(shared, nonce, proof) == _HELLO_PROOF:
                return own, shared
    raise Foreign("it does not know our key")


# -- keys -----------------------------------------------------------------------------------------------------------


def of_signer(signing_key: bytes) -> bytes | None:
    """The public key of the connections of one that signs with the key of this public half; None if that is no key."""
    try:
        return sodium.crypto_sign_ed25519_pk_to_curve25519(signing_key)
    except (CryptoError, ValueError):
        return None


# -- boxes ----------------------------------------------------------------------------------------------------------


def _shared(other: bytes, own: CurveKey) -> bytes:
    try:
        return sodium.crypto_box_beforenm(other, own.secret)
    except (CryptoError, ValueError):
        raise Foreign("its key is none") from None


def _seal(key: bytes, nonce: bytes, content: bytes) -> bytes:
    return sodium.crypto_box_easy_afternm(content, nonce, key)


def _open(key: bytes, nonce: bytes, box: bytes) -> bytes:
    try:
        return sodium.crypto_box_open_easy_afternm(box, nonce, key)
    except (CryptoError, ValueError):
        raise Foreign("what it sends was sealed with another key, or changed on its way") from None


def _cut(content: bytes, *sizes: int) -> list[bytes]:
    """Pieces of these sizes, and the rest."""
    pieces, at = [], 0
    for size in sizes:
        pieces.append(content[at : at + size])
        at += size
    if len(content) < at:
        raise Foreign("it sends less than belongs there")
    return [*pieces, content[at:]]
