"""Which promises a run broke, and its figures: what workers began against what clients sent and were told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from famulus.lab.chaos.ledgers import ClientLedger, Ended, Sent, first_success, judge, names_of_calls
from famulus.lab.chaos.plan import Fault

#: No task takes longer than its time-out and a little; clients that were stopped themselves are another matter.
TIMEOUT_MAX_S = 5.0
LATE_S = 3.0
#: Names of tasks that a violation shows.
SHOWN = 5


@dataclass(slots=True)
class Figures:
    tasks: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    #: At-least-once, and run more than once: allowed.
    repeated: int = 0
    #: Open when their client was killed: nobody is left to be told.
    orphaned: int = 0
    #: By kind of fault: seconds until each client had the answer to a task that it sent after it.
    recovery_s: dict[str, list[float]] = field(default_factory=dict)

    def recovery(self) -> dict[str, dict[str, float]]:
        return {
            kind: {"times": len(took), "median_s": round(median(took), 2), "worst_s": round(max(took), 2)}
            for kind, took in sorted(self.recovery_s.items())
        }


def weigh(
    clients: Mapping[Path, bool],
    workers: Iterable[Path],
    struck: Sequence[tuple[float, Fault]],
    slack_s: float = 0.0,
) -> tuple[list[str], Figures]:
    """Violations in words, and figures. `clients`: by ledger, whether that life of a client was killed.

    `slack_s`: how much later than usual everything may be, because the machine was too busy.
    """
    sent: list[Sent] = []
    ended: list[Ended] = []
    orphans: set[str] = set()
    figures = Figures()
    for path, killed in clients.items():
        its_sent, its_ended = ClientLedger(path).read()
        sent += its_sent
        ended += its_ended
        if killed:
            orphans |= {each.message_id for each in its_sent} - {each.message_id for each in its_ended}
        _note_recoveries(figures, its_sent, its_ended, struck)
    verdict = judge((each for each in sent if each.message_id not in orphans), ended, names_of_calls(workers, orphans))
    figures.tasks = len(sent)
    figures.outcomes = Counter(each.outcome for each in ended)
    figures.repeated = len(verdict.repeated)
    figures.orphaned = len(orphans)
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
    """But not where the client itself was stopped meanwhile."""
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


def _note_recoveries(
    figures: Figures, sent: Sequence[Sent], ended: Sequence[Ended], struck: Sequence[tuple[float, Fault]]
) -> None:
    """How long after each fault against a broker this client had a success again that began after it."""
    for at, fault in struck:
        if fault.kind.partition("_")[2] not in ("broker", "dispatcher") or not sent or at < sent[0].at:
            continue
        success = first_success(sent, ended, at)
        if success is not None:
            figures.recovery_s.setdefault(fault.kind, []).append(success - at)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
