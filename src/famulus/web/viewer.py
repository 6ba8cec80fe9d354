"""One connection to the HTTP port, and what becomes of those that are silent.

A viewer needs a moment for its request, and a browser keeps connections for the next one. But whoever holds many
connections without requests would keep everybody else out, even those who ask whether the broker is healthy. So a
connection that does not send a whole request in time is closed, and when many are silent, the one that has been silent
for longest is closed, too.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

log = logging.getLogger("famulus.broker")

#: Including streams of events. Beyond that, requests are told to come again.
CONNECTIONS_MAX: Final = 256
#: How many of these may have no request under way.
SILENT_MAX: Final = 128
#: The time for a whole request, from the connection or from its first byte on.
REQUEST_S: Final = 5.0
#: The time between two complaints of the same kind.
COMPLAIN_S: Final = 30.0


class Viewer(H11Protocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_request()
        silent = [each for each in self.connections if isinstance(each, Viewer) and each.is_silent]
        if len(silent) > SILENT_MAX:
            min(silent, key=lambda each: each.silent_since).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.timeout_keep_alive_task is not None:
            self._wait_for_request()  # the next one begins
        super().data_received(data)

    @property
    def is_silent(self) -> bool:
        """It has not sent a whole request yet, or has its answer."""
        cycle: RequestResponseCycle | None = self.cycle
        waits = cycle is None or cycle.response_complete or cycle.more_body
        return waits and not self.transport.is_closing()

    def _wait_for_request(self) -> None:
        self.silent_since = monotonic()
        if hasattr(self, "_timer"):
            self._timer.cancel()
        self._timer: asyncio.TimerHandle = self.loop.call_later(REQUEST_S, self._give_up)

    def _give_up(self) -> None:
        # One that has its answer and may send another request has a time limit of its own.
        if self.is_silent and self.timeout_keep_alive_task is None:
            self.transport.abort()


class Complaints:
    """Logs what goes wrong in the event loop, in one line, and not again and again."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        message, error = str(context.get("message", "")), context.get("exception")
        if monotonic() < self._said.get(message, 0.0):
            return
        if len(self._said) > 100:
            self._said.clear()
        self._said[message] = monotonic() + COMPLAIN_S
        why = f" ({error})" if isinstance(error, OSError) else ""
        unforeseen = error is not None and not isinstance(error, OSError)
        log.error("the HTTP port: %s%s", message, why, exc_info=error if unforeseen else None)
