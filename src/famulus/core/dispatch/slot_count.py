"""How many slots are free and busy: of all workers, and by service.

A broker may have ten thousand workers, and counting them all takes as long as thousands of tasks. So whoever counts may
do it bit by bit. What changes meanwhile is counted as it was or as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from famulus.core.dispatch.service import Service
    from famulus.core.dispatch.session import Session
    from famulus.wire.inner import Work


class SlotCount:
    def __init__(self, sessions: list[Session], services: list[Service]) -> None:
        self._sessions = sessions
        self._services = services
        self._counted = 0
        #: Each worker counts once.
        self.free = self.busy = 0
        #: A worker of several services counts for each of them.
        self._by_service: dict[bytes, list[int]] = {}
        #: By service: free slots, busy slots, and waiting tasks.
        self.work: Work = {}

    def go_on(self, most: int) -> bool:
        """Count so many more workers or services; True when those were all."""
        begin = self._counted
        self._counted = end = begin + most
        workers = len(self._sessions)
        if begin < workers:
            self._count_workers(self._sessions[begin:end])
        if end > workers:
            self._count_services(self._services[max(0, begin - workers) : end - workers])
        return end >= workers + len(self._services)

    def all(self) -> SlotCount:
        self.go_on(len(self._sessions) + len(self._services))
        return self

    def _count_workers(self, sessions: list[Session]) -> None:
        by_service = self._by_service
        for session in sessions:
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

    def _count_services(self, services: list[Service]) -> None:
        none = [0, 0]
        for service in services:
            counts = self._by_service.get(service.name, none)
            self.work[service.name.decode()] = (counts[0], counts[1], service.backlog.tasks)
