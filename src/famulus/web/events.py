"""The stream of events, to one viewer: server-sent events, as browsers read them by themselves."""

from __future__ import annotations

import asyncio

from starlette.types import Receive, Scope, Send

from famulus.web.desk import Desk

#: How soon a browser comes back after a loss.
RETRY_MS = 1000
#: A viewer that takes nothing for this long is let go.
SEND_S = 10.0

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class Events:
    """An ASGI application."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        viewer = self._desk.welcome() if scope["method"] == "GET" else None
        if viewer is None:
            code = 503 if scope["method"] == "GET" else 200
            body = b"too many viewers; come back later\n" if code == 503 else b""
            await send({"type": "http.response.start", "status": code, "headers": [(b"retry-after", b"10")]})
            await send({"type": "http.response.body", "body": body})
            return
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await send({"type": "http.response.body", "body": b"retry: %d\n\n" % RETRY_MS, "more_body": True})
            while not viewer.dropped and not gone.done():
                event = asyncio.ensure_future(viewer.waiting.get())
                await asyncio.wait({event, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not event.done():
                    event.cancel()
                    break
                data = event.result()
                if data is None:
                    break
                await asyncio.wait_for(send({"type": "http.response.body", "body": data, "more_body": True}), SEND_S)
            await asyncio.wait_for(send({"type": "http.response.body", "body": b""}), SEND_S)
        except TimeoutError:
            pass  # the connection is closed, since the answer has no end
        finally:
            self._desk.viewers.discard(viewer)
            gone.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
