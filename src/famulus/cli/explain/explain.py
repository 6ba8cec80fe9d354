"""`famulus explain`: what a word means, why it happens and what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import asdict

from famulus.cli import suggestions
from famulus.cli.admin.words import columns
from famulus.errors import NoSuchWord

if TYPE_CHECKING:
    from famulus.cli.explain.words import Entry, WordList


def explain(
    word: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE",
            help="A reason, its code, an outcome, an exit code, or a word of the journal.",
            autocompletion=suggestions.words,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON array with an object for each meaning.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="All of it as a page in Markdown.")] = False,
) -> None:
    """Explain a code: what it means, why it happens, what to do, and whether trying again is safe.

    Without a code, list all of them.

    Examples:

      famulus explain worker_lost

      famulus explain 4
    """
    from famulus.cli.explain.words import KINDS, close_to, find

    if markdown:
        from famulus.cli.explain.words.page import page

        typer.echo(page(KINDS), nl=False)
        return
    found = find(word) if word is not None else [(kind, entry) for kind in KINDS for entry in kind.entries]
    if word is not None and not found:
        near = close_to(word)
        meant = f"did you mean {' or '.join(near)}?" if near else "famulus explain lists all words"
        raise NoSuchWord(f"{word[:80]!r} is no word of Famulus; {meant}")
    if as_json:
        facts = [{"kind": kind.name, **asdict(each), "page": f"docs/{each.page}"} for kind, each in found]
        typer.echo(json.dumps(facts, indent=2))
        return
    for line in _told(found) if word is not None else _listed(KINDS):
        typer.echo(line)


def _told(found: list[tuple[WordList, Entry]]) -> Iterator[str]:
    for number, (kind, entry) in enumerate(found):
        if number:
            yield ""
        yield f"{entry.word}, {kind.name}{f', {entry.when}' if entry.when else ''}"
        facts = {
            "meaning": entry.meaning,
            "why": entry.why,
            "remedy": entry.remedy,
            "try again?": entry.try_again,
            "page": f"docs/{entry.page}",
        }
        yield from (f"  {name:10} {text}" for name, text in facts.items() if text)


def _listed(kinds: tuple[WordList, ...]) -> Iterator[str]:
    for number, kind in enumerate(kinds):
        if number:
            yield ""
        yield kind.heading
        yield from columns((entry.word, entry.when, entry.meaning) for entry in kind.entries)
