"""Changed handshakes, for both sides of ours.

One side is real, and hears what the other one said in a handshake that was recorded, changed on its way. Its random
numbers are the same as then, so that without the change it would be let in; now and then it is, to see that.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from famulus.lab.fuzz.changes import Pieces, change
from famulus.lab.fuzz.failure import Failure
from famulus.net.arrival import Arrival
from famulus.net.sealing import KeyAuthenticator
from famulus.wire import curve, zmtp
from famulus.wire.curve import CurveKey, Seal
from famulus.wire.zmtp import Foreign, Step

GREETING_BYTES = 64
HOST = "10.0.0.1"
#: How many handshakes are recorded.
RECORDED = 16
SERVER, ANN, STRANGER = (CurveKey(bytes([number]) * 32) for number in (1, 2, 3))

Side = Literal["client", "server"]
Steps = Generator[Step, bytes, Seal | None]


@dataclass(slots=True)
class Reaction:
    """What became of one side after it heard some bytes."""

    said: Pieces = field(default_factory=list)
    #: Whether the connection is open, what it is sealed with then, and what is left of the bytes.
    is_open: bool = False
    seal: Seal | None = None
    left: bytes = b""
    #: Why it ended, for people.
    refused: str = ""


def hear(steps: Steps, told: bytes) -> Reaction:
    """As `net.opening.Opening` does it. Each step takes something of what was told, or is the last."""
    heard = Reaction()
    try:
        said, wanted = next(steps)
        for _ in range(len(told) + 2):
            if said:
                heard.said.append(said)
            if len(told) < wanted:
                heard.left = told
                return heard
            piece, told = told[:wanted], told[wanted:]
            said, wanted = steps.send(piece)
    except StopIteration as over:
        heard.is_open, heard.seal, heard.left = True, over.value, told
    except Foreign as why:
        heard.refused = str(why)
    else:
        raise Failure("a handshake goes on without hearing anything")
    return heard


def chances(seed: str) -> Callable[[int], bytes]:
    """Random bytes, the same for the same seed."""
    return Random(seed).randbytes


class Recording:
    """An honest handshake: what each side said, in the pieces in which it has a meaning, and how it ended."""

    def __init__(self, number: int, own: CurveKey = ANN) -> None:
        self.number, self.own = number, own
        self.arrival = Arrival(HOST, True)
        client, server = self.new("client"), self.new("server", self.arrival, known={own.public: "ann"})
        said: dict[Side, Pieces] = {"client": [], "server": []}
        wanted: dict[Side, int] = {}
        seals: dict[Side, Seal | None] = {}
        sides: list[tuple[Side, Side, Steps]] = [("client", "server", client), ("server", "client", server)]
        for name, _, steps in sides:
            first, wanted[name] = next(steps)
            said[name].append(first)
        unheard = {name: b"".join(said[other]) for name, other, _ in sides}
        while any(len(unheard[name]) >= wanted[name] and name not in seals for name, _, _ in sides):
            for name, other, steps in sides:
                while name not in seals and len(unheard[name]) >= wanted[name]:
                    piece, unheard[name] = unheard[name][: wanted[name]], unheard[name][wanted[name] :]
                    try:
                        more, wanted[name] = steps.send(piece)
                    except StopIteration as over:
                        seals[name] = over.value
                    else:
                        said[name] += [more] if more else []
                        unheard[other] += more
        self.seals = seals
        #: What each side heard, with the greeting in one piece.
        self.heard: dict[Side, Pieces] = {name: _pieces(b"".join(said[other])) for name, other, _ in sides}

    def new(
        self,
        side: Side,
        arrival: Arrival | None = None,
        *,
        known: dict[bytes, str] | None = None,
        plain_ok: bool = False,
    ) -> Steps:
        """That side once more, with the same random numbers. A server knows Ann, unless it is told otherwise."""
        if side == "client":
            return curve.client_opening(b"DEALER", self.own, SERVER.public, chances(f"client {self.number}"))
        authenticator = KeyAuthenticator(SERVER, random=chances(f"server {self.number}"))
        authenticator.known, authenticator.plain_ok = known or {ANN.public: "ann"}, plain_ok
        return authenticator.begin(b"ROUTER", arrival or Arrival(HOST, True))


def _pieces(said: bytes) -> Pieces:
    return [said[:GREETING_BYTES], *framed(said[GREETING_BYTES:])]


def framed(said: bytes) -> Pieces:
    """One frame each; what is no frame is the last."""
    found = []
    while said:
        _, head, size = _head(said)
        found.append(said[: head + size])
        said = said[head + size :]
    return found


def commands(said: bytes, most: int) -> Pieces:
    """The contents of these commands, whichever way their lengths are written."""
    found = []
    for piece in framed(said)[:most]:
        flags, head, size = _head(piece)
        whole = flags in (zmtp.COMMAND, zmtp.COMMAND | zmtp.LONG) and len(piece) == head + size
        found.append(piece[head:] if whole else b"?")
    return found


def _head(said: bytes) -> tuple[int, int, int]:
    if said[0] & zmtp.LONG:
        return said[0], 9, int.from_bytes(said[1:9], "big")
    return said[0], 2, said[1] if len(said) > 1 else 0


# -- others -----------------------------------------------------------------------------------------------------------

_SIGNATURE = b"\xff" + bytes(8) + b"\x7f"


def _greeting(mechanism: bytes, version: tuple[int, int] = (3, 1)) -> bytes:
    return (_SIGNATURE + bytes(version) + mechanism.ljust(20, b"\0")).ljust(GREETING_BYTES, b"\0")


#: What those begin with who speak something else, or have no key.
FOREIGN: tuple[Pieces, ...] = (
    [b"\x01\x00", b"\x00\x05hello"],  # ZMTP 1.0
    [_SIGNATURE[:-1] + b"\x7f\x01\x05", b"\x00\x00"],  # ZMTP 2.0
    [_greeting(b"CURVE", (2, 0)), zmtp.command(b"HELLO", bytes(194))],
    [_greeting(b"PLAIN"), zmtp.command(b"HELLO", b"\x03ann\x06secret")],
    [_greeting(b"NULL"), zmtp.command(b"READY", zmtp.properties(b"DEALER"))],
    [_greeting(b"NULL"), zmtp.command(b"READY", zmtp.properties(b"ROUTER"))],
    [_greeting(b"CURVE"), zmtp.command(b"READY", zmtp.properties(b"DEALER"))],
    [_greeting(b"GSSAPI"), zmtp.command(b"INITIATE", bytes(300))],
    [b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", b"\r\n"],
    [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", bytes(200)],  # TLS
)


class Handshakes:
    def __init__(self) -> None:
        self._recordings = [Recording(number) for number in range(RECORDED)]
        #: Of one who got in elsewhere.
        self._strangers = [Recording(number, STRANGER) for number in range(RECORDED)]

    def try_one(self, random: Random) -> str:
        """Which kind of input it was."""
        recording, other = random.choice(self._recordings), random.choice(self._recordings)
        side: Side = random.choice(("client", "server"))
        pieces = recording.heard[side]
        chance = random.random()
        if chance < 0.02:
            self._let_in(recording, side)
            return f"{side}: unchanged"
        if chance < 0.12:
            told = random.choice(FOREIGN)
            told_now = change(random, told, pieces) if random.random() < 0.7 else b"".join(told)
            self._refuse(recording, side, told_now, plain_ok=random.random() < 0.5)
            return f"{side}: foreign"
        if chance < 0.17:
            self._refuse(recording, side, b"".join(other.heard[side]))
            return f"{side}: recorded before"
        if chance < 0.2:
            stranger = self._strangers[recording.number].heard["server"]
            self._refuse(recording, "server", change(random, stranger, pieces) if chance < 0.18 else b"".join(stranger))
            return "server: a stranger"
        self._refuse(recording, side, change(random, pieces, [*other.heard["client"], *other.heard["server"]]))
        return f"{side}: changed"

    def _let_in(self, recording: Recording, side: Side) -> None:
        """Or else whatever is refused would say nothing."""
        heard = hear(recording.new(side), b"".join(recording.heard[side]))
        if not heard.is_open or not _same(heard.seal, recording.seals[side]):
            raise Failure(f"an honest handshake was refused: {heard.refused}")

    def _refuse(self, recording: Recording, side: Side, told: bytes, *, plain_ok: bool = False) -> None:
        arrival = Arrival(HOST, True)
        heard = hear(recording.new(side, arrival, plain_ok=plain_ok), told)
        if heard.is_open and heard.seal is None and plain_ok and _is_plain(told) and not arrival.principal:
            return
        honest = recording.heard[side][1:]
        said = commands(told[GREETING_BYTES:], len(honest))
        is_honest = len(said) == len(honest) and said == commands(b"".join(honest), len(honest))
        if is_honest and (not heard.is_open or _same(heard.seal, recording.seals[side])):
            # Only the greeting was changed, or a length was written in another way, or it came after the end.
            return
        if heard.is_open:
            raise Failure(f"a {side} accepted a handshake that was changed")
        if arrival.principal:
            raise Failure(f"{arrival.principal} was let in by a handshake that was changed")


def _is_plain(told: bytes) -> bool:
    return told[12:32].rstrip(b"\0") == zmtp.NULL


def _same(one: Seal | None, other: Seal | None) -> bool:
    return (
        one is not None and other is not None and (one.key, one.sent, one.heard) == (other.key, other.sent, other.heard)
    )
