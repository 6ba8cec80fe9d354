"""How a connection with keys begins. To be imported only where there are keys: loading libsodium takes a while.

The native module seals and opens by the libsodium that PyNaCl brings, so that nobody needs another one to build it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Generator
from time import monotonic_ns

from nacl import _sodium

from famulus.core.access import NO_KEY, UNKNOWN_KEY
from famulus.net import native
from famulus.net.arrival import Arrival
from famulus.net.handshake_rate import HandshakeRate
from famulus.net.opening import Begin
from famulus.wire import curve, reasons, zmtp
from famulus.wire.curve import CurveKey as CurveKey
from famulus.wire.curve import Seal
from famulus.wire.zmtp import Step


def _use_sodium() -> None:
    from famulus.net import _pump

    library = ctypes.CDLL(_sodium.__file__)
    functions = library.crypto_box_detached_afternm, library.crypto_box_open_detached_afternm
    box, opened = (ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions)
    _pump.use_sodium(box, opened)


if native.NATIVE:
    _use_sodium()


def new_pair() -> CurveKey:
    return CurveKey(os.urandom(curve.KEY_BYTES))


def to_server(own: CurveKey, server: bytes) -> Begin:
    """How a line begins that goes to the one with this lasting key."""
    return lambda kind: curve.client_opening(kind, own, server, os.urandom)


class KeyAuthenticator:
    """Lets those in whose keys it was told, and those without a key if it was told to: nobody before that."""

    def __init__(
        self,
        own: CurveKey,
        *others: CurveKey,
        plain_from_afar: bool = False,
        random: curve.Random = os.urandom,
    ) -> None:
        """`others`: further keys of ours, by which somebody may know us.

        `plain_from_afar`: whether those without a key may come from other machines as well.
        """
        self._random = random
        self.own = own
        self._owns = (own, *others)
        self._plain_from_afar = plain_from_afar
        self._rate = HandshakeRate()
        self.plain_ok = False
        #: What those without a key are called, if the owner wants to hear that they have come.
        self.plain_name = ""
        #: The names of principals, by their lasting keys.
        self.known: dict[bytes, str] = {}

    def begin(self, kind: bytes, arrival: Arrival) -> Generator[Step, bytes, Seal | None]:
        mechanism = yield from zmtp.heard_greeting()
        if mechanism == zmtp.NULL and self.plain_ok and (arrival.is_near or self._plain_from_afar):
            yield from zmtp.null_answer(kind)
            arrival.principal = self.plain_name
            return None
        if mechanism != curve.CURVE:
            raise zmtp.Unwelcome(NO_KEY, "it has no key")
        now_ns = monotonic_ns()
        turn_ns = self._rate.turn_ns(arrival.host, now_ns)
        if turn_ns is None:
            raise zmtp.Unwelcome(reasons.OVERLOAD.encode(), "too many of them come from there")
        if turn_ns > now_ns:
            arrival.turn_ns = turn_ns
            yield b"", zmtp.LATER

        def admit(key: bytes) -> bool:
            principal = self.known.get(key)
            if principal is None:
                raise zmtp.Unwelcome(UNKNOWN_KEY, "nobody here knows its key", key)
            arrival.principal = principal
            arrival.key = key
            return True

        return (yield from curve.server_opening(kind, self._owns, admit, self._random))
