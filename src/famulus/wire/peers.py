"""What brokers say to each other, apart from the config itself: bytes to typed values and back.

    message    [letter][signature]

A letter is a MessagePack array: network, sender, boot, number, and its content. The sender signs it with its key, so
a letter can come over any connection. `boot` grows with every start of the sender and `number` with every letter, so an
old letter that somebody replays is recognised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from msgspec import DecodeError, Meta, Struct
from msgspec.msgpack import Decoder, Encoder

from famulus.errors import ProtocolError
from famulus.wire import limits, reasons

#: What is signed begins with this, so that no signature of anything else passes for that of a letter.
SIGNED_AS: Final = b"famulus letter 1\n"

LETTER_BYTES_MAX: Final = 5 * 1024 * 1024
SERVICES_MAX: Final = 20_000

_Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS_MAX)]
_Count = Annotated[int, Meta(ge=0, le=limits.INTEGER_MAX)]
_Text = Annotated[str, Meta(max_length=4096)]
_Port = Annotated[int, Meta(ge=1, le=65535)]
#: Of a page: a scheme, a host and a port, since others show it as a link.
_Page = Annotated[str, Meta(max_length=300, pattern=r"^(https?://[A-Za-z0-9._:\[\]-]+)?\Z")]


class Work(Struct, frozen=True, array_like=True):
    """How much a broker has to do for one service."""

    free: _Count
    busy: _Count
    backlog: _Count


class Slots(Struct, frozen=True, array_like=True):
    """Of all workers of a broker. A worker of several services counts once here, but in the work of each of them."""

    free: _Count
    busy: _Count


class Place(Struct, frozen=True, array_like=True):
    """Where a broker listens. What the config says about it applies from the broker's next start."""

    #: How others reach it; empty if that is as the config says.
    host: _Text
    frontend_port: _Port
    backend_port: _Port
    config_pub_port: _Port
    peer_port: _Port


class Beat(Struct, frozen=True, array_like=True, tag="beat"):
    """Sent to every peer once a second: I am alive, and this is my config, my work and my place."""

    version: _Count
    digest: _Text
    state: _Text
    work: Annotated[dict[_Name, Work], Meta(max_length=SERVICES_MAX)]
    #: Absent from brokers of an older version, as is the place.
    slots: Slots | None = None
    place: Place | None = None
    #: Empty if it has none that others can reach.
    dashboard: _Page = ""


class Config(Struct, frozen=True, array_like=True, tag="config"):
    """A message of `famulus.core.config.sync`."""

    data: Annotated[bytes, Meta(max_length=LETTER_BYTES_MAX)]


class Join(Struct, frozen=True, array_like=True, tag="join"):
    """A broker that is not known yet asks to be made known; `proof` shows that it has the secret."""

    value: dict[str, object]
    nonce: _Text
    proof: bytes


class Joined(Struct, frozen=True, array_like=True, tag="joined"):
    """It is known now. `root` is the network's root key; `proof` shows that the answerer has the secret, too.

    `secret` is the network's, for one that came with an invitation.
    """

    root: _Text
    nonce: _Text
    proof: bytes
    secret: _Text = ""

    def __repr__(self) -> str:
        return f"Joined({self.root!r})"


class Refused(Struct, frozen=True, array_like=True, tag="refused"):
    reason: _Text


Content = Beat | Config | Join | Joined | Refused


class Letter(Struct, frozen=True, array_like=True):
    network: _Text
    sender: _Name
    boot: _Count
    number: _Count
    content: Content


_decode = Decoder(Letter).decode
write: Final[Callable[[Letter], bytes]] = Encoder().encode


def read(data: bytes) -> Letter:
    """The letter that these bytes stand for, or a ProtocolError."""
    if len(data) > LETTER_BYTES_MAX:
        raise ProtocolError(reasons.TOO_LARGE, f"a letter has at most {LETTER_BYTES_MAX} bytes")
    try:
        return _decode(data)
    except (DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ProtocolError(reasons.BAD_FRAMES, f"not a letter ({error})"[: limits.REASON_CHARS_MAX]) from None
