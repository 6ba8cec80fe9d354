"""The life of a task as `famulus trace` tells it, from the little that the herald knows before the journal has it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from famulus.journal.trace import TaskStory, tell, tell_running
from famulus.web.status.views import EndedTask, RunningTask

EARLIER = "only its last attempt is told here"


def life(task: EndedTask | RunningTask, broker: str) -> TaskStory:
    story = _so_far(task, broker) if isinstance(task, RunningTask) else _whole(task, broker)
    # What another broker's journal has is worth a note only once ours has been read.
    story.notes[:] = [EARLIER] if task.attempt > 1 else []
    return story


def _whole(task: EndedTask, broker: str) -> TaskStory:
    ended = _instant(task.ended_ms)
    arrived = ended - timedelta(milliseconds=task.total_ms)
    had = bool(task.worker or task.delegated_to)
    row = _row(task, broker) | {
        "client": task.principal,
        "arrived": arrived,
        "assigned": arrived + timedelta(milliseconds=task.queue_ms) if had else None,
        "delegated_from": task.delegated_from or None,
        "outcome": task.outcome,
        "reason": task.reason or None,
        "ended": ended,
        "response_bytes": task.response_bytes,
    }
    return tell([row], [])


def _so_far(task: RunningTask, broker: str) -> TaskStory:
    row = _row(task, broker) | {
        "client": task.principal or None,
        "arrived": _instant(task.arrived_ms),
        "assigned": _instant(task.assigned_ms),
        "delegated_from": None,
        "state": "delegated" if task.delegated_to else "running",
    }
    return tell_running(row)


def _row(task: EndedTask | RunningTask, broker: str) -> dict[str, Any]:
    """What the journal would have of either."""
    return {
        "broker": broker,
        "boot": "",
        "ticket": 0,
        "message_id": task.message_id,
        "attempt": task.attempt,
        "service": task.service,
        "worker": task.worker or None,
        "at_most_once": task.at_most_once,
        "priority": task.priority,
        "delegated_to": task.delegated_to or None,
        "request_bytes": task.request_bytes,
    }


def _instant(ms: float) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
