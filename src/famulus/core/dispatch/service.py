"""One service as the dispatcher sees it: an opaque name, its free slots and its backlog."""

from __future__ import annotations

from famulus.core.clock import NEVER_NS, NS_PER_MS
from famulus.core.dispatch.backlog import Backlog
from famulus.core.dispatch.chooser import Chooser
from famulus.core.dispatch.latency import Latency
from famulus.core.dispatch.policies import chooser_of
from famulus.core.dispatch.service_time import ServiceTime
from famulus.wire.headers import answer_tail
from famulus.wire.inner import POLICIES, Terms


class Service:
    __slots__ = (
        "answer_tail",
        "backlog",
        "chooser",
        "declared",
        "delayed",
        "error",
        "expected_by_ns",
        "latency",
        "name",
        "ok",
        "policy",
        "rejected",
        "results_age_ns",
        "results_bytes_max",
        "results_max",
        "service_time",
        "sessions",
        "slots",
        "unknown",
    )

    def __init__(self, name: bytes) -> None:
        self.name = name
        #: How the header of a plain OK from one of its workers ends.
        self.answer_tail = answer_tail(name.decode())
        #: How its workers are chosen: a place in `POLICIES`. What routers say about its tasks decides.
        self.policy = 0
        self.chooser: Chooser = chooser_of(0)
        self.backlog = Backlog()
        #: What waits for its time: bounded like the backlog, and apart from it.
        self.delayed = Backlog()
        #: It is listed in the settings, and is never forgotten.
        self.declared = False
        #: How many workers offer it now.
        self.sessions = 0
        #: The slots, free or not, of the workers that may get its tasks; some may be slots of other services, too.
        self.slots = 0
        self.service_time = ServiceTime()
        #: How much is remembered of tasks with an id of their client's own, and how long: set by `remember`.
        self.results_max = self.results_bytes_max = self.results_age_ns = 0
        #: If nobody has offered it to this dispatcher yet: until when its workers may still be on their way back.
        self.expected_by_ns = NEVER_NS
        #: How its tasks ended, and how long those took that a worker answered.
        self.ok = 0
        self.error = 0
        self.rejected = 0
        self.unknown = 0
        self.latency = Latency()

    def remember(self, terms: Terms) -> None:
        """As a router says about a task with an id of its client's own, from now on."""
        self.results_max = terms.results_max
        self.results_bytes_max = terms.results_bytes_max
        self.results_age_ns = terms.results_age_ms * NS_PER_MS

    def choose_by(self, policy: int) -> None:
        """From now on; those who know its workers have to list them again."""
        self.policy = policy
        self.chooser = chooser_of(policy)
        self.service_time.show_all(POLICIES[policy] == "ewma")
