"""The story of one task, step by step, as journals have recorded it. Pure: rows come in, a story goes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import accumulate, permutations
from typing import Any, Final

from famulus.journal.fates import TaskFate
from famulus.journal.verdict import RUNNING, Verdict, verdict
from famulus.journal.visits import Row, Visit, visits
from famulus.wire import reasons

#: Why a worker was lost, by broker, boot and ticket: the code in the journal, or `disconnected`.
Losses = dict[tuple[str, str, int], str]
_WHY_LOST: Final = {
    reasons.EXPIRED: ", silent for three heartbeats",
    reasons.NOT_CONNECTED: ", it could not be reached",
    reasons.NOT_ALLOWED: ", it was put on the list of error workers",
    reasons.CONFLICT: ", another one came with its identity",
    "disconnected": ", it said goodbye",
}
#: A shorter wait does not count: reading a message takes that long.
WAITED_MS: Final = 1.0


@dataclass(frozen=True, slots=True)
class TraceStep:
    at: datetime
    #: arrived, delayed, queued, assigned, delegated, retry, answered, ended, late, or unseen: the end was not recorded.
    event: str
    broker: str
    sentence: str
    worker: str | None = None
    #: The broker that it was handed over to, or by.
    peer: str | None = None
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class TaskStory:
    message_id: str
    service: str
    at_most_once: bool
    priority: int
    steps: list[TraceStep]
    verdict: Verdict
    notes: list[str]

    def after_ms(self, step: TraceStep) -> float:
        """Since the task arrived for the first time."""
        return _ms(self.steps[0].at, step.at)

    def as_dict(self) -> dict[str, Any]:
        facts = asdict(self)
        steps, verdict, notes = (facts.pop(name) for name in ("steps", "verdict", "notes"))
        for step, told in zip(self.steps, steps, strict=True):
            told |= {"at": step.at.isoformat(), "after_ms": round(self.after_ms(step), 3)}
        return {**facts, **verdict, "notes": notes, "steps": steps}


def unsettled(tasks: Sequence[Row], open_tasks: Sequence[Row]) -> Row | None:
    """The last row about the task, if no journal says what its client was told: then its broker's fate matters."""
    own = [visit for visit in visits(tasks, open_tasks) if visit.came_from is None]
    if not own or any(visit.end is not None for visit in own):
        return None
    return max((visit.last_seen for visit in own), key=lambda row: row["at"])


def tell(
    tasks: Sequence[Row], open_tasks: Sequence[Row], evidence: TaskFate | None = None, losses: Losses | None = None
) -> TaskStory:
    """`evidence`: what became of the broker that had it, if it is `unsettled`. `losses`: why workers were lost."""
    found = visits(tasks, open_tasks)
    first = found[0].rows[0]
    steps = [each for visit in found for each in (*_in_order(_steps(visit, losses or {})), *_in_passing(visit))]
    if evidence is not None and (seen := unsettled(tasks, open_tasks)) is not None:
        at = evidence.at or seen["at"]
        steps.append((at, TraceStep(at, "unseen", seen["broker"], f"no outcome: {evidence.sentence}")))
    # Steps of the same instant keep their order.
    steps.sort(key=lambda each: each[0])
    return TaskStory(
        first["message_id"],
        first["service"],
        first["at_most_once"],
        first["priority"],
        [step for _, step in steps],
        verdict(found, evidence),
        list(_notes(found)),
    )


def tell_running(row: Row) -> TaskStory:
    """What its broker knows about a task that runs; the journal has no row yet."""
    visit = Visit(row["broker"], row["boot"], row["delegated_from"], seen=[row])
    steps = [_arrival(visit), *_waiting(visit, row, visit.arrived), _assignment(row)]
    facts = row["message_id"], row["service"], row["at_most_once"], row["priority"]
    return TaskStory(*facts, steps, RUNNING, [])


# -- one visit ----------------------------------------------------------------------------------------------------


def _in_order(steps: Iterator[TraceStep]) -> Iterator[tuple[datetime, TraceStep]]:
    """Each with an instant that is never before the previous step's: two rows may differ about the same instant."""
    told = list(steps)
    return zip(accumulate((step.at for step in told), max), told, strict=True)


def _in_passing(visit: Visit) -> Iterator[tuple[datetime, TraceStep]]:
    """Steps that are not on the main path of the task."""
    for step in (*_never_ended(visit), *map(_late, visit.late)):
        yield step.at, step


def _steps(visit: Visit, losses: Losses) -> Iterator[TraceStep]:
    yield _arrival(visit)
    free_since = visit.arrived
    if any(seen["state"] == "delayed" for seen in visit.seen):
        yield _delay(visit)
        free_since = visit.came or free_since
    for row in visit.ends:
        yield from _waiting(visit, row, free_since)
        if row["assigned"] is not None:
            yield _assignment(row)
        yield _end(row, losses)
        free_since = row["ended"]


def _arrival(visit: Visit) -> TraceStep:
    row = visit.rows[0]
    client = f"client {row['client']}" if row["client"] else "a client"
    origin = client if visit.came_from is None else f"broker {visit.came_from}"
    size = f", {_bytes(row['request_bytes'])}" if row.get("request_bytes") is not None else ""
    return TraceStep(visit.arrived, "arrived", visit.broker, f"arrived from {origin}{size}", peer=visit.came_from)


def _delay(visit: Visit) -> TraceStep:
    """What its client wanted, so it is no waiting for a slot."""
    how_long = f" for {_long(_ms(visit.arrived, visit.came))}" if visit.came is not None else ""
    return TraceStep(visit.arrived, "delayed", visit.broker, f"waits for its time{how_long}: it came with a delay")


def _waiting(visit: Visit, row: Row, since: datetime) -> Iterator[TraceStep]:
    """Until it was given to somebody, or ended without being given to anybody."""
    until = row["assigned"] or row["ended"]
    waited_ms = _ms(since, until)
    checkpoint = any(seen["state"] == "queued" and since <= seen["at"] <= until for seen in visit.seen)
    if waited_ms < WAITED_MS and not checkpoint:
        return
    why = "no slot is free: it waits in the backlog" if checkpoint else "waits"
    yield TraceStep(since, "queued", visit.broker, f"{why} for {_long(waited_ms)}")


def _assignment(row: Row, doubt: str = "") -> TraceStep:
    if row["delegated_to"] is not None:
        told, event = f"handed over to broker {row['delegated_to']}", "delegated"
    else:
        told, event = f"given to worker {row['worker']}", "assigned"
    sentence = f"{told}, attempt {row['attempt']}{doubt}"
    return TraceStep(
        row["assigned"], event, row["broker"], sentence, row["worker"], peer=row["delegated_to"], attempt=row["attempt"]
    )


def _end(row: Row, losses: Losses) -> TraceStep:
    outcome = row["outcome"]
    event = {"RETRY": "retry", "OK": "answered", "ERROR": "answered"}.get(outcome, "ended")
    why_lost = _WHY_LOST.get(losses.get((row["broker"], row["boot"], row["ticket"]), ""), "")
    sentence = _ending(row, why_lost)
    return TraceStep(row["ended"], event, row["broker"], sentence, row["worker"], row["delegated_to"], row["attempt"])


def _ending(row: Row, why_lost: str) -> str:
    who, reason = _who(row), row["reason"] or "no reason"
    match row["outcome"]:
        case "OK" | "ERROR":
            after = f" after {_long(_ms(row['assigned'], row['ended']))}" if row["assigned"] is not None else ""
            said = f" ({row['reason']})" if row["reason"] else ""
            return f"{who} answered {row['outcome']}{said}{after}, {_bytes(row['response_bytes'])}"
        case "RETRY" if row["delegated_to"] is not None:
            return f"{who} was lost, or does not know what became of it: another attempt follows"
        case "RETRY":
            return f"worker {row['worker']} was lost{why_lost}: another attempt follows"
        case "REJECTED" if reason == "cancelled":
            return "ended as REJECTED (cancelled): nobody wanted it any more, and it had not begun"
        case "REJECTED":
            return f"ended as REJECTED ({reason}): it did not run here"
    why = {
        "expired": f"{who} did not answer within the time-out",
        "worker_lost": f"{who} was lost before it answered{why_lost}",
        "broker_lost": f"the broker stopped before {who} answered",
        "cancelled": f"nobody wanted it any more, and {who} had it",
        "bad_header": f"the answer of {who} could not be read",
    }.get(reason, "nobody knows whether it ran")
    return f"ended as {row['outcome']} ({reason}): {why}"


def _never_ended(visit: Visit) -> Iterator[TraceStep]:
    """Attempts that were open at a checkpoint, and have no row of their own."""
    tickets = {row["ticket"] for row in visit.ends}
    last = visit.last_seen
    for row in visit.seen:
        if row["state"] == "queued":
            if visit.end is None:
                yield TraceStep(row["at"], "queued", visit.broker, "waits in the backlog, as a checkpoint saw it")
        elif row["ticket"] not in tickets and row["assigned"] is not None:
            # An attempt that never began has no row: the worker was gone by then, or the other broker refused it.
            doubt = (
                "; a checkpoint saw it there" if row is last else "; it has no end of its own, so it never began there"
            )
            yield _assignment(row, doubt)


def _late(row: Row) -> TraceStep:
    sentence = f"{_who(row)} answered after the task had its outcome: the answer was dropped"
    return TraceStep(row["ended"], "late", row["broker"], sentence, row["worker"], row["delegated_to"])


def _who(row: Row) -> str:
    if row["delegated_to"] is not None:
        return f"broker {row['delegated_to']}"
    return f"worker {row['worker']}" if row["worker"] is not None else "a worker"


# -- all of them --------------------------------------------------------------------------------------------------


def _notes(found: Sequence[Visit]) -> Iterator[str]:
    """What might surprise a reader."""
    asked = [visit for visit in found if visit.came_from is None]
    if len(asked) > 1:
        yield f"its client, or somebody with the same id, asked for it {len(asked)} times"
    present = {visit.broker for visit in found}
    absent = {visit.came_from for visit in found if visit.came_from is not None} - present
    absent |= {row["delegated_to"] for visit in found for row in visit.ends if row["delegated_to"]} - present
    for broker in sorted(absent):
        yield f"the journal of broker {broker} would tell more: give it with --journal"
    yield from _clocks(found)


def _clocks(found: Sequence[Visit]) -> Iterator[str]:
    """A task that arrives before it was handed over shows that two clocks differ."""
    behind: dict[tuple[str, str], None] = {}
    for one, other in permutations(found, 2):
        given = [row["assigned"] for row in one.ends if row["delegated_to"] == other.broker and row["assigned"]]
        if other.came_from == one.broker and len(given) == 1 and other.arrived < given[0]:
            behind[one.broker, other.broker] = None
    for giver, taker in behind:
        yield f"the clock of {taker} is behind that of {giver}: steps may be out of order"


def _ms(earlier: datetime, later: datetime) -> float:
    return (later - earlier).total_seconds() * 1000


def _long(ms: float) -> str:
    """Nobody needs microseconds of a long time."""
    return f"{ms:,.0f} ms" if ms >= 100 else f"{ms:.1f} ms"


def _bytes(count: int) -> str:
    return f"{count:,} byte{'s' if count != 1 else ''}"
