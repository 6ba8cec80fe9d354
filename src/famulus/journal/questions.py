"""What can be asked of a journal from another process, and the answer. Knows no Arrow."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class StoryQuestion(Struct, frozen=True, tag="story"):
    """What happened to one task; between these instants, where they are given."""

    message_id: str
    since_ms: float | None = None
    until_ms: float | None = None


class TasksQuestion(Struct, frozen=True, tag="tasks"):
    """The last tasks with these outcomes, and these values in columns, that ended before an instant."""

    outcomes: tuple[str, ...]
    equal: dict[str, str]
    until_ms: float | None
    limit: int


class JournalAnswer(Struct, frozen=True):
    """Of a story: its facts, or none; and the ids that match. Of tasks: their rows, the newest first."""

    story: dict[str, Any] | None = None
    ids: list[str] = []
    tasks: list[dict[str, Any]] = []


Question = StoryQuestion | TasksQuestion
