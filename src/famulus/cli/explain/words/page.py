"""The page docs/errors.md, made from the words."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from itertools import groupby
from textwrap import wrap
from typing import Final

from famulus.cli.explain.words import Entry, WordList

WIDTH: Final = 120

_BEGINNING: Final = (files(__package__) / "beginning.md").read_text("utf-8")


def page(kinds: tuple[WordList, ...]) -> str:
    parts = [
        _BEGINNING,
        "\n".join(f"- [{kind.heading}](#{kind.heading.lower().replace(' ', '-')})" for kind in kinds) + "\n",
    ]
    parts += ["\n".join(_section(kind)) + "\n" for kind in kinds]
    return "\n".join(parts)


def _section(kind: WordList) -> Iterator[str]:
    yield f"## {kind.heading}"
    yield ""
    yield from _lines(kind.about)
    yield ""
    if kind.brief:
        yield "| word | | meaning | what to do | |"
        yield "|---|---|---|---|---|"
        yield from map(_row, kind.entries)
    else:
        yield from _chapters(kind)


def _chapters(kind: WordList) -> Iterator[str]:
    name = f"{kind.name} " if kind.named else ""
    for number, (word, entries) in enumerate(groupby(kind.entries, key=lambda each: each.word)):
        if number:
            yield ""
        yield f"### {name}`{word}`"
        for entry in entries:
            yield ""
            yield from _chapter(entry)


def _chapter(entry: Entry) -> Iterator[str]:
    where = f"*{entry.when[0].upper()}{entry.when[1:]}.* " if entry.when else ""
    yield from _lines(f"{where}{entry.meaning}")
    facts = [("Why:", entry.why), ("What to do:", entry.remedy), ("Try again?", entry.try_again)]
    told = [f"{name} {text}" for name, text in facts if text]
    yield ""
    for line in [*told, f"[More]({entry.page})"]:
        yield from _lines(line, "- ", "  ")


def _row(entry: Entry) -> str:
    meaning = f"{entry.meaning} {entry.why}".strip()
    again = f"Try again? {entry.try_again}" if entry.try_again else ""
    return f"| `{entry.word}` | {entry.when} | {meaning} | {f'{entry.remedy} {again}'.strip()} | [more]({entry.page}) |"


def _lines(text: str, first: str = "", later: str = "") -> list[str]:
    return wrap(text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False)
