"""The beginning of a connection that speaks TLS: once both ends agree on keys, a viewer takes over.

Nobody has said anything yet, so nobody may cost much: a handshake that takes too long is given up, and when many are
under way, so is the oldest one.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final

from famulus.web.viewer import REQUEST_S, Viewer

HANDSHAKES_MAX: Final = 64
#: How long the other end may take to agree that it is over.
GOODBYE_S: Final = 1.0


class Handshakes:
    """Makes a protocol for each new connection, in the place of a viewer."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        #: Oldest first.
        self.under_way: dict[Handshake, None] = {}

    def __call__(self, **facts: Any) -> Handshake:
        return Handshake(self, lambda: Viewer(**facts))


class Handshake(asyncio.Protocol):
    def __init__(self, all_of_them: Handshakes, make_viewer: Callable[[], Viewer]) -> None:
        self._all = all_of_them
        self._make_viewer = make_viewer
        #: What was said right after the handshake, before the viewer was there.
        self._early = b""
        self._viewer: Viewer | None = None
        self._gone = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # What comes is for TLS, from the first byte on.
        transport.pause_reading()
        self._transport = transport
        self._all.under_way[self] = None
        if len(self._all.under_way) > HANDSHAKES_MAX:
            next(iter(self._all.under_way)).give_up()
        self._task = asyncio.get_running_loop().create_task(self._shake_hands())

    def give_up(self) -> None:
        self._all.under_way.pop(self, None)
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        if self._viewer is not None:
            # The news was on its way to us when the viewer took over.
            self._viewer.connection_lost(exc)

    async def _shake_hands(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            sealed = await loop.start_tls(
                self._transport,
                self,
                self._all.context,
                server_side=True,
                ssl_handshake_timeout=REQUEST_S,
                ssl_shutdown_timeout=GOODBYE_S,
            )
        except OSError:
            return  # it came without TLS, did not like our certificate, or left; `start_tls` has closed it
        finally:
            self._all.under_way.pop(self, None)
        if sealed is None or self._gone:
            return
        self._viewer = viewer = self._make_viewer()
        sealed.set_protocol(viewer)
        viewer.connection_made(sealed)
        if self._early:
            viewer.data_received(self._early)
