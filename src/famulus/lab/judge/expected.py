"""What the findings must say of each truth that was planted. Knows no journal and no tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

Facts = Mapping[str, Any]


#: So many of a service's tasks must be bad in an hour for its error budget to burn too fast, and so many times as many
#: as may be.
ALARM_BAD_MIN: Final = 10
ALARM_RATE: Final = 14.4


class Named(NamedTuple):
    """A finding, by what it is about."""

    kind: str
    subject: str


def _bad_worker(facts: Facts) -> set[Named]:
    return {Named("bad_worker", f"{facts['worker']} {facts['service']}")}


def _error_burst(facts: Facts) -> set[Named]:
    """In a quiet journal the burst is too small a part of the hour for an alarm, as docs/tables.md defines it."""
    service = facts["service"]
    failed, tasks = facts.get("hour", (ALARM_BAD_MIN, ALARM_BAD_MIN))
    is_alarm = failed >= max(ALARM_BAD_MIN, ALARM_RATE * (1 - facts["share"]) * tasks)
    burning = {_burning(facts)} if is_alarm else set()
    return burning | {Named("budget_used_up", service), Named("unusual", f"{service} error_share high")}


def _burning(facts: Facts) -> Named:
    return Named("budget_burning", facts["service"])


def _nothing(_: Facts) -> set[Named]:
    return set()


#: For each kind of truth, the findings that it must lead to. Of an error burst, `hour` may say how many
#: tasks failed in the hour up to its end, and of how many.
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


def may_find(planted: Mapping[str, Facts]) -> set[Named]:
    """What is right as well: an alarm at another minute than the last of the burst."""
    return {_burning(planted["error_burst"])} if "error_burst" in planted else set()
