"""Compares what workers ran with what clients sent and were told: the laws of delivery, checked from outside.

A worker's ledger has a line for each call that began: message_id, attempt, service. A client's ledger has two kinds of
lines: `sent` with message_id, kind (`once` or `again`) and instant; `ended` with message_id, outcome, code and instant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from famulus.lab.chaos.plan import Fault

#: No task takes much longer than its time-out; clients that were stopped themselves are another matter.
TIMEOUT_MAX_S = 5.0
LATE_S = 3.0
#: Names of tasks that a violation shows.
SHOWN = 5


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

    #: Without an outcome, or OK but never run.
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


def read_client(path: Path) -> tuple[list[Sent], list[Ended]]:
    sent, ended = [], []
    for kind, message_id, *rest in _lines(path):
        if kind == "sent":
            sent.append(Sent(message_id, rest[0] == "again", float(rest[1])))
        else:
            ended.append(Ended(message_id, rest[0], rest[1], float(rest[2])))
    return sent, ended


def first_success(sent: Iterable[Sent], ended: Iterable[Ended], after: float) -> float | None:
    """When the first OK arrived for a task that was sent after that instant."""
    later = {each.message_id for each in sent if each.at > after}
    return min((each.at for each in ended if each.outcome == "OK" and each.message_id in later), default=None)


def names_of_calls(workers: Iterable[Path], but: Collection[str] = ()) -> Iterator[str]:
    """The task of each call that began, except those in `but`."""
    for path in workers:
        yield from (line[0] for line in _lines(path) if line[0] not in but)


def _lines(path: Path) -> Iterator[list[str]]:
    """A last line without its end was cut short when its process died, or is still being written."""
    for line in path.read_text().splitlines(keepends=True) if path.exists() else ():
        if line.endswith("\n"):
            yield line.split()


# -- of a whole run ------------------------------------------------------------------------------------------------


def weigh(
    clients: Mapping[Path, bool],
    workers: Iterable[Path],
    struck: Sequence[tuple[float, Fault]],
    slack_s: float = 0.0,
) -> tuple[list[str], dict[str, Any]]:
    """Violations in words, and figures. `clients`: by ledger, whether that life of a client was killed.

    `slack_s`: how much later than usual everything may be, because the machine was too busy.
    """
    sent: list[Sent] = []
    ended: list[Ended] = []
    orphans: set[str] = set()
    recovery_s: dict[str, list[float]] = {}
    for path, killed in clients.items():
        its_sent, its_ended = read_client(path)
        sent += its_sent
        ended += its_ended
        if killed:
            orphans |= {each.message_id for each in its_sent} - {each.message_id for each in its_ended}
        for kind, took_s in _recoveries(its_sent, its_ended, struck):
            recovery_s.setdefault(kind, []).append(took_s)
    verdict = judge((each for each in sent if each.message_id not in orphans), ended, names_of_calls(workers, orphans))
    outcomes = Counter(each.outcome for each in ended)
    figures = {
        "tasks": len(sent),
        "outcomes": {name: outcomes[name] for name in ("OK", "ERROR", "REJECTED", "UNKNOWN")},
        # At-least-once: allowed.
        "ran_again": len(verdict.repeated),
        # Nobody is left to be told of them.
        "open_when_their_client_was_killed": len(orphans),
        "recovery": {
            kind: {"times": len(took), "median_s": round(median(took), 2), "worst_s": round(max(took), 2)}
            for kind, took in sorted(recovery_s.items())
        },
    }
    violations = [f"{len(tasks)} tasks {what}: {_some(tasks)}" for what, tasks in verdict.broken.items()]
    if wrong := [each.message_id for each in ended if each.outcome == "WRONG"]:
        violations.append(f"{len(wrong)} answers belong to another task: {_some(wrong)}")
    late_s = LATE_S + slack_s
    if late := _late(sent, ended, struck, late_s):
        violations.append(f"{len(late)} outcomes came more than {late_s:.1f} s after their deadline: {_some(late)}")
    return violations, figures


def _late(
    sent: Iterable[Sent], ended: Iterable[Ended], struck: Sequence[tuple[float, Fault]], late_s: float
) -> list[str]:
    """Late outcomes, except where the client itself was stopped meanwhile."""
    began = {each.message_id: each.at for each in sent}
    stops = [(at, at + fault.lasts_s, fault.whom[0]) for at, fault in struck if fault.kind == "stop_client"]
    late = []
    for each in ended:
        since = began.get(each.message_id, each.at)
        client = each.message_id.partition(".")[0]
        if each.at - since > TIMEOUT_MAX_S + late_s and not any(
            name == client and first < each.at and since < last for first, last, name in stops
        ):
            late.append(each.message_id)
    return late


def _recoveries(
    sent: Sequence[Sent], ended: Sequence[Ended], struck: Sequence[tuple[float, Fault]]
) -> Iterator[tuple[str, float]]:
    """How long after each fault of a broker this client had a success with a task that it sent after the fault."""
    for at, fault in struck:
        if fault.kind.partition("_")[2] not in ("broker", "dispatcher") or not sent or at < sent[0].at:
            continue
        success = first_success(sent, ended, at)
        if success is not None:
            yield fault.kind, success - at


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
