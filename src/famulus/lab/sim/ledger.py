"""What was asked, what ran, and how it ended, as an outside observer wrote it down. Tasks are known by their bodies."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from famulus.lab.sim.invariants import Invariant, demand


@dataclass(slots=True)
class Entry:
    service: str
    at_least_once: bool
    submitted_ns: int
    timeout_ns: int
    client: object
    outcomes: list[tuple[int, str, str]] = field(default_factory=list)
    runs: int = 0
    #: Something happened to its client or broker while it was open, so that silence is excused.
    disturbed: bool = False


class Ledger:
    def __init__(self) -> None:
        self.entries: dict[bytes, Entry] = {}
        #: Until then the broker as a whole is not itself, and new tasks are excused too.
        self.quiet_from_ns = 0
        #: Answers that tasks got from the broker or the client's own session, for the summary.
        self.outcomes: Counter[str] = Counter()

    def disturb(self, client: object = None, quiet_from_ns: int = 0) -> None:
        self.quiet_from_ns = max(self.quiet_from_ns, quiet_from_ns)
        for entry in self.entries.values():
            if not entry.outcomes and (client is None or entry.client is client):
                entry.disturbed = True

    def ran(self, body: bytes) -> None:
        demand(body in self.entries, Invariant.DELIVERY, "a worker was given a task that nobody has submitted")
        self.entries[body].runs += 1

    def ended(self, body: bytes, now_ns: int, outcome: str, reason: str) -> None:
        self.entries[body].outcomes.append((now_ns, outcome, reason))
        self.outcomes[outcome] += 1
