"""How a task ended for its client, whether it ran, and whether it may be tried again. Pure.

What counts is the end at the broker that the client asked; brokers that it was handed over to only show what ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from famulus.journal.fates import TaskFate
from famulus.journal.visits import Row, Visit
from famulus.wire import reasons

YES: Final = "yes"
PROBABLY: Final = "probably"
MAYBE: Final = "maybe"
NO: Final = "no"
#: The most certain first.
_RAN: Final = (YES, PROBABLY, MAYBE, NO)
#: The reasons that Famulus's own workers give with an ERROR when they have not called the function.
_NOT_CALLED: Final = frozenset({reasons.NO_SERVICE, reasons.EXPIRED})


@dataclass(frozen=True, slots=True)
class Verdict:
    #: None if no journal says what the client was told.
    outcome: str | None
    reason: str | None
    #: Of a task without an outcome: what became of its broker.
    fate: str | None
    #: Whether it ran: yes, probably, maybe or no.
    ran: str
    meaning: str
    try_again: str


#: Of a task of which its broker knows that it has not ended.
RUNNING: Final = Verdict(None, None, "open", YES, "It is running, and its client waits.", "Not yet: it is running.")


def verdict(found: Sequence[Visit], evidence: TaskFate | None) -> Verdict:
    ended = [visit.end for visit in found if visit.came_from is None and visit.end is not None]
    if ended:
        last = max(ended, key=lambda row: row["ended"])
        return _settled(last, _ran(found), found)
    return _unsettled(found, evidence)


def _settled(end: Row, ran: str, found: Sequence[Visit]) -> Verdict:
    outcome, reason = end["outcome"], end["reason"]
    if outcome == "OK":
        again = any(row["outcome"] == "RETRY" for visit in found for row in visit.ends)
        twice = " An earlier attempt may have run as well, partly or completely." if again else ""
        return Verdict(
            outcome, reason, None, YES, f"It ran, and its client got the answer.{twice}", "There is no need."
        )
    if ran == NO:
        meaning = "It provably did not run." if outcome == "REJECTED" else "Its worker did not call the function."
        return Verdict(outcome, reason, None, NO, meaning, "Yes, it is safe.")
    if outcome == "ERROR":
        meaning = "A worker had it and answered that it failed; Famulus does not try such a task again."
        return Verdict(outcome, reason, None, ran, meaning, "That is for you to decide: some of its work may be done.")
    return Verdict(outcome, reason, None, ran, _RAN_MEANINGS[ran], _AGAIN)


_RAN_MEANINGS: Final = {
    YES: "It ran, though its client was not told so.",
    PROBABLY: "Its client was told that nobody knows; a worker answered after that, so it most likely ran.",
    MAYBE: "It may have run.",
}
_AGAIN: Final = "Only if running it twice does no harm."
_LOOK: Final = "Only if running it twice does no harm: what was done after the last checkpoint, nobody wrote down."

_AGAIN_BY_FATE: Final = {
    "open": "Not yet: it may still be running.",
    "overdue": "Only if running it twice does no harm: it may still be running.",
}


def _unsettled(found: Sequence[Visit], evidence: TaskFate | None) -> Verdict:
    ran = _ran(found)
    if evidence is None:
        # Only brokers that it was handed over to have rows about it.
        brokers = ", ".join(sorted({visit.broker for visit in found}))
        elsewhere = f"These journals say only what became of it at {brokers}, not what its client was told."
        try_again = _AGAIN if ran != NO else "Ask the journal of the broker that it came from: others may have run it."
        return Verdict(None, None, None, ran, elsewhere, try_again)
    ran = min(ran, MAYBE, key=_RAN.index)
    meaning = f"No outcome is in the journal: {evidence.sentence}."
    again = _AGAIN_BY_FATE.get(evidence.fate, _LOOK if ran == MAYBE else _AGAIN)
    return Verdict(None, None, evidence.fate, ran, meaning, again)


def _ran(found: Sequence[Visit]) -> str:
    """The most certain answer that any row gives."""
    said = [_says(row) for visit in found for row in (*visit.ends, *visit.late)]
    said += [MAYBE for visit in found if visit.end is None]
    return min(said, key=_RAN.index, default=MAYBE)


def _says(row: Row) -> str:
    match row["outcome"]:
        case "OK":
            return YES
        case "ERROR":
            return NO if row["reason"] in _NOT_CALLED else YES
        case "REJECTED":
            return NO
        case "LATE":
            # Another broker may have answered that it did not run.
            return PROBABLY if row["worker"] is not None else MAYBE
        case "UNKNOWN" if row["reason"] == reasons.BAD_HEADER and row["worker"] is not None:
            return YES
        case _:
            return MAYBE
