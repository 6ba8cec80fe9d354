"""Decides which services a broker knows: those that are declared, offered by a worker or another broker, or expected.

Until `settled_at_ns`, tasks of unknown services may wait: a predecessor's workers are on their way back.
"""

from __future__ import annotations

from famulus.core.clock import NEVER_NS
from famulus.core.dispatch.delegates import Delegates
from famulus.core.dispatch.flows import Flows
from famulus.core.dispatch.service import Service
from famulus.core.timers import TICK_NS


class Services:
    def __init__(self, services_max: int, flows: Flows, delegates: Delegates, settled_at_ns: int) -> None:
        self._services_max = services_max
        self._flows = flows
        self._delegates = delegates
        self.settled_at_ns = settled_at_ns
        self.by_name: dict[bytes, Service] = {}

    def declare(self, names: list[bytes]) -> None:
        """They are listed in the settings, and are never forgotten."""
        for name in names:
            self.by_name[name] = service = Service(name)
            service.declared = True

    def offer(self, names: list[bytes]) -> list[Service] | None:
        """The services with these names, created where they are new; None if that would be too many."""
        new = [name for name in names if name not in self.by_name]
        if len(self.by_name) + len(new) > self._services_max:
            self._forget(len(new))
        if len(self.by_name) + len(new) > self._services_max:
            return None
        for name in new:
            self.by_name[name] = Service(name)
        services = [self.by_name[name] for name in names]
        for service in services:
            service.expected_by_ns = NEVER_NS
        return services

    def find(self, name: bytes, now_ns: int) -> Service | None:
        """One offered by a worker here or by another broker, or one whose workers may be on their way."""
        service = self.by_name.get(name)
        if service is not None and service.expected_by_ns > now_ns:
            return service
        if self._delegates.offers(name):
            offered = self.offer([name])
            return offered[0] if offered else None
        return self._expect(name) if now_ns < self.settled_at_ns else None

    def _expect(self, name: bytes) -> Service | None:
        """A service that nobody has offered yet; None if there are too many."""
        if len(self.by_name) >= self._services_max:
            return None
        service = self.by_name[name] = Service(name)
        service.expected_by_ns = self.settled_at_ns
        return service

    def _forget(self, count: int) -> None:
        """Make room for this many: forget services that nobody offers and nobody waits for, oldest first."""
        idle = [
            service
            for service in self.by_name.values()
            if not (service.declared or service.sessions or service.backlog.tasks or service.delayed.tasks)
        ]
        for service in idle[:count]:
            del self.by_name[service.name]
        if idle:
            # A flow refers to its service, and must not outlive it.
            self._flows.clear()

    def look_at_others(self) -> None:
        """Tasks need not wait for our own workers to come back if another broker has some."""
        for service in self.by_name.values() if self.settled_at_ns else ():
            if service.expected_by_ns < NEVER_NS and self._delegates.offers(service.name):
                service.expected_by_ns = NEVER_NS

    def on_tick(self, now_ns: int) -> None:
        """Workers that have not come back by now are gone, and their services are unknown again."""
        if self.settled_at_ns and now_ns > self.settled_at_ns + TICK_NS:
            self.settled_at_ns = 0
            for service in list(self.by_name.values()):
                if service.expected_by_ns < NEVER_NS and not service.backlog.tasks:
                    del self.by_name[service.name]

    @property
    def next_due_ns(self) -> int:
        return self.settled_at_ns + 2 * TICK_NS if self.settled_at_ns else NEVER_NS
