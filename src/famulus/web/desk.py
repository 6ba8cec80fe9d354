"""Where viewers are served from: each answer is made once a second at most, however many ask for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from time import monotonic_ns

import msgspec

from famulus.core.clock import NS_PER_MS
from famulus.web.status import views
from famulus.web.status.board import Board

VIEWERS_MAX = 256
#: Events that may wait for one viewer; one that is further behind is let go, and comes back by itself.
WAITING_MAX = 4
#: Of one event; the whole lists are under /api/v1.
EVENT_SERVICES_MAX = 200
EVENT_WORKERS_MAX = 200

#: How long an answer is kept.
KEPT_NS = 500 * NS_PER_MS
KEPT_MAX = 64

_encode = msgspec.json.Encoder().encode


class Viewer:
    """One stream of events."""

    def __init__(self) -> None:
        #: None ends the stream.
        self.waiting: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING_MAX)
        self.dropped = False


class Desk:
    def __init__(self, board: Board) -> None:
        self.board = board
        self.viewers: set[Viewer] = set()
        self._kept: dict[str, tuple[int, bytes]] = {}
        self._event = b""
        self._number = 0

    # -- answers ------------------------------------------------------------------------------------------------

    def status(self) -> views.Status:
        return self.board.status(monotonic_ns(), int(time.time() * 1000))

    def answer(self, name: str, make: Callable[[], object]) -> bytes:
        """What `make` gives, as JSON, or as it is if it is bytes already."""
        now_ns = monotonic_ns()
        kept = self._kept.get(name)
        if kept is not None and now_ns < kept[0] + KEPT_NS:
            return kept[1]
        made = make()
        data = made if isinstance(made, bytes) else _encode(made)
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[name] = (now_ns, data)
        return data

    # -- events -------------------------------------------------------------------------------------------------

    def tell(self, now_ns: int, now_ms: int) -> None:
        """Once a second, to all who watch."""
        if not self.viewers:
            self._event = b""
            return
        self._event = self._make_event(now_ns, now_ms)
        for viewer in list(self.viewers):
            if viewer.waiting.full():
                viewer.dropped = True
                self.viewers.discard(viewer)
            else:
                viewer.waiting.put_nowait(self._event)

    def welcome(self) -> Viewer | None:
        """A new viewer, who need not wait for the next second; None if there are too many."""
        if len(self.viewers) >= VIEWERS_MAX:
            return None
        viewer = Viewer()
        if not self._event:
            self._event = self._make_event(monotonic_ns(), int(time.time() * 1000))
        viewer.waiting.put_nowait(self._event)
        self.viewers.add(viewer)
        return viewer

    def close(self) -> None:
        for viewer in self.viewers:
            viewer.dropped = True
            if not viewer.waiting.full():
                viewer.waiting.put_nowait(None)
        self.viewers.clear()

    def _make_event(self, now_ns: int, now_ms: int) -> bytes:
        self._number += 1
        status = self.board.status(now_ns, now_ms)
        busiest = sorted(status.services, key=lambda service: -(service.rate_s + service.backlog + service.busy))
        shown = {service.name for service in busiest[:EVENT_SERVICES_MAX]}
        status = msgspec.structs.replace(
            status,
            services=tuple(service for service in status.services if service.name in shown),
            workers=status.workers[:EVENT_WORKERS_MAX],
        )
        return b"id: %d\nevent: status\ndata: %b\n\n" % (self._number, _encode(status))
