"""`famulus trace`: what happened to one task, over all attempts and brokers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from famulus.cli.admin.words import columns, printable
from famulus.cli.journal.options import Journals, Since, Until, open_readings, shown_instant, span_of
from famulus.errors import NoTask, SettingsError

if TYPE_CHECKING:
    from famulus.journal.groups import Span
    from famulus.journal.reading import JournalReader
    from famulus.journal.trace import TaskStory

#: The time between two looks; a file of the journal is finished once a second at most.
LOOK_S = 0.5


def trace(
    message_id: Annotated[
        str,
        typer.Argument(
            metavar="MESSAGE_ID", help="Its id, a unique beginning of it, or its short form as famulus tasks shows it."
        ),
    ],
    journal: Journals = None,
    since: Since = None,
    until: Until = None,
    wait: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="Keep looking for this long, until its end is in the journal."),
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")] = False,
) -> None:
    """Tell the life of one task, over all its attempts and brokers, and whether it may be tried again.

    Each broker of a network has a journal of its own: give those that may have had it, each with --journal. In a large
    journal --since and --until save a long search. A row can be read up to a minute after it was written: --wait waits
    for it. Exit code 1 if no journal has the task.

    Examples:

      famulus trace 7f3a09c1..2c

      famulus trace order-4711 --journal /srv/famulus/b1 --journal /srv/famulus/b2
    """
    if not message_id:
        raise typer.BadParameter("it is empty", param_hint="MESSAGE_ID")
    readings = open_readings(journal)
    span = span_of(since, until)
    deadline = time.monotonic() + wait
    story = _find(message_id, readings, span)
    while (story is None or story.verdict.fate == "open") and time.monotonic() < deadline:
        time.sleep(LOOK_S)
        story = _find(message_id, readings, span)
    if story is None:
        places = ", ".join(str(reading.folder.path) for reading in readings)
        raise NoTask(
            f"no task {message_id[:200]!r} in {places}; a row can be read up to a minute after its task has ended "
            "(--wait), and each broker has a journal of its own (--journal)"
        )
    if as_json:
        typer.echo(json.dumps(story.as_dict(), indent=2))
    else:
        for line in _lines(story):
            typer.echo(line)


def _find(message_id: str, readings: list[JournalReader], span: Span) -> TaskStory | None:
    from famulus.journal.story import find_story

    story, ids = find_story(readings, message_id, span)
    if len(ids) > 1:
        raise SettingsError(f"{message_id[:200]!r} begins several ids: {', '.join(map(printable, ids))}")
    return story


def _lines(story: TaskStory) -> Iterator[str]:
    from famulus.cli.explain.words import find as explanations

    delivery = "at most once" if story.at_most_once else "at least once"
    yield printable(f"task {story.message_id}: service {story.service}, {delivery}, priority {story.priority}")
    rows = [
        (shown_instant(step.at), f"{story.after_ms(step):+,.1f} ms", step.broker, step.worker or "-", step.sentence)
        for step in story.steps
    ]
    yield from columns([("time", "since arrival", "broker", "worker", "what happened"), *rows])
    end = story.verdict
    # A worker may give any reason it likes, and not all of them are explained.
    word = end.reason or end.fate or end.outcome
    facts = [
        ("outcome", f"{end.outcome or 'none'}{f' ({end.reason})' if end.reason else ''}"),
        ("meaning", end.meaning),
        ("did it run?", end.ran),
        ("try again?", end.try_again),
        *(("note", note) for note in story.notes),
        *([("more", f"famulus explain {word}")] if word and explanations(word) else []),
    ]
    yield from columns(facts, indent="")
