"""Answers a question to a journal: by one that is read here."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from famulus.journal.groups import Span
from famulus.journal.listing import Query, last_tasks
from famulus.journal.questions import JournalAnswer, Question, StoryQuestion
from famulus.journal.reading import JournalReader
from famulus.journal.story import find_story


def answer(folder: Path, question: Question) -> JournalAnswer:
    if not folder.is_dir():
        return JournalAnswer()
    readings = [JournalReader(folder)]
    if isinstance(question, StoryQuestion):
        span = Span(_instant(question.since_ms), _instant(question.until_ms))
        story, ids = find_story(readings, question.message_id, span)
        return JournalAnswer(story.as_dict() if story is not None else None, ids)
    query = Query(question.outcomes, question.equal, Span(until=_instant(question.until_ms)))
    return JournalAnswer(tasks=last_tasks(readings, query, question.limit)[::-1])


def _instant(ms: float | None) -> datetime | None:
    return datetime.fromtimestamp(ms / 1000, UTC) if ms is not None else None
