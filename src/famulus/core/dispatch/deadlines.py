"""Decides whether a task can still be done in time, from what is known about its service. Reads no clock."""

from __future__ import annotations

from typing import Final

from famulus.core.clock import NS_PER_MS
from famulus.core.dispatch.task import Task
from famulus.wire import inner

#: This many may wait for each slot if they have any time: nobody knows when it will be free, and it must not idle.
WAITING_PER_SLOT: Final = 2


def must_start_by_ns(task: Task) -> int:
    """When it will be too late for a waiting task, from what is known now about its service."""
    service_time = task.service.service_time
    # A task that may have run ends as UNKNOWN if it is not run again: so a fair chance is reason enough to run it.
    needed_ns = service_time.usual_ns if task.attempt else service_time.needed_ns(task.flow.timeout_ns)
    return task.deadline_ns - needed_ns


def waits_until_ns(task: Task) -> int:
    """Until when a task may wait in the backlog."""
    oldest_ns = task.queued_ns + task.terms.backlog_age_ms * NS_PER_MS
    return min(must_start_by_ns(task), oldest_ns, task.service.expected_by_ns)


def can_wait(task: Task, now_ns: int) -> bool:
    """Whether its turn is likely to come while there is still time: waiting in vain helps nobody."""
    service = task.service
    terms = task.terms
    latest_ns = must_start_by_ns(task)
    ahead = service.backlog.ahead_of(terms.priority)
    if ahead < WAITING_PER_SLOT * service.slots:
        return latest_ns >= now_ns
    wait_ns = service.service_time.wait_ns(ahead, service.slots)
    return now_ns + wait_ns <= latest_ns and wait_ns <= terms.backlog_age_ms * NS_PER_MS


def may_try(task: Task, now_ns: int) -> bool:
    """It has less time than any of the last tasks took: only now and then is one given out anyway."""
    service = task.service
    return task.deadline_ns > now_ns and service.service_time.may_try(service.slots, now_ns)


def why_not_started(task: Task, now_ns: int) -> bytes:
    """The rejection for a task that has waited as long as it may."""
    if task.deadline_ns <= now_ns:
        return inner.REJECTED_EXPIRED
    if must_start_by_ns(task) <= now_ns:
        return inner.REJECTED_TOO_LATE
    if task.service.sessions:
        return inner.REJECTED_TOO_LONG
    if task.service.expected_by_ns <= now_ns:
        return inner.REJECTED_NO_SERVICE
    return inner.REJECTED_NO_WORKER
