"""One service as the dispatcher sees it: an opaque name, its free slots and its backlog."""

from __future__ import annotations

from famulus.core.clock import NEVER_NS
from famulus.core.dispatch.backlog import Backlog
from famulus.core.dispatch.latency import Latency
from famulus.core.dispatch.lru import LRU
from famulus.core.dispatch.service_time import ServiceTime
from famulus.wire.headers import answer_tail


class Service:
    __slots__ = (
        "answer_tail",
        "backlog",
        "declared",
        "error",
        "expected_by_ns",
        "latency",
        "lru",
        "name",
        "ok",
        "rejected",
        "service_time",
        "sessions",
        "slots",
        "unknown",
    )

    def __init__(self, name: bytes) -> None:
        self.name = name
        #: How the header of a plain OK from one of its workers ends.
        self.answer_tail = answer_tail(name.decode())
        self.lru = LRU()
        self.backlog = Backlog()
        #: It is listed in the settings, and is never forgotten.
        self.declared = False
        #: How many workers offer it now.
        self.sessions = 0
        #: The slots, free or not, of the workers that may get its tasks; some may be slots of other services, too.
        self.slots = 0
        self.service_time = ServiceTime()
        #: If nobody has offered it to this dispatcher yet: until when its workers may still be on their way back.
        self.expected_by_ns = NEVER_NS
        #: How its tasks ended, and how long those took that a worker answered.
        self.ok = 0
        self.error = 0
        self.rejected = 0
        self.unknown = 0
        self.latency = Latency()
