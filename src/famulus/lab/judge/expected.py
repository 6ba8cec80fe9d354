"""What the findings must say of each truth that was planted. Knows no journal and no tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

Facts = Mapping[str, Any]


#: So many of a service's tasks must be bad for its error budget to burn too fast.
ALARM_BAD_MIN: Final = 10


class Named(NamedTuple):
    """A finding, by what it is about."""

    kind: str
    subject: str


def _bad_worker(facts: Facts) -> set[Named]:
    return {Named("bad_worker", f"{facts['worker']} {facts['service']}")}


def _error_burst(facts: Facts) -> set[Named]:
    """In a quiet hour so few tasks are bad that there is no alarm, as docs/tables.md says."""
    service = facts["service"]
    burning = {Named("budget_burning", service)} if facts.get("bad", ALARM_BAD_MIN) >= ALARM_BAD_MIN else set()
    return burning | {Named("budget_used_up", service), Named("unusual", f"{service} error_share high")}


def _nothing(_: Facts) -> set[Named]:
    return set()


#: For each kind of truth, the findings that it must lead to. Of an error burst, `bad` may have been counted.
FINDINGS: Final[Mapping[str, Callable[[Facts], set[Named]]]] = {
    "slow_worker": _bad_worker,
    "flapping_worker": _bad_worker,
    "crashed_dispatcher": lambda facts: {Named("crash_lost_tasks", facts["broker"])},
    "lost_task": lambda _: {Named("audit", "no_outcome")},
    "duplicate_outcome": lambda _: {Named("audit", "two_outcomes")},
    "at_most_once_breach": lambda _: {Named("audit", "at_most_once")},
    # The journal explains it, so there is nothing to do.
    "late_answer": _nothing,
    "slow_convergence": lambda facts: {Named("edits_late", facts["last_broker"])},
    "resolved_conflict": _nothing,
    "open_conflict": lambda facts: {Named("config_conflict", facts["key"])},
    "hot_service": lambda facts: {Named("too_few_slots", f"{facts['service']} family-1")},
    "error_burst": _error_burst,
    "journal_gap": lambda facts: {Named("journal_gaps", facts["broker"])},
    "refused_principal": lambda facts: {Named("refused_often", f"{facts['principal']} not_allowed")},
    "unknown_key": lambda facts: {Named("refused_often", f"{facts['key']} unknown_key")},
    "expiring_key": lambda facts: {Named("keys_expire", facts["principal"])},
}


def findings_of(planted: Mapping[str, Facts]) -> dict[Named, str]:
    """All that must be found, each with the truth that it is about."""
    return {finding: truth for truth, facts in planted.items() for finding in FINDINGS[truth](facts)}
