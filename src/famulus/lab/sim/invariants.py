"""What must hold after every step, and at the end. Each check names its invariant and says in words what was broken."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.dispatch.task import JUDGING, QUEUED, RUNNING, Task
from famulus.core.session.client import GRACE_NS
from famulus.core.timers import TICK_NS

if TYPE_CHECKING:
    from famulus.core.dispatch.dispatcher import Dispatcher
    from famulus.lab.sim.ledger import Entry
    from famulus.lab.sim.world import World


class Invariant(StrEnum):
    """What the simulations watch over; docs/testing.md says what each of them means."""

    SLOTS = "slots"
    ACCOUNTS = "accounts"
    TIME = "time"
    BOUNDS = "bounds"
    OUTCOMES = "outcomes"
    DELIVERY = "delivery"
    PROMPTNESS = "promptness"
    NOTHING_LEFT = "nothing left"
    # Of a broker that is asked for too much.
    GOODPUT = "goodput"
    IN_VAIN = "in vain"
    NAMES = "names"
    # Of the tasks of a network.
    MEMORY = "memory"
    WAYS = "ways"
    PEERS = "peers"
    CIRCLES = "circles"
    # Of the config of a network.
    SAFETY = "nothing acknowledged is lost"
    CLOSURE = "closure"
    HEADS = "heads"
    AGREEMENT = "agreement"
    CONFLICTS = "conflicts"
    RIGHTS = "rights"
    BOUNDARY = "boundary"
    #: Everything heals, and every run comes to an end.
    END = "the end"


class Broken(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: Invariant, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant


def demand(holds: bool, invariant: Invariant, what: str) -> None:
    if not holds:
        raise Broken(invariant, what)


def invariant_of(error: Exception) -> str:
    """The invariant that it broke; empty if it is any other error."""
    return error.invariant if isinstance(error, Broken) else ""


def in_words(error: Exception) -> str:
    return str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}"


def check_step(core: Dispatcher, now_ns: int) -> None:
    """After the dispatcher has run, and before anybody else does."""
    _slots_are_accounted_for(core)
    open_tasks = _open_tasks(core)
    demand(
        core.counters.accepted == core.counters.finished + len(open_tasks),
        Invariant.ACCOUNTS,
        f"{core.counters.accepted} tasks were accepted, but {core.counters.finished} have an outcome"
        f" and {len(open_tasks)} are open",
    )
    demand(core.outcomes.open_tasks == len(open_tasks), Invariant.ACCOUNTS, "the count of open tasks is wrong")
    demand(
        core.outcomes.open_bytes == sum(len(task.body) for task in open_tasks),
        Invariant.ACCOUNTS,
        "the count of open bytes is wrong",
    )
    for task in open_tasks:
        demand(
            task.deadline_ns + TICK_NS >= now_ns,
            Invariant.TIME,
            f"a task of stage {task.stage} is past its deadline and a tick",
        )
        demand(task.bucket is not None, Invariant.TIME, "an open task has no timer")
    _backlogs_are_bounded(core)


def _slots_are_accounted_for(core: Dispatcher) -> None:
    for session in core.sessions.by_peer.values():
        demand(
            session.free + len(session.running) == session.slots,
            Invariant.SLOTS,
            f"worker {session.identity!r} has {session.slots} slots, but {session.free} are free"
            f" and {len(session.running)} are taken",
        )
        for service in session.services:
            listed = session in service.lru
            if session.ready and session.free:
                demand(
                    listed,
                    Invariant.SLOTS,
                    f"a free slot of {session.identity!r} is not in the LRU of {service.name!r}",
                )
            if not session.ready:
                demand(not listed, Invariant.SLOTS, f"{session.identity!r} is in the LRU without a PONG")
    for service in core.services.by_name.values():
        demand(
            not service.backlog.tasks or not any(session.free for session in service.lru),
            Invariant.SLOTS,
            f"tasks of {service.name!r} wait although a slot is free",
        )


def _open_tasks(core: Dispatcher) -> list[Task]:
    waiting = [task for service in core.services.by_name.values() for task in service.backlog]
    tasks = [task for task in waiting if isinstance(task, Task)]
    demand(all(task.stage == QUEUED for task in tasks), Invariant.ACCOUNTS, "a task in the backlog is not QUEUED")
    for session in core.sessions.by_peer.values():
        tasks += [task for task in session.running.values() if task.stage == RUNNING]
    for delegate in core.delegates.by_identity.values():
        tasks += [task for ticket, task in delegate.running.items() if task.waits_for(ticket)]
    questions = [q for q in core.questions._open.values() if q.task is not None]
    tasks += [q.task for q in questions if q.task is not None and q.task.stage == JUDGING]
    return tasks


def _backlogs_are_bounded(core: Dispatcher) -> None:
    for service in core.services.by_name.values():
        backlog = service.backlog
        for task in backlog:
            demand(
                backlog.tasks <= task.terms.backlog_tasks_max,
                Invariant.BOUNDS,
                f"the backlog of {service.name!r} has too many tasks",
            )
            demand(
                backlog.body_bytes <= task.terms.backlog_bytes_max,
                Invariant.BOUNDS,
                f"{service.name!r} has too many bytes waiting",
            )
            break


def check_entry(entry: Entry, body: bytes, client_survived: bool) -> None:
    """The laws of delivery, as seen from outside."""
    name = f"task {body!r} of {entry.service}"
    demand(len(entry.outcomes) <= 1, Invariant.OUTCOMES, f"{name} has {len(entry.outcomes)} outcomes")
    demand(
        entry.at_least_once or entry.runs <= 1, Invariant.DELIVERY, f"{name} is at-most-once and ran {entry.runs} times"
    )
    if not entry.outcomes:
        demand(not client_survived, Invariant.OUTCOMES, f"{name} has no outcome")
        return
    ended_ns, outcome, reason = entry.outcomes[0]
    if outcome == "OK":
        demand(entry.runs >= 1, Invariant.DELIVERY, f"{name} is OK and never ran")
    elif outcome == "REJECTED":
        demand(entry.runs == 0, Invariant.DELIVERY, f"{name} was rejected ({reason}) and ran")
    if not entry.disturbed:
        took_ns = ended_ns - entry.submitted_ns
        demand(
            took_ns <= entry.timeout_ns + TICK_NS + 200 * NS_PER_MS,
            Invariant.PROMPTNESS,
            f"{name} ended {took_ns / NS_PER_MS:.0f} ms after its submission, by a quiet broker and client",
        )
    demand(
        entry.disturbed or ended_ns - entry.submitted_ns < entry.timeout_ns + GRACE_NS,
        Invariant.PROMPTNESS,
        f"{name} was given up by its client, though nothing happened to it or the broker",
    )


def check_end(world: World) -> None:
    """All faults are over, all tasks too: nothing may be left behind."""
    for body, entry in world.ledger.entries.items():
        check_entry(entry, body, client_survived=entry.client in world.clients)
    core = world.broker.core
    demand(core.outcomes.open_tasks == 0, Invariant.NOTHING_LEFT, f"{core.outcomes.open_tasks} tasks never ended")
    # Workers ping for ever, so a question may be under way at any time; an old one is forgotten.
    forgotten = [q for q in core.questions._open.values() if q.seen_ns + NS_PER_S < world.clock.now_ns]
    demand(not forgotten, Invariant.NOTHING_LEFT, f"{len(forgotten)} questions were never decided")
    identities = {worker.name.encode() for worker in world.workers}
    connected = set(core.sessions.by_identity)
    demand(connected == identities, Invariant.NOTHING_LEFT, f"workers {identities ^ connected} are not connected")
    for session in core.sessions.by_identity.values():
        demand(session.ready, Invariant.NOTHING_LEFT, f"{session.identity!r} is not ready")
        demand(
            session.free == session.slots,
            Invariant.NOTHING_LEFT,
            f"{session.identity!r} lost {session.slots - session.free} of its {session.slots} slots",
        )
