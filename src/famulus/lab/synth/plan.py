"""What is wanted of a synthetic journal, and what is in it in the end. Knows nothing of how it is made."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from famulus.errors import SettingsError

US_PER_S: Final = 1_000_000
US_PER_MINUTE: Final = 60 * US_PER_S
US_PER_HOUR: Final = 60 * US_PER_MINUTE

#: Everything that can be planted, with what it is.
TRUTHS: Final[dict[str, str]] = {
    "slow_worker": "one worker takes four times as long as the others of its service",
    "flapping_worker": "one worker is lost and comes back again and again",
    "crashed_dispatcher": "a dispatcher dies and takes its open tasks along; a new boot follows",
    "lost_task": "a task is open at a checkpoint and never ends, and nothing died",
    "duplicate_outcome": "one task has two outcomes",
    "at_most_once_breach": "a task of an at-most-once service was given to two workers",
    "late_answer": "an answer comes after the time-out",
    "slow_convergence": "one broker gets an edit of the config long after the others",
    "resolved_conflict": "two admins edit the same key at once, and one of them settles it later",
    "open_conflict": "two admins edit the same key at once, and nobody settles it",
    "hot_service": "a service has too few slots at its busiest hour",
    "error_burst": "for some minutes most tasks of one service fail",
    "journal_gap": "a broker could not write some rows, and says so",
    "refused_principal": "a principal calls a service again and again that it may not call",
    "unknown_key": "somebody whom nobody knows tries to connect again and again",
    "expiring_key": "the keys of a principal expire some days after the journal ends",
}
BROKERS_MAX: Final = 26 * 10
SERVICES_MAX: Final = 100
HOURS_MAX: Final = 24 * 366


@dataclass(frozen=True, slots=True)
class Plan:
    tasks: int = 100_000
    hours: int = 24
    start: datetime = datetime(2026, 3, 2, tzinfo=UTC)
    seed: int = 1
    brokers: int = 2
    services: int = 4
    #: Over all brokers; each service has at least two at each of them.
    workers: int = 24
    truths: frozenset[str] = frozenset(TRUTHS)
    #: A broker reports its load every second. A longer pause makes smaller journals.
    load_every_s: int = 1

    def __post_init__(self) -> None:
        bounds = {
            "tasks": (self.tasks, 100, 10**11),
            "hours": (self.hours, 1, HOURS_MAX),
            "brokers": (self.brokers, 2, BROKERS_MAX),
            "services": (self.services, 2, SERVICES_MAX),
            "workers": (self.workers, 1, 1_000_000),
            "load_every_s": (self.load_every_s, 1, 60),
        }
        for name, (value, low, high) in bounds.items():
            if not low <= value <= high:
                raise SettingsError(f"{name}: {value} is not between {low} and {high}")
        if unknown := sorted(self.truths - set(TRUTHS)):
            raise SettingsError(f"truths: no such thing as {', '.join(unknown)}; there are {', '.join(TRUTHS)}")
        if self.start.tzinfo is None:
            raise SettingsError("start: an instant needs a time zone")
        if self.start.minute or self.start.second or self.start.microsecond:
            raise SettingsError("start: a journal begins with a full hour")

    @property
    def start_us(self) -> int:
        return (self.start - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

    @property
    def end_us(self) -> int:
        return self.start_us + self.hours * US_PER_HOUR

    def at_us(self, share: float) -> int:
        """The instant at this share of the span, on a full minute."""
        return self.start_us + int(share * self.hours * 60) * US_PER_MINUTE


@dataclass(frozen=True, slots=True)
class Truths:
    """What was planted, and how much is there: what a pipeline must find, no more and no less."""

    seed: int
    start: str
    hours: int
    #: Rows of each table.
    rows: dict[str, int]
    #: Tasks that the network accepted, whatever became of them.
    tasks: int
    #: By name of the truth: where, when and what.
    planted: dict[str, dict[str, Any]]

    def __getitem__(self, name: str) -> dict[str, Any]:
        return self.planted[name]

    def json(self) -> str:
        told = {name: {"what": TRUTHS[name], **facts} for name, facts in self.planted.items()}
        return json.dumps({**asdict(self), "planted": told}, indent=2, sort_keys=True) + "\n"
