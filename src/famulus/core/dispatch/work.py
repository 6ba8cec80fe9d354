"""How much there is to do at this moment, and who is there to do it."""

from __future__ import annotations

from famulus.core.dispatch.services import Services
from famulus.core.dispatch.sessions import Sessions
from famulus.wire.inner import Work


def work_of(services: Services, sessions: Sessions) -> Work:
    slots: dict[bytes, list[int]] = {name: [0, 0] for name in services.by_name}
    for session in sessions.by_peer.values():
        if session.ready:
            for service in session.services:
                counts = slots[service.name]
                counts[0] += session.free
                counts[1] += session.slots - session.free
    return {
        name.decode(): (slots[name][0], slots[name][1], service.backlog.tasks)
        for name, service in services.by_name.items()
    }


def slots_of(sessions: Sessions) -> tuple[int, int]:
    """Free and busy ones, each once: a worker of several services is in the work of each of them."""
    all_of_them = sessions.by_peer.values()
    free = sum([session.free for session in all_of_them if session.ready])
    return free, sum([session.slots - session.free for session in all_of_them])
