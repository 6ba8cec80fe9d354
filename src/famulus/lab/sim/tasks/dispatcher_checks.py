"""What must hold in a dispatcher after each of its runs, and when all is over.

These run more often than anything else: messages are composed only where something is broken.
"""

from __future__ import annotations

from famulus.core.clock import NS_PER_S
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.dispatch.service import Service
from famulus.core.dispatch.session import Session
from famulus.core.dispatch.task import DELAYED, JUDGING, QUEUED, RUNNING, Task
from famulus.core.timers import TICK_NS
from famulus.lab.sim.invariants import Broken, Invariant


def check_step(core: Dispatcher, now_ns: int) -> None:
    """After the dispatcher has run, and before anybody else does."""
    for session in core.sessions.by_peer.values():
        _check_slots(session)
    for service in core.services.by_name.values():
        if service.backlog.tasks:
            _check_backlog(service)
        if service.delayed.tasks:
            _check_delayed(service)
    _check_accounts(core, _open_tasks(core), now_ns)


def _check_slots(session: Session) -> None:
    free, running, slots = session.free, len(session.running), session.slots
    if free + running != slots:
        what = f"worker {session.identity!r} has {slots} slots, but {free} are free and {running} are taken"
        raise Broken(Invariant.SLOTS, what)
    for service in session.services:
        listed = session in service.chooser.listed()
        if session.ready and free and not listed:
            what = f"a free slot of {session.identity!r} is not listed for {service.name!r}"
            raise Broken(Invariant.SLOTS, what)
        if listed and not session.ready:
            raise Broken(Invariant.SLOTS, f"{session.identity!r} is listed without a PONG")


def _check_backlog(service: Service) -> None:
    backlog = service.backlog
    if any(session.free for session in service.chooser.listed()):
        raise Broken(Invariant.SLOTS, f"tasks of {service.name!r} wait although a slot is free")
    terms = backlog.head().terms
    if backlog.tasks > terms.backlog_tasks_max:
        raise Broken(Invariant.BOUNDS, f"the backlog of {service.name!r} has too many tasks")
    if backlog.body_bytes > terms.backlog_bytes_max:
        raise Broken(Invariant.BOUNDS, f"{service.name!r} has too many bytes waiting")


def _check_delayed(service: Service) -> None:
    delayed, terms = service.delayed, service.delayed.head().terms
    if delayed.tasks > terms.backlog_tasks_max or delayed.body_bytes > terms.backlog_bytes_max:
        raise Broken(Invariant.BOUNDS, f"too much of {service.name!r} waits for its time")
    for line in delayed._by_priority.values():
        for task in line:
            if not isinstance(task, Task) or task.stage != DELAYED:
                raise Broken(Invariant.ACCOUNTS, "a task that waits for its time is not DELAYED")
            if task.is_cancelled:
                raise Broken(Invariant.CANCELS, "a cancelled task waits for its time")


def _open_tasks(core: Dispatcher) -> list[Task]:
    backlogs = [service.backlog for service in core.services.by_name.values()]
    lines = [line for backlog in backlogs for line in backlog._by_priority.values()]
    tasks = [task for line in lines for task in line if isinstance(task, Task)]
    if any(task.stage != QUEUED for task in tasks):
        raise Broken(Invariant.ACCOUNTS, "a task in the backlog is not QUEUED")
    if any(task.is_cancelled for task in tasks):
        raise Broken(Invariant.CANCELS, "a cancelled task waits in the backlog")
    for session in core.sessions.by_peer.values():
        tasks += [task for task in session.running.values() if task.stage == RUNNING]
    for delegate in core.delegates.by_identity.values():
        tasks += [task for ticket, task in delegate.running.items() if task.waits_for(ticket)]
    if any(task.stage not in (RUNNING, JUDGING) for task in core.streams._by_task):
        raise Broken(Invariant.STREAMS, "a stream is remembered whose task has ended")
    tasks += [task for task in core.outcomes.timers if task.stage == DELAYED]
    judged = [question.task for question in core.questions._open.values()]
    return tasks + [task for task in judged if task is not None and task.stage == JUDGING]


def _check_accounts(core: Dispatcher, open_tasks: list[Task], now_ns: int) -> None:
    accepted, finished, still_open = core.counters.accepted, core.counters.finished, len(open_tasks)
    if accepted != finished + still_open:
        what = f"{accepted} tasks were accepted, but {finished} have an outcome and {still_open} are open"
        raise Broken(Invariant.ACCOUNTS, what)
    if core.outcomes.open_tasks != still_open:
        raise Broken(Invariant.ACCOUNTS, "the count of open tasks is wrong")
    if core.outcomes.open_bytes != sum([len(task.body) for task in open_tasks]):
        raise Broken(Invariant.ACCOUNTS, "the count of open bytes is wrong")
    for task in open_tasks:
        if task.deadline_ns + TICK_NS < now_ns:
            raise Broken(Invariant.TIME, f"a task of stage {task.stage} is past its deadline and a tick")
        if task.bucket is None:
            raise Broken(Invariant.TIME, "an open task has no timer")


def left_behind(core: Dispatcher, now_ns: int) -> str:
    """What is still there when nobody wants anything any more, in words; empty if all is well."""
    if core.outcomes.open_tasks:
        return f"{core.outcomes.open_tasks} tasks never ended"
    if any(delegate.running for delegate in core.delegates.by_identity.values()):
        return "it waits for answers of others"
    if any(service.delayed.tasks for service in core.services.by_name.values()):
        return "tasks that wait for their time are still counted"
    # Workers ping for ever, so a question may be under way at any time; an old one has been forgotten.
    forgotten = [question for question in core.questions._open.values() if question.seen_ns + NS_PER_S < now_ns]
    if forgotten:
        return f"{len(forgotten)} questions were never decided"
    for session in core.sessions.by_peer.values():
        if not session.ready:
            return f"{session.identity!r} is not ready"
        if session.free != session.slots:
            return f"{session.identity!r} lost {session.slots - session.free} of its {session.slots} slots"
    return ""
