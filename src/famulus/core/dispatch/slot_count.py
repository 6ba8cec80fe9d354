"""How many slots are free and busy: of all workers, and by service.

A broker may have ten thousand workers, and counting them all takes as long as thousands of tasks. So whoever counts may
do it bit by bit. What changes meanwhile is counted as it was or as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from famulus.core.dispatch.service import Service
    from famulus.core.dispatch.session import Session
    from famulus.wire.inner import Work


class SlotCount:
    def __init__(self, sessions: Iterable[Session]) -> None:
        self._sessions = list(sessions)
        self._counted = 0
        #: Each worker counts once.
        self.free = self.busy = 0
        #: A worker of several services counts for each of them.
        self._by_service: dict[bytes, list[int]] = {}

    def go_on(self, workers: int) -> bool:
        """Count so many more; True when that was all."""
        begin = self._counted
        self._counted = end = begin + workers
        by_service = self._by_service
        for session in self._sessions[begin:end]:
            free, busy = session.free, session.slots - session.free
            self.busy += busy
            if not session.ready:
                continue
            self.free += free
            for service in session.services:
                counts = by_service.get(service.name)
                if counts is None:
                    by_service[service.name] = [free, busy]
                else:
                    counts[0] += free
                    counts[1] += busy
        return end >= len(self._sessions)

    def all(self) -> SlotCount:
        self.go_on(len(self._sessions))
        return self

    def work(self, services: dict[bytes, Service]) -> Work:
        """By service: free slots, busy slots, and waiting tasks."""
        none = [0, 0]
        found: Work = {}
        for name, service in services.items():
            counts = self._by_service.get(name, none)
            found[name.decode()] = (counts[0], counts[1], service.backlog.tasks)
        return found
