"""The story of one task, found in journals by what somebody wrote as its id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from famulus.journal.finding import evidence, find, losses
from famulus.journal.groups import Span
from famulus.journal.ids import wanted
from famulus.journal.reading import JournalReader
from famulus.journal.trace import TaskStory, tell, unsettled


class FoundStory(NamedTuple):
    #: None if no id matches, or several do.
    story: TaskStory | None
    ids: list[str]


def find_story(readings: Sequence[JournalReader], text: str, span: Span) -> FoundStory:
    found = find(readings, wanted(text), span)
    if len(found.ids) != 1:
        return FoundStory(None, found.ids)
    seen = unsettled(found.tasks, found.open_tasks)
    fate = evidence(readings, seen) if seen is not None else None
    story = tell(found.tasks, found.open_tasks, fate, losses(readings, found.tasks))
    if found.is_cut:
        story.notes.append("there are more rows of this id; only the newest are told")
    return FoundStory(story, found.ids)
