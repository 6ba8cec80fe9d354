"""Decides which workers are lost. Reads no clock and sets no timer per message.

LRU order is not expiry order, so this is a heap of its own. A message only notes when its sender was seen; the heap is
looked at when its first entry is due, and a session that was seen in the meantime goes back in with its new time.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from famulus.core.clock import NEVER_NS

if TYPE_CHECKING:
    from famulus.core.dispatch.session import Session


class Liveness:
    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Session]] = []
        self._entries = 0
        self._ended = 0

    def watch(self, session: Session) -> None:
        self._entries += 1  # breaks ties, since sessions have no order
        heappush(self._heap, (session.seen_ns + session.silence_ns, self._entries, session))

    def forget(self, session: Session) -> None:
        session.ended = True
        self._ended += 1
        # Workers that come and go must not leave a long heap behind them.
        if self._ended > 64 and 2 * self._ended > len(self._heap):
            self._heap = [entry for entry in self._heap if not entry[2].ended]
            heapify(self._heap)
            self._ended = 0

    def lost(self, now_ns: int) -> list[Session]:
        """Sessions that have been silent for too long; they are no longer watched."""
        lost = []
        while self._heap and self._heap[0][0] <= now_ns:
            session = heappop(self._heap)[2]
            if session.ended:
                continue
            if session.seen_ns + session.silence_ns <= now_ns:
                lost.append(session)
            else:
                self.watch(session)
        return lost

    def forgive(self, pause_ns: int) -> None:
        """We were asleep for this long ourselves, and could not hear anybody: it does not count as silence."""
        for _, _, session in self._heap:
            session.seen_ns += pause_ns

    @property
    def next_due_ns(self) -> int:
        return self._heap[0][0] if self._heap else NEVER_NS
