"""The life of a task as `famulus trace` tells it, from the little that the herald knows before the journal has it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from famulus.journal.trace import TaskStory, tell
from famulus.web.status.views import EndedTask

EARLIER = "only its last attempt is told here"


def life(task: EndedTask, broker: str) -> TaskStory:
    story = tell([_row(task, broker)], [])
    # What another broker's journal has is worth a note only once ours has been read.
    story.notes[:] = [EARLIER] if task.attempt > 1 else []
    return story


def _row(task: EndedTask, broker: str) -> dict[str, Any]:
    """As the journal would have it."""
    ended = datetime.fromtimestamp(task.ended_ms / 1000, UTC)
    arrived = ended - timedelta(milliseconds=task.total_ms)
    had = bool(task.worker or task.delegated_to)
    return {
        "broker": broker,
        "boot": "",
        "ticket": 0,
        "message_id": task.message_id,
        "attempt": task.attempt,
        "service": task.service,
        "worker": task.worker or None,
        "client": task.principal,
        "at_most_once": task.at_most_once,
        "priority": task.priority,
        "arrived": arrived,
        "assigned": arrived + timedelta(milliseconds=task.queue_ms) if had else None,
        "delegated_from": task.delegated_from or None,
        "delegated_to": task.delegated_to or None,
        "outcome": task.outcome,
        "reason": task.reason or None,
        "ended": ended,
        "request_bytes": task.request_bytes,
        "response_bytes": task.response_bytes,
    }
