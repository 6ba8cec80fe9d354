"""What becomes of the tasks that other brokers have: they are answered, come back without having run, or are lost.

`Delegates` decides which broker gets a task; `Assignment` hands it over.
"""

from __future__ import annotations

from typing import Final

from famulus.core.dispatch import relay
from famulus.core.dispatch.deadlines import must_start_by_ns
from famulus.core.dispatch.delegates import Delegate
from famulus.core.dispatch.parts import Parts
from famulus.core.dispatch.task import ANSWERED, JUDGING, Task, next_task
from famulus.wire import headers, inner

_PART: Final = headers.PART


def update(parts: Parts, offers: list[inner.PeerOffer]) -> None:
    """The steward reports what our peers have free."""
    for gone in parts.delegates.update(offers):
        _lose(parts, gone)
    parts.services.look_at_others()
    _relieve(parts)


def link(parts: Parts, identity: bytes, up: bool) -> None:
    """The connection to another broker is up, or lost."""
    delegate = parts.delegates.by_identity.get(identity)
    if delegate is None:
        return
    delegate.up = up
    if up:
        parts.services.look_at_others()
        _relieve(parts)
    else:
        _lose(parts, delegate)


def answer(parts: Parts, identity: bytes, ticket: bytes, header: bytes, body: bytes) -> Task | None:
    """Another broker has answered. Returns the task if a router has to read the answer."""
    delegate = parts.delegates.by_identity.get(identity)
    task = delegate.running.pop(ticket, None) if delegate is not None else None
    if delegate is None or task is None:
        if delegate is not None and header == headers.LEAVING:
            _left_alone(parts, delegate)
        elif header == _PART:
            relay.from_delegate(parts, identity, ticket, body)
        else:
            parts.counters.late += 1
        return None
    parts.delegates.give_back(delegate, task.service.name)
    if not task.waits_for(ticket):
        parts.counters.late += 1
        parts.facts.late(task, ticket, b"", delegate.identity, parts.now.ns, len(body))
        return None
    if header == task.client_header(inner.TAIL_OK):
        parts.outcomes.ok(task, inner.TAIL_OK, body)
        _relieve(parts)
        return None
    task.stage = ANSWERED[task.stage]
    return task


def rejected(parts: Parts, task: Task, identity: bytes) -> None:
    """According to a router, the answer says that it was not run there."""
    if task.stage == JUDGING:
        _take_back(parts, task, parts.delegates.by_identity.get(identity))


def unknown(parts: Parts, task: Task, tail: bytes) -> None:
    """According to a router, the answer says that nobody over there knows what became of it."""
    if task.stage != JUDGING:
        return
    if task.flow.at_least_once:
        parts.assignment.again_or_unknown(task)
    else:
        parts.outcomes.unknown(task, tail)


def undelivered(parts: Parts, identity: bytes, message: list[bytes]) -> None:
    """The link did not accept it, so it did not leave."""
    if message[1] == headers.CREDIT:
        relay.undelivered_credit(parts, identity, message[2])
        return
    ticket = message[0]
    delegate = parts.delegates.by_identity.get(identity)
    task = delegate.running.pop(ticket, None) if delegate is not None else None
    if task is not None and task.waits_for(ticket):
        _take_back(parts, task, delegate)


def _take_back(parts: Parts, task: Task, delegate: Delegate | None) -> None:
    """It provably did not run there: it is a task without a slot again."""
    if delegate is not None:
        parts.delegates.refused(delegate, task.service.name)
    if parts.streams.has_begun(task):
        parts.outcomes.unknown(task, inner.UNKNOWN_BAD_ANSWER)  # we have had parts of it, so it ran
        return
    task.attempt -= 1
    parts.assignment.requeue(task)


def _left_alone(parts: Parts, delegate: Delegate) -> None:
    """The other broker stops: it has ended all tasks that it had taken, and reads no more."""
    delegate.up = False
    running, delegate.running = delegate.running, {}
    for ticket, task in running.items():
        if task.waits_for(ticket):
            _take_back(parts, task, delegate)


def _lose(parts: Parts, delegate: Delegate) -> None:
    """The other broker is gone, and nobody knows what it did with our tasks."""
    running, delegate.running = delegate.running, {}
    delegate.up = False
    for ticket, task in running.items():
        if task.waits_for(ticket):
            parts.assignment.again_or_unknown(task)


def _relieve(parts: Parts) -> None:
    """Others have slots: tasks that wait here may go there."""
    assignment = parts.assignment
    for service in list(assignment.backlogged):
        while service.backlog.tasks:
            task = next_task(service)
            if parts.delegates.find(service.name, task.flow.visited) is None:
                break
            assignment.leave_backlog(task)
            if must_start_by_ns(task) < parts.now.ns:
                parts.outcomes.unstarted(task, inner.REJECTED_TOO_LATE, inner.UNKNOWN_WORKER_LOST)
            else:
                assignment.delegate(task)
