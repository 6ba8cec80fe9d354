"""What was asked, what ran, and how it ended, as an outside observer wrote it down. Tasks are known by their bodies."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from famulus.core.clock import NS_PER_MS
from famulus.core.dispatch.cancels import ANSWER_NS
from famulus.core.session.client import GRACE_NS
from famulus.core.timers import TICK_NS
from famulus.lab.sim.invariants import Invariant, demand
from famulus.lab.sim.tasks.access import Access
from famulus.lab.sim.tasks.holders import ANYBODY, Holder
from famulus.wire import reasons

#: How late a broker that keeps its word may be, and a client that was woken by its timer.
PROMPT_NS = 200 * NS_PER_MS
SLACK_NS = 50 * NS_PER_MS


@dataclass(slots=True)
class LedgerEntry:
    service: str
    at_least_once: bool
    submitted_ns: int
    timeout_ns: int
    client: object
    outcomes: list[tuple[int, str, str]] = field(default_factory=list)
    runs: int = 0
    #: Something happened to its client or broker while it was open, so that silence is excused.
    disturbed: bool = False
    #: For how long its client was stopped while it was open.
    stopped_ns: int = 0
    #: When its client gave it up, if it was open then; and whether the service cancels what its client leaves behind.
    cancelled_ns: int = 0
    is_abandoned: bool = False
    #: How many parts its client reads at first, if it wants a stream.
    credit: int = 0
    #: Whose client it is.
    holder: Holder = ANYBODY
    #: For how long nobody may have it.
    delay_ns: int = 0

    def check(self, body: bytes, *, client_survived: bool) -> None:
        """The laws of delivery, as seen from outside."""
        name = f"task {body!r} of {self.service}"
        demand(len(self.outcomes) <= 1, Invariant.OUTCOMES, f"{name} has {len(self.outcomes)} outcomes")
        once = self.at_least_once or self.runs <= 1
        demand(once, Invariant.DELIVERY, f"{name} is at-most-once and ran {self.runs} times")
        if not self.outcomes:
            demand(not client_survived, Invariant.OUTCOMES, f"{name} has no outcome")
            return
        ended_ns, outcome, reason = self.outcomes[0]
        demand(outcome != "OK" or self.runs >= 1, Invariant.DELIVERY, f"{name} is OK and never ran")
        ran = self.runs > 0
        demand(outcome != "REJECTED" or not ran, Invariant.DELIVERY, f"{name} was rejected ({reason}) and ran")
        self._check_cancel(name, ended_ns, reason)
        self._check_time(name, ended_ns - self.submitted_ns)

    def _check_cancel(self, name: str, ended_ns: int, reason: str) -> None:
        wanted = reasons.code_of(reason) != reasons.CANCELLED or self.cancelled_ns > 0 or self.is_abandoned
        demand(wanted, Invariant.CANCELS, f"{name} was cancelled ({reason}), and its client still wanted it")
        if self.cancelled_ns and not self.disturbed:
            took_ns = ended_ns - self.cancelled_ns
            what = f"{name} ended {took_ns / NS_PER_MS:.0f} ms after it was cancelled, by a quiet broker and client"
            demand(took_ns <= ANSWER_NS + TICK_NS + PROMPT_NS, Invariant.CANCELS, what)

    def _check_time(self, name: str, took_ns: int) -> None:
        """Whatever died, a client that lives has its outcome by the deadline plus grace; much sooner if undisturbed."""
        took = f"{name} ended {took_ns / NS_PER_MS:.0f} ms after its submission"
        by_ns = self.delay_ns + self.timeout_ns + GRACE_NS + TICK_NS + SLACK_NS + self.stopped_ns
        in_time = took_ns <= by_ns
        had = f"a delay of {self.delay_ns / NS_PER_MS:.0f} ms and a time-out of {self.timeout_ns / NS_PER_MS:.0f} ms"
        demand(in_time, Invariant.OUTCOMES, f"{took}, with {had}")
        # A tick for each of the two, since the time-out begins when the delay is over.
        prompt = self.disturbed or took_ns <= self.delay_ns + self.timeout_ns + 2 * TICK_NS + PROMPT_NS
        demand(prompt, Invariant.PROMPTNESS, f"{took}, by a quiet broker and client")


class Ledger:
    def __init__(self, access: Access | None = None) -> None:
        """`access`: if there are principals."""
        self._access = access
        self.entries: dict[bytes, LedgerEntry] = {}
        #: Until then the brokers as a whole are disturbed, and new tasks are excused too.
        self.quiet_from_ns = 0
        #: Answers that tasks got from the broker or the client's own session, for the summary.
        self.outcomes: Counter[str] = Counter()

    def disturb(self, client: object = None, *, quiet_from_ns: int = 0, stopped_ns: int = 0) -> None:
        self.quiet_from_ns = max(self.quiet_from_ns, quiet_from_ns)
        for entry in self.entries.values():
            if not entry.outcomes and (client is None or entry.client is client):
                entry.disturbed = True
                entry.stopped_ns += stopped_ns

    def cancel(self, body: bytes, now_ns: int) -> None:
        """Its client does not want it any more."""
        entry = self.entries[body]
        entry.cancelled_ns = entry.cancelled_ns or now_ns

    def ran(self, body: bytes, now_ns: int) -> None:
        demand(body in self.entries, Invariant.DELIVERY, "a worker was given a task that nobody has submitted")
        entry = self.entries[body]
        entry.runs += 1
        early_ns = entry.submitted_ns + entry.delay_ns - now_ns
        what = f"task {body!r} of {entry.service} ran {early_ns / NS_PER_MS:.0f} ms before its time"
        demand(early_ns <= 0, Invariant.DELAYS, what)

    def ended(self, body: bytes, now_ns: int, outcome: str, reason: str, shown: set[bytes]) -> None:
        """`shown`: the keys that its client may have sent it with."""
        entry = self.entries[body]
        entry.outcomes.append((now_ns, outcome, reason))
        if self._access is not None and reasons.code_of(reason) == reasons.NOT_ALLOWED:
            self._access.check_refused(entry.holder, entry.service, entry.submitted_ns, shown)
        self.outcomes[outcome] += 1
