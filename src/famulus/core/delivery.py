"""The laws of delivery, per service.

| outcome  | law                                                                                     |
|----------|-----------------------------------------------------------------------------------------|
| OK       | it ran at least once; exactly once where the service is at-most-once                    |
| ERROR    | a worker answered so; the network never tries again                                     |
| REJECTED | it provably did not run: trying again is safe                                           |
| UNKNOWN  | it may have run; an at-most-once task ran 0 or 1 times and will not be run again        |
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from famulus.core.objective import Objective
from famulus.wire import limits
from famulus.wire.inner import POLICIES, Terms

Outcome = Literal["OK", "ERROR", "REJECTED", "UNKNOWN"]
Abandon = Literal["finish", "cancel"]
Policy = Literal["lru", "least_busy", "ewma", "key"]
OUTCOMES: tuple[Outcome, ...] = ("OK", "ERROR", "REJECTED", "UNKNOWN")

#: Where only these words can be said.
CHOICES = {
    "delivery": "at_most_once or at_least_once",
    "policy": "lru, least_busy, ewma or key",
    "abandon": "finish or cancel",
}


class ServicePolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """What may be said about a service in the settings; every field has a default."""

    delivery: Literal["at_most_once", "at_least_once"] = "at_most_once"
    #: The default and the largest time-out of a task.
    timeout_ms: Annotated[int, Meta(ge=1, le=limits.TIMEOUT_MS_MAX)] = 60_000
    #: How often an at-least-once task is given to a worker before it ends as UNKNOWN.
    max_attempts: Annotated[int, Meta(ge=1, le=limits.ATTEMPTS_MAX)] = 3
    backlog_tasks_max: Annotated[int, Meta(ge=0, le=10_000_000)] = 10_000
    backlog_bytes_max: Annotated[int, Meta(ge=0, le=1 << 40)] = 64 * 1024 * 1024
    #: How long a task may wait for a slot, however long its time-out is.
    backlog_age_ms: Annotated[int, Meta(ge=1, le=limits.TIMEOUT_MS_MAX)] = 30_000
    #: How many outcomes of tasks whose message_id the client chose are kept for those who ask again, and how long.
    results_max: Annotated[int, Meta(ge=0, le=100_000_000)] = 10_000
    results_bytes_max: Annotated[int, Meta(ge=0, le=1 << 40)] = 64 * 1024 * 1024
    results_age_ms: Annotated[int, Meta(ge=1, le=limits.TIMEOUT_MS_MAX)] = 120_000
    #: Which of the workers with a free slot gets a task; see docs/decisions/choosing-the-worker.md.
    policy: Policy = "lru"
    #: What becomes of a task when the connection of its client is lost.
    abandon: Abandon = "finish"

    def terms(self, timeout_ms: int | None, priority: int, credit: int = 0) -> Terms:
        """What applies to a task of this service whose client asked for that."""
        return Terms(
            timeout_ms=self.timeout_ms if timeout_ms is None else min(timeout_ms, self.timeout_ms),
            priority=priority,
            at_least_once=self.delivery == "at_least_once",
            attempts_max=self.max_attempts,
            backlog_tasks_max=self.backlog_tasks_max,
            backlog_bytes_max=self.backlog_bytes_max,
            backlog_age_ms=self.backlog_age_ms,
            policy=POLICIES.index(self.policy),
            results_max=self.results_max,
            results_bytes_max=self.results_bytes_max,
            results_age_ms=self.results_age_ms,
            abandoned_is_cancelled=self.abandon == "cancel",
            credit=credit,
        )


class DeclaredService(ServicePolicy, frozen=True, forbid_unknown_fields=True):
    """What may be said about one service by its name, and not about all that have no settings of their own."""

    #: What share of its tasks should end OK.
    objective: Objective | None = None

    def rules(self) -> ServicePolicy:
        return ServicePolicy(**{name: getattr(self, name) for name in ServicePolicy.__struct_fields__})
