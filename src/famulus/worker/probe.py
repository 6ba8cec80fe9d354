"""A look at the preferred broker over a link of its own, while the worker serves another one. No CONNECT is sent."""

from __future__ import annotations

from famulus.core.session.homes import PROBE, proves_life
from famulus.net.link import Change, Link
from famulus.net.sockets import Context, outside_dealer
from famulus.net.waiting import Waiting


class Probe:
    def __init__(self, context: Context, waiting: Waiting, address: str) -> None:
        self._waiting = waiting
        self._link = Link(context, address, outside_dealer(context, heartbeats=False))
        waiting.watch(self._link.socket)
        waiting.watch(self._link.monitor)

    def answer(self) -> bool | None:
        """Whether it is there and takes workers; None: not known yet. To be asked whenever the link may have news."""
        if Change.UP in self._link.changes():
            self._link.send([PROBE])
        # Also after sending, which may swallow the news of an answer: until there is nothing more.
        answers: list[list[bytes]] = []
        while batch := self._link.recv():
            answers += batch
        return any(map(proves_life, answers)) if answers else None

    def close(self) -> None:
        self._waiting.forget(self._link.socket)
        self._waiting.forget(self._link.monitor)
        self._link.close()
