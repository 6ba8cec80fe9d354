"""Changed handshakes and frames: none is accepted, and the fuzzer would notice if one were."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from famulus.lab.fuzz import handshakes, streams
from famulus.lab.fuzz.failure import Failure
from famulus.lab.fuzz.handshakes import ANN, SERVER, Recording, hear
from famulus.lab.fuzz.run import Fuzz
from famulus.net import native, stream_python
from famulus.net.arrival import Arrival
from famulus.net.sealing import KeyAuthenticator
from famulus.wire import curve, zmtp
from famulus.wire.curve import Seal
from famulus.wire.zmtp import Step

#: A second or so; `famulus fuzz` tries a million.
INPUTS = 3000


def test_nothing_that_was_changed_is_accepted() -> None:
    fuzz = Fuzz(1)
    for number in range(INPUTS):
        fuzz.try_one(number)
    assert fuzz.kinds.total() == INPUTS
    twins = ["python", "native"] if native.NATIVE else ["python"]
    kinds = {f"{twin} {what}: changed" for twin in twins for what in ("stream", "connections")}
    kinds |= {f"{side}: {how}" for side in ("client", "server") for how in ("changed", "unchanged", "foreign")}
    assert kinds < set(fuzz.kinds)
    assert min(fuzz.kinds[kind] for kind in kinds) >= 5


def test_an_input_follows_from_the_seed_and_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bytes] = []

    def listen(steps: object, heard: bytes) -> handshakes.Reaction:
        told.append(heard)
        return hear(steps, heard)  # type: ignore[arg-type]

    monkeypatch.setattr(handshakes, "hear", listen)
    for fuzz in (Fuzz(1), Fuzz(1)):
        for number in (50, 51, 52, 53, 54):
            fuzz.try_one(number)
    half = len(told) // 2
    assert half > 0
    assert told[:half] == told[half:]


def test_a_recorded_handshake_is_one() -> None:
    recording = Recording(0)
    assert recording.arrival.principal == "ann"
    ours, theirs = recording.seals["client"], recording.seals["server"]
    assert ours is not None
    assert theirs is not None
    assert theirs.open(ours.close(b"hello", 0)) == (b"hello", 0)
    assert [len(pieces) for pieces in recording.heard.values()] == [3, 3]


# -- it would notice ------------------------------------------------------------------------------------------------


def find(most: int = INPUTS) -> str:
    fuzz = Fuzz(2)
    for number in range(most):
        try:
            fuzz.try_one(number)
        except Failure as failure:
            return str(failure)
    return ""


def open_any_number(self: Seal, content: bytes) -> tuple[bytes, int]:
    """Without a look at whether it comes next."""
    if content[:8] != b"\x07MESSAGE" or len(content) < curve.OVERHEAD_BYTES:
        raise zmtp.Foreign("it sends what is not sealed")
    opened = curve._open(self.key, self.hears + content[8:16], content[16:])
    return opened[1:], opened[0] & 3


def open_unsealed(self: Seal, content: bytes) -> tuple[bytes, int]:
    """What cannot be opened is taken as it is."""
    try:
        return right_open(self, content)
    except zmtp.Foreign:
        return content, 0


def admit_everybody(self: KeyAuthenticator, kind: bytes, arrival: Arrival) -> Generator[Step, bytes, Seal | None]:
    yield from zmtp.heard_greeting()
    return (yield from curve.server_opening(kind, self._owns, lambda key: True, self._random))


def no_key_needed(self: KeyAuthenticator, kind: bytes, arrival: Arrival) -> Generator[Step, bytes, Seal | None]:
    self.plain_ok = True
    return (yield from right_begin(self, kind, arrival))


def known_too_early(self: KeyAuthenticator, kind: bytes, arrival: Arrival) -> Generator[Step, bytes, Seal | None]:
    arrival.principal = "ann"
    return (yield from right_begin(self, kind, arrival))


def nobody(self: KeyAuthenticator, kind: bytes, arrival: Arrival) -> Generator[Step, bytes, Seal | None]:
    self.known = {}
    return (yield from right_begin(self, kind, arrival))


def twice(self: stream_python.Stream, frame: bytes, flags: int) -> list[list[bytes]]:
    return 2 * right_take(self, frame, flags)


right_open, right_begin, right_take = Seal.open, KeyAuthenticator.begin, stream_python.Stream._take_frame


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "says"),
    [
        (Seal, "open", open_any_number, "what came is not what was sealed"),
        (Seal, "open", open_unsealed, "what came is not what was sealed"),
        (stream_python.Stream, "_take_frame", twice, "what came is not what was sealed"),
        (KeyAuthenticator, "begin", admit_everybody, "a server accepted a handshake that was changed"),
        (KeyAuthenticator, "begin", no_key_needed, "a server accepted a handshake that was changed"),
        (KeyAuthenticator, "begin", known_too_early, "ann was let in by a handshake that was changed"),
        (KeyAuthenticator, "begin", nobody, "an honest handshake was refused"),
    ],
)
def test_a_broken_check_is_noticed(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, wrong: Callable[..., object], says: str
) -> None:
    # The recordings are honest.
    ready = Fuzz(2)
    monkeypatch.setattr("famulus.lab.fuzz.run.Handshakes", lambda: ready._handshakes)
    monkeypatch.setattr(owner, name, wrong)
    assert says in find()


def test_any_other_exception_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def trip(self: object, random: object) -> str:
        raise IndexError("tripped")

    monkeypatch.setattr(streams.Streams, "try_one", trip)
    assert find(20) == "IndexError: tripped"


def test_a_handshake_that_never_ends_is_noticed() -> None:
    def endless() -> Generator[Step, bytes, None]:
        while True:
            yield b"", 0

    with pytest.raises(Failure, match="goes on without hearing"):
        hear(endless(), b"some bytes")


def test_a_handshake_waits_for_the_rest() -> None:
    begin = curve.client_opening(b"DEALER", ANN, SERVER.public, handshakes.chances("x"))
    heard = hear(begin, Recording(1).heard["client"][0] + b"\x04")
    assert (heard.is_open, heard.refused, heard.left) == (False, "", b"\x04")
    assert [len(said) for said in heard.said] == [64, 202]
