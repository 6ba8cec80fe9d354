"""A look at the preferred broker over a line of its own, while the worker serves another one. No CONNECT is sent."""

from __future__ import annotations

from famulus.core.session.homes import PROBE, proves_life
from famulus.net.line import Change, Line
from famulus.net.waiting import Waiting


class Probe:
    def __init__(self, waiting: Waiting, address: str) -> None:
        self._waiting = waiting
        self._line = Line(address, asks=False)
        waiting.watch(self._line.fd)

    @property
    def due_ns(self) -> int:
        return self._line.due_ns

    def answer(self, now_ns: int) -> bool | None:
        """Whether it is there and takes workers; None: not known yet. To be asked whenever the line may have news."""
        answers = self._line.recv()
        if Change.UP in self._line.follow(now_ns):
            self._line.send([PROBE])
        return any(map(proves_life, answers)) if answers else None

    def abandon(self) -> None:
        """In a child that was forked: the line is the parent's."""
        self._line.abandon()

    def close(self) -> None:
        self._waiting.forget(self._line.fd)
        self._line.close()
