"""A router's process: questions in, decisions out. Decides nothing itself."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from dataclasses import replace
from time import monotonic_ns
from typing import Any

import msgspec

from famulus.broker.lifeline import Lifeline, serve
from famulus.broker.settings import Settings
from famulus.core.dispatch.questions import ROUTER_HEARTBEAT_NS
from famulus.core.routing.book import Book
from famulus.core.routing.router import Router
from famulus.net import sockets
from famulus.net.line import Change
from famulus.net.link import Link
from famulus.net.pump import recv_many, send_some
from famulus.net.waiting import Waiting
from famulus.wire import inner

BOOKS_MAX = 100
LOADS_MAX = 100


class RouterProcess:
    def __init__(self, settings: Settings, ipc: str, router_id: bytes, lifeline: Lifeline) -> None:
        self._id = router_id
        self._lifeline = lifeline
        self._make_id = message_ids()
        context = sockets.new_context()
        self._books: sockets.Socket | None = None
        book = settings.book()
        if settings.folder:
            # Until the steward has told us what applies, we let nobody in.
            book = replace(book, state="joining")
            self._books = sockets.inside_sub_connected(context, f"ipc://{ipc}/book")
        self._load = 0.0
        self._loads = sockets.inside_sub_connected(context, f"ipc://{ipc}/load")
        self._take(book)
        self._link = Link(context, f"ipc://{ipc}/task", sockets.inside_dealer(context, router_id))
        self._announcements = sockets.inside_pub(context, f"ipc://{ipc}/announcements")
        self._beat_ns = 0

    def _take(self, book: Book) -> None:
        self._book = book
        self._core = Router(book, self._make_id)
        self._core.load = self._load

    def _read_books(self) -> None:
        """The newest one counts. A steward that comes back may send one that is older than ours: that one is void."""
        for (data,) in recv_many(self._books, BOOKS_MAX) if self._books is not None else ():
            book = msgspec.msgpack.decode(data, type=Book)
            if book.epoch >= self._book.epoch and book != self._book:
                news = book.epoch > self._book.epoch
                self._take(book)
                if news:
                    self._announce()

    def _read_loads(self) -> None:
        for frames in recv_many(self._loads, LOADS_MAX):
            self._load = self._core.load = inner.read_load(frames)

    def run(self) -> None:
        waiting = Waiting()
        for source in (self._link.socket, self._link.monitor, self._loads, self._lifeline.fd):
            waiting.watch(source)
        if self._books is not None:
            waiting.watch(self._books)
        while True:
            ready = waiting.wait(self._beat_ns)
            self._read_books()
            self._read_loads()
            if self._lifeline.fd in ready and self._lifeline.commands() is None:
                return
            if self._link.monitor in ready and Change.UP in self._link.changes():
                self._link.send([[inner.write_batch([[inner.NO_NUMBER, inner.HELLO]])]])
            # What the link does not take is void: its dispatcher is gone, and the next one asks again.
            while batches := self._link.recv():
                decisions = [[inner.write_batch(self._core.decide(inner.read_batch(batch)))] for (batch,) in batches]
                self._link.send(decisions)
                self._beat()
            self._beat()

    def _beat(self) -> None:
        now_ns = monotonic_ns()
        if now_ns >= self._beat_ns:
            self._beat_ns = now_ns + ROUTER_HEARTBEAT_NS
            self._announce()
            self._lifeline.report(alive=True)

    def _announce(self) -> None:
        alive = inner.write_announcement(inner.ROUTER_ALIVE, self._book.epoch, self._id)
        send_some(self._announcements, [alive])


def message_ids() -> Callable[[], str]:
    """UUIDs (version 4), made quickly: they must be unique, not secret."""
    getrandbits = random.Random(secrets.randbits(256)).getrandbits

    def make() -> str:
        digits = f"{getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"

    return make


def _start(settings: Settings, facts: dict[str, Any], lifeline: Lifeline) -> None:
    process = RouterProcess(settings, facts["ipc"], facts["router_id"].encode(), lifeline)
    lifeline.report(ready=True)
    process.run()


if __name__ == "__main__":
    serve(_start)
