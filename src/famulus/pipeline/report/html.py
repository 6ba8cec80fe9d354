"""Pieces of HTML. Whatever is plain text is escaped here; what is `Safe` was made here.

Names of services, workers and brokers come from anybody who can connect: they are hostile until proven harmless.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

#: More rows than a reader would read; the tables themselves have them all.
ROWS_MAX = 100


class Safe(str):
    """HTML that may be used as it is."""

    __slots__ = ()


NOTHING = Safe("")


def printable(words: str) -> str:
    """Control characters are shown as escapes."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in words)


def text(value: object) -> Safe:
    """Anything, harmless between tags and in quoted attributes."""
    if isinstance(value, Safe):
        return value
    return Safe(html.escape(printable(str(value)), quote=True))


def joined(parts: Iterable[Safe], by: str = "\n") -> Safe:
    return Safe(by.join(parts))


def tag(name: str, inside: object, kind: str = "") -> Safe:
    attribute = f' class="{kind}"' if kind else ""
    return Safe(f"<{name}{attribute}>{text(inside)}</{name}>")


def badge(words: str, kind: str) -> Safe:
    """Its colour says the same as its words."""
    return tag("span", words, f"badge {kind}")


def code(words: str) -> Safe:
    return tag("code", words)


@dataclass(frozen=True, slots=True)
class Head:
    title: str
    #: Figures are right-aligned.
    figure: bool = False
    #: What a row has in this column, by the name of a field or from the whole row, and how it is written.
    of: str | Callable[[Any], object] = ""
    said: Callable[[Any], object] = str

    def cell(self, row: Any) -> object:
        return self.of(row) if callable(self.of) else self.said(row[self.of])


def listed(caption: str, heads: Sequence[Head], rows: Sequence[Any], total: int | None = None) -> Safe:
    """A table of the first rows, which are not cells yet. `total`: how many there are, if these are not all."""
    shown = [[head.cell(row) for head in heads] for row in rows[:ROWS_MAX]]
    return table(caption, heads, shown, (len(rows) if total is None else total) - len(shown))


def table(caption: str, heads: Sequence[Head], rows: Sequence[Sequence[object]], more: int = 0) -> Safe:
    """The first cell of each row names it. If `more` rows are not shown, it says so."""
    kinds = ["figure" if head.figure else "" for head in heads]
    top = joined(
        Safe(f'<th scope="col" class="{kind}">{text(head.title)}</th>') for head, kind in zip(heads, kinds, strict=True)
    )
    lines = []
    for row in rows:
        cells = [Safe(f'<th scope="row" data-head="{text(heads[0].title)}">{text(row[0])}</th>')]
        cells += [
            Safe(f'<td class="{kind}" data-head="{text(head.title)}">{text(cell)}</td>')
            for head, kind, cell in zip(heads[1:], kinds[1:], row[1:], strict=True)
        ]
        lines.append(Safe(f"<tr>{''.join(cells)}</tr>"))
    rest = tag("p", f"and {more:,} more", "rest") if more > 0 else NOTHING
    name = text(caption)
    return Safe(
        f'<div class="wide" tabindex="0" role="region" aria-label="{name}"><table><caption>{name}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{joined(lines)}</tbody></table></div>{rest}"
    )


def nothing(words: str) -> Safe:
    """An honest empty state."""
    return tag("p", words, "nothing")


def section(name: str, title: str, lead: str, *parts: Safe) -> Safe:
    return Safe(
        f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{text(title)}</h2>'
        f'<p class="lead">{text(lead)}</p>{joined(parts)}</section>'
    )
