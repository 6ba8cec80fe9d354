"""Plants the truths that are about single tasks, processes and rows. Each function returns the rows and what is true.

A row is a dict of the table's columns, with the broker by its number; whatever is not named is null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from famulus.lab.synth import edits
from famulus.lab.synth.edits import US_PER_DAY
from famulus.lab.synth.plan import TRUTHS, US_PER_MINUTE, US_PER_S
from famulus.lab.synth.world import PRINCIPALS, RESTART_US, SLOW_FACTOR, Service, Worker, World

Row = dict[str, Any]
#: Its number, which of the service's workers had it, how long it waited, when it ended and how, and why.
Attempt = tuple[int, int, int, int, str, str | None]
SWALLOWED_RUNNING: Final = 5
SWALLOWED_QUEUED: Final = 2
GAP_ROWS: Final = 137
REFUSED: Final = 300
#: Of the service that fails for some minutes: more than its usual errors allow.
OBJECTIVE: Final = {"share": 0.998, "within_ms": 2000, "days": 30}
#: Short, so that one task that ran out of time does not make its minute an outlier.
TIMEOUT_US: Final = 400_000


@dataclass(slots=True)
class Planted:
    """Rows by table, and the facts about them."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def add(self, table: str, *rows: Row) -> None:
        self.rows.setdefault(table, []).extend(rows)


def instant(at_us: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)).isoformat()


class Planting:
    """A planted task: rows of its attempts and of its checkpoints."""

    def __init__(self, world: World, what: str, service: Service, broker: int) -> None:
        self.message_id = world.name("task", what)
        self._world, self._service, self._broker = world, service, broker
        # Beyond all tickets that cells give out.
        self._ticket = (1 << 60) + int(world.name("ticket", what)[:12], 16)

    def _common(self, attempt: int, worker: Worker | None, arrived_us: int, assigned_us: int | None) -> Row:
        return {
            "broker": self._broker,
            "ticket": self._ticket + attempt,
            "message_id": self.message_id,
            "attempt": attempt,
            "service": self._service.name,
            "worker": worker.identity if worker is not None else None,
            "client": self._world.name("client", 0)[:16],
            "at_most_once": self._service.at_most_once,
            "priority": 4,
            "arrived": arrived_us,
            "assigned": assigned_us,
        }

    def attempt(
        self, number: int, worker: Worker, times_us: tuple[int, int, int], outcome: str, reason: str | None = None
    ) -> Row:
        """By the instants of its arrival, assignment and end."""
        arrived_us, assigned_us, ended_us = times_us
        return {
            **self._common(number, worker, arrived_us, assigned_us),
            "outcome": outcome,
            "reason": reason,
            "ended": ended_us,
            "queue_ns": (assigned_us - arrived_us) * 1000,
            "service_ns": (ended_us - assigned_us) * 1000,
            "total_ns": (ended_us - arrived_us) * 1000,
            "request_bytes": 1000,
            "response_bytes": 400 if outcome in ("OK", "ERROR", "LATE") else 0,
        }

    def open_at(self, at_us: int, worker: Worker | None, arrived_us: int) -> Row:
        """Queued, if no worker has it."""
        assigned_us = None if worker is None else arrived_us + 300
        common = self._common(0 if worker is None else 1, worker, arrived_us, assigned_us)
        return {**common, "at": at_us, "state": "queued" if worker is None else "running"}


def slow_worker(world: World) -> Planted:
    worker = world.slow
    assert worker is not None
    return Planted(facts={**_whose(world, worker), "factor": SLOW_FACTOR})


def flapping_worker(world: World) -> Planted:
    """Each time it has two tasks, which then go to another worker, or end as UNKNOWN."""
    worker, planted = world.flapping, Planted()
    service = world.services[worker.service]
    other = world.workers_of(worker.broker, worker.service)[1]
    ids = []
    for number, (lost_us, back_us) in enumerate(world.absences):
        for count in range(2):
            task = Planting(world, f"flapping {number} {count}", service, worker.broker)
            ids.append(task.message_id)
            arrived_us = lost_us - 30_000 - count * 1000
            outcome = "UNKNOWN" if service.at_most_once else "RETRY"
            times_us = (arrived_us, arrived_us + 200, lost_us)
            planted.add("tasks", task.attempt(1, worker, times_us, outcome, "worker_lost"))
            if not service.at_most_once:
                planted.add("tasks", task.attempt(2, other, (arrived_us, lost_us + 400, lost_us + 30_400), "OK"))
        planted.add("workers", event_of(world, worker, lost_us, "lost", tasks=2, reason="worker_lost"))
        planted.add("workers", event_of(world, worker, back_us, "connect"))
        planted.add("workers", event_of(world, worker, back_us + 40_000, "ready"))
    planted.facts = {
        **_whose(world, worker),
        "losses": len(world.absences),
        "lost": [instant(lost_us) for lost_us, _ in world.absences],
        "message_ids": ids,
        "retries": 0 if service.at_most_once else len(ids),
    }
    return planted


def crashed_dispatcher(world: World) -> Planted:
    assert world.crash is not None
    broker, died_us = world.crash
    old, new = [boot for boot in world.boots if boot.broker == broker]
    planted, ids = Planted(), []
    for number in range(SWALLOWED_RUNNING + SWALLOWED_QUEUED):
        service = world.services[number % len(world.services)]
        worker = world.workers_of(broker, service.number)[-1] if number < SWALLOWED_RUNNING else None
        task = Planting(world, f"swallowed {number}", service, broker)
        ids.append(task.message_id)
        # The checkpoint before it.
        at_us = died_us - died_us % US_PER_S
        planted.add("open_tasks", task.open_at(at_us, worker, at_us - 5_000 - number * 700))
    process = {"broker": broker, "process": "dispatcher"}
    planted.add("brokers", {**process, "boot": old.name, "at": died_us, "event": "process_died", "detail": "signal 9"})
    planted.add("brokers", {**process, "boot": new.name, "at": new.start_us, "event": "process_started"})
    planted.facts = {
        "broker": world.brokers[broker],
        "at": instant(died_us),
        "back": instant(died_us + RESTART_US),
        "boots": [old.name, new.name],
        "message_ids": sorted(ids),
    }
    return planted


def lost_task(world: World) -> Planted:
    service, at_us = world.services[0], world.plan.at_us(0.30) + 20 * US_PER_S
    worker = world.workers_of(0, 0)[1]
    task = Planting(world, "lost", service, 0)
    row = task.open_at(at_us, worker, at_us - 20_000)
    return Planted({"open_tasks": [row]}, _facts(world, task, at_us, worker))


def duplicate_outcome(world: World) -> Planted:
    at_us = world.plan.at_us(0.33) + 10 * US_PER_S
    attempts = [(1, 1, 300, at_us, "OK", None), (2, 1, 60_500, at_us + 50_000, "OK", None)]
    return _attempted(world, "duplicate", 0, at_us - 60_000, attempts, (at_us, 0))


def at_most_once_breach(world: World) -> Planted:
    """Its worker was lost, and another one got it all the same. One outcome, but it may have run twice."""
    at_us = world.plan.at_us(0.40) + 10 * US_PER_S
    attempts = [(1, 0, 250, at_us, "RETRY", "worker_lost"), (2, 1, 90_700, at_us + 120_000, "OK", None)]
    return _attempted(world, "breach", 1, at_us - 90_000, attempts, (at_us, 0))


def late_answer(world: World) -> Planted:
    at_us = world.plan.at_us(0.45) + 12 * US_PER_S
    answered_us = at_us + 1_700_000
    attempts = [(1, -1, 250, at_us, "UNKNOWN", "expired"), (1, -1, 250, answered_us, "LATE", None)]
    return _attempted(world, "late", 1, at_us - TIMEOUT_US, attempts, (answered_us, -1))


def _attempted(
    world: World, what: str, number: int, arrived_us: int, attempts: Sequence[Attempt], told: tuple[int, int]
) -> Planted:
    """A task of this service of the first broker; `told` are the instant and the worker that the facts name."""
    service, workers = world.services[number], world.workers_of(0, number)
    task = Planting(world, what, service, 0)
    rows = [
        task.attempt(count, workers[who], (arrived_us, arrived_us + waited_us, ended_us), outcome, reason)
        for count, who, waited_us, ended_us, outcome, reason in attempts
    ]
    return Planted({"tasks": rows}, _facts(world, task, told[0], workers[told[1]]))


def slow_convergence(world: World) -> Planted:
    edit = edits.slow_edit(world)
    last_us = max(edit.had_us)
    return Planted(facts={
        "edit": edit.id, "key": edit.key, "author": edit.author, "accepted": instant(edit.at_us),
        "accepted_by": world.brokers[edit.broker], "last_broker": world.brokers[edit.had_us.index(last_us)],
        "span_ms": (last_us - edit.at_us) // 1000,
    })  # fmt: skip


def resolved_conflict(world: World) -> Planted:
    return _conflict(edits.conflict(world, "resolved_conflict"))


def open_conflict(world: World) -> Planted:
    return _conflict(edits.conflict(world, "open_conflict"))


def hot_service(world: World) -> Planted:
    assert world.hot is not None
    service = world.services[world.hot]
    slots = {name: world.slots(number, world.hot) for number, name in enumerate(world.brokers)}
    return Planted(facts={"service": service.name, "slots": slots, "service_s": service.mean_s})


def error_burst(world: World) -> Planted:
    burst = world.burst
    assert burst is not None
    service, broker = world.services[burst.service], burst.broker
    minutes = (burst.end_us - burst.start_us) // US_PER_MINUTE
    facts = {"service": service.name, "broker": world.brokers[broker], "start": instant(burst.start_us),
             "end": instant(burst.end_us), "minutes": minutes, "share": OBJECTIVE["share"]}  # fmt: skip
    # As brokers do: at the start, and once a day.
    told = {"broker": broker, "event": "objective", "service": service.name, "detail": json.dumps(OBJECTIVE)}
    tellings = [{**told, "at": at_us} for at_us in range(world.plan.start_us + US_PER_S, world.plan.end_us, US_PER_DAY)]
    return Planted({"brokers": tellings}, facts)


def journal_gap(world: World) -> Planted:
    at_us = world.plan.at_us(0.65) + 2 * US_PER_S
    row = {"broker": 0, "at": at_us, "event": "gap", "table": "peers", "rows": GAP_ROWS, "detail": "the disk was full"}
    facts = {"broker": world.brokers[0], "at": instant(at_us), "table": "peers", "rows": GAP_ROWS}
    return Planted({"brokers": [row]}, facts)


def refused_principal(world: World) -> Planted:
    """Some twenty times a minute, for a quarter of an hour."""
    service, from_us = world.services[-1].name, world.plan.at_us(0.60)
    rows = [
        {"broker": 1, "at": from_us + number * 3 * US_PER_S, "port": "frontend", "wanted": "call", "why": "not_allowed",
         "principal": PRINCIPALS[2], "address": "192.0.2.7", "service": service, "times": 1}
        for number in range(REFUSED)
    ]  # fmt: skip
    facts = {"principal": PRINCIPALS[2], "service": service, "broker": world.brokers[1], "times": REFUSED}
    return Planted({"access": rows}, facts)


def unknown_key(world: World) -> Planted:
    """In one second it tries so often that the rest is only counted, with that of others."""
    at_us, key = world.plan.at_us(0.62), 2 * world.name("key", "unknown")[:32]
    tries = {"broker": 0, "port": "backend", "wanted": "connect", "why": "unknown_key"}
    rows = [{**tries, "at": at_us + n * US_PER_S, "key": key, "address": "192.0.2.8", "times": 40} for n in range(10)]
    rows.append({**tries, "at": at_us + US_PER_S, "address": "*", "times": 5000})
    return Planted({"access": rows}, {"key": key, "broker": world.brokers[0], "times": 400})


def expiring_key(world: World) -> Planted:
    edit = edits.expiring_key(world)
    assert edit.expires_us is not None
    return Planted(facts={"principal": edit.key.partition("/")[2], "expires": instant(edit.expires_us)})


def _facts(world: World, task: Planting, at_us: int, worker: Worker) -> dict[str, Any]:
    return {**_whose(world, worker), "message_id": task.message_id, "at": instant(at_us)}


def _whose(world: World, worker: Worker) -> dict[str, str]:
    service, broker = world.services[worker.service].name, world.brokers[worker.broker]
    return {"worker": worker.identity, "service": service, "broker": broker}


def _conflict(conflict: edits.Conflict) -> Planted:
    facts = {"key": conflict.first.key, "edits": sorted([conflict.first.id, conflict.second.id]),
             "at": instant(conflict.second.at_us)}  # fmt: skip
    if conflict.settled is not None:
        facts |= {"resolved_by": conflict.settled.id, "resolved": instant(conflict.settled.at_us)}
    return Planted(facts=facts)


def event_of(world: World, worker: Worker, at_us: int, event: str, **more: Any) -> Row:
    services = world.services[worker.service].name
    return {"broker": worker.broker, "at": at_us, "worker": worker.identity, "event": event, "services": services,
            "slots": worker.slots, **more}  # fmt: skip


#: Each truth has a function with its name.
PLANTERS: Final[dict[str, Callable[[World], Planted]]] = {name: globals()[name] for name in TRUTHS}
