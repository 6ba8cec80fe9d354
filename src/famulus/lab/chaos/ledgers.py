"""Compares what workers ran with what clients sent and were told: the laws of delivery, checked from outside.

A worker's ledger has a line for each call that began: message_id, attempt, service. A client's ledger has two kinds of
lines: `sent` with message_id, kind (`once` or `again`) and instant; `ended` with message_id, outcome, code and instant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Sent(NamedTuple):
    message_id: str
    at_least_once: bool
    #: On the clock of `time.monotonic`, which all processes of a machine share.
    at: float


class Ended(NamedTuple):
    message_id: str
    outcome: str
    code: str
    at: float


@dataclass(frozen=True)
class LedgerVerdict:
    """Names of tasks; the first three must be empty."""

    #: Without an outcome, or OK and never run.
    lost: list[str]
    #: At-most-once, and run more than once.
    duplicated: list[str]
    #: Run, though nobody sent it or it was rejected; or told an outcome twice, or without having been sent.
    unexpected: list[str]
    #: The client was told UNKNOWN. Allowed where something died.
    unknown: list[str]
    #: At-least-once, and run more than once. Allowed as well.
    repeated: list[str]
    ok: int

    @property
    def broken(self) -> dict[str, list[str]]:
        return {name: tasks for name in ("lost", "duplicated", "unexpected") if (tasks := getattr(self, name))}

    def __str__(self) -> str:
        names = ("lost", "duplicated", "unexpected", "unknown", "repeated")
        return f"{self.ok} OK, " + ", ".join(f"{len(getattr(self, name))} {name}" for name in names)


def judge(sent: Iterable[Sent], ended: Iterable[Ended], ran: Iterable[str]) -> LedgerVerdict:
    """`ran` has the message_id of each call that began, as often as it began."""
    asked = {each.message_id: each for each in sent}
    outcomes: dict[str, str] = {}
    unexpected = set()
    for end in ended:
        if end.message_id not in asked or end.message_id in outcomes:
            unexpected.add(end.message_id)
        outcomes.setdefault(end.message_id, end.outcome)
    runs = Counter(ran)
    unexpected |= {task for task in runs if task not in asked or outcomes.get(task) == "REJECTED"}
    ok = [task for task, outcome in outcomes.items() if outcome == "OK"]
    several = [task for task, count in runs.items() if count > 1 and task in asked]
    return LedgerVerdict(
        lost=sorted({*(asked.keys() - outcomes.keys()), *(task for task in ok if not runs[task])}),
        duplicated=sorted(task for task in several if not asked[task].at_least_once),
        unexpected=sorted(unexpected),
        unknown=sorted(task for task, outcome in outcomes.items() if outcome == "UNKNOWN"),
        repeated=sorted(task for task in several if asked[task].at_least_once),
        ok=len(ok),
    )


class ClientLedger:
    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> tuple[list[Sent], list[Ended]]:
        sent, ended = [], []
        for kind, message_id, *rest in _lines(self._path):
            if kind == "sent":
                sent.append(Sent(message_id, rest[0] == "again", float(rest[1])))
            else:
                ended.append(Ended(message_id, rest[0], rest[1], float(rest[2])))
        return sent, ended

    def first_success_after(self, instant: float) -> float | None:
        return first_success(*self.read(), instant)


def first_success(sent: Iterable[Sent], ended: Iterable[Ended], after: float) -> float | None:
    """Of a task that was sent after that instant: when its answer was there."""
    later = {each.message_id for each in sent if each.at > after}
    return min((each.at for each in ended if each.outcome == "OK" and each.message_id in later), default=None)


def compare(clients: Iterable[Path], workers: Iterable[Path]) -> LedgerVerdict:
    ledgers = [ClientLedger(path).read() for path in clients]
    sent = (each for its_sent, _ in ledgers for each in its_sent)
    ended = (each for _, its_ended in ledgers for each in its_ended)
    return judge(sent, ended, names_of_calls(workers))


def names_of_calls(workers: Iterable[Path], but: Collection[str] = ()) -> Iterator[str]:
    """Of each call that began, whose task it was; without some."""
    for path in workers:
        yield from (line[0] for line in _lines(path) if line[0] not in but)


def _lines(path: Path) -> Iterator[list[str]]:
    """A last line without its end was cut short by a death, or is being written."""
    for line in path.read_text().splitlines(keepends=True) if path.exists() else ():
        if line.endswith("\n"):
            yield line.split()
