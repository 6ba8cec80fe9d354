"""The stream of events to all viewers: server-sent events, which browsers understand by themselves."""

from __future__ import annotations

import asyncio
import time
from time import monotonic_ns

import msgspec
from starlette.types import Receive, Scope, Send

from famulus.web.status.board import Board

VIEWERS_MAX = 256
#: How many events may wait for one viewer; one that is further behind is dropped, and reconnects by itself.
WAITING_MAX = 4
#: How many of each are in one event; the whole lists are under /api/v1.
EVENT_SERVICES_MAX = 200
EVENT_WORKERS_MAX = 200
#: How soon a browser reconnects after it lost the connection.
RETRY_MS = 1000
#: A viewer that takes nothing for this long is dropped.
SEND_S = 10.0

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class EventViewer:
    """One stream of events."""

    def __init__(self) -> None:
        #: None ends the stream.
        self.waiting: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING_MAX)
        self.dropped = False

    def drop(self) -> None:
        """Wakes up whoever waits for an event; if the queue is full, nobody is waiting."""
        self.dropped = True
        if not self.waiting.full():
            self.waiting.put_nowait(None)


class Events:
    """An ASGI application."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self.viewers: set[EventViewer] = set()
        self._event = b""
        self._number = 0

    def tell(self, now_ns: int, now_ms: int) -> None:
        """Sends the status to all viewers: once a second, and when there is urgent news."""
        if not self.viewers:
            self._event = b""
            return
        self._event = self._make_event(now_ns, now_ms)
        for viewer in list(self.viewers):
            if viewer.waiting.full():
                viewer.drop()
                self.viewers.discard(viewer)
            else:
                viewer.waiting.put_nowait(self._event)

    def welcome(self) -> EventViewer | None:
        """A new viewer, which need not wait for the next second; None if there are too many."""
        if len(self.viewers) >= VIEWERS_MAX:
            return None
        viewer = EventViewer()
        if not self._event:
            self._event = self._make_event(monotonic_ns(), int(time.time() * 1000))
        viewer.waiting.put_nowait(self._event)
        self.viewers.add(viewer)
        return viewer

    def close(self) -> None:
        for viewer in self.viewers:
            viewer.drop()
        self.viewers.clear()

    def _make_event(self, now_ns: int, now_ms: int) -> bytes:
        self._number += 1
        status = self._board.status(now_ns, now_ms)
        busiest = sorted(status.services, key=lambda service: -(service.rate_s + service.backlog + service.busy))
        shown = {service.name for service in busiest[:EVENT_SERVICES_MAX]}
        status = msgspec.structs.replace(
            status,
            services=tuple(service for service in status.services if service.name in shown),
            workers=status.workers[:EVENT_WORKERS_MAX],
        )
        return b"id: %d\nevent: status\ndata: %b\n\n" % (self._number, msgspec.json.encode(status))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        viewer = self.welcome() if scope["method"] == "GET" else None
        if viewer is None:
            code = 503 if scope["method"] == "GET" else 200
            body = b"too many viewers; come back later\n" if code == 503 else b""
            await send({"type": "http.response.start", "status": code, "headers": [(b"retry-after", b"10")]})
            await send({"type": "http.response.body", "body": body})
            return
        gone = asyncio.ensure_future(_drop_if_gone(receive, viewer))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await send({"type": "http.response.body", "body": b"retry: %d\n\n" % RETRY_MS, "more_body": True})
            while not viewer.dropped and (data := await viewer.waiting.get()) is not None:
                await asyncio.wait_for(send({"type": "http.response.body", "body": data, "more_body": True}), SEND_S)
            await asyncio.wait_for(send({"type": "http.response.body", "body": b""}), SEND_S)
        except TimeoutError:
            pass  # the server closes the connection, since the answer is not complete
        finally:
            self.viewers.discard(viewer)
            gone.cancel()


async def _drop_if_gone(receive: Receive, viewer: EventViewer) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    viewer.drop()
