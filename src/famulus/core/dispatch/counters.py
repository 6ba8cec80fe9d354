"""What a dispatcher has counted since it started."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class Counters:
    accepted: int = 0
    #: How many of these needed no router, since their header was known.
    by_flow: int = 0
    #: Tasks that were asked for again by the client's own id: answered with how they ended, and not run again.
    repeated: int = 0
    #: Tasks handed over to another broker, since no slot was free here.
    delegated: int = 0
    ok: int = 0
    error: int = 0
    rejected: int = 0
    unknown: int = 0
    #: Answers to tasks that already had their outcome, or that nobody knows.
    late: int = 0
    #: At-least-once tasks that were given to a worker again.
    attempts_again: int = 0
    #: Sends that the listener refused: the worker, or the client, was gone.
    refused_by_worker: int = 0
    refused_by_client: int = 0
    #: Messages that broke the protocol, and those that were dropped unread because their sender is ignored.
    faults: int = 0
    ignored: int = 0
    #: Questions that a lost router left behind, and decisions about questions that had already been decided.
    asked_again: int = 0
    stale_decisions: int = 0
    workers_lost: int = 0

    @property
    def finished(self) -> int:
        return self.ok + self.error + self.rejected + self.unknown

    def as_dict(self) -> dict[str, int]:
        return asdict(self)
