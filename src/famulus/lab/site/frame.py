"""Puts a page into the document that a browser shows: navigation, headings, neighbours. Decides no content."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from html import escape
from string import Template

from famulus import __version__
from famulus.lab.site.markdown import Reading
from famulus.lab.site.outline import Outline, SitePage

METHOD = re.compile(r"[A-Z]\w+\.[a-z_]+")


def framed(template: Template, outline: Outline, place: str, reading: Reading, page: SitePage | None) -> str:
    """`page` is None for what is not in the navigation, such as a source."""
    root = relative("", place).rstrip("/") or "."
    return template.substitute(
        title=escape("Famulus" if place == "index.html" else f"{reading.title} – Famulus"),
        root=root,
        version=escape(__version__),
        navigation="\n".join(_navigation(outline, place, page)),
        content=reading.html,
        headings="\n".join(_headings(reading)),
        neighbours="\n".join(_neighbours(outline, place, page)) if page else "",
    )


def relative(target: str, place: str) -> str:
    """How a page at that place leads there, with or without a server."""
    return posixpath.relpath(target or ".", posixpath.dirname(place) or ".")


def _navigation(outline: Outline, place: str, current: SitePage | None) -> Iterable[str]:
    for heading, pages in outline.sections():
        opened = " open" if current in pages else ""
        yield f"<details{opened}><summary>{escape(heading)}</summary><ul>"
        for page in pages:
            here = ' aria-current="page"' if page == current else ""
            yield f'<li><a href="{relative(page.place, place)}"{here}>{escape(page.name)}</a></li>'
        yield "</ul></details>"


def _headings(reading: Reading) -> Iterable[str]:
    shown = [part.heading for part in reading.parts if part.heading.level > 1]
    if len(shown) < 2:
        return
    yield "<h2>On this page</h2><ul>"
    for heading in shown:
        # Beside its class, a method needs no more than its own name.
        short = heading.text.rpartition(".")[2] if METHOD.fullmatch(heading.text) else heading.text
        name = escape(short).replace("_", "_<wbr>")
        yield f'<li class="level-{heading.level}"><a href="#{heading.anchor}">{name}</a></li>'
    yield "</ul>"


def _neighbours(outline: Outline, place: str, page: SitePage) -> Iterable[str]:
    before, after = outline.neighbours(page)
    for kind, words, other in (("before", "Before", before), ("after", "Next", after)):
        if other is not None:
            href = relative(other.place, place)
            yield f'<a class="{kind}" rel="{"prev" if kind == "before" else "next"}" href="{href}">'
            yield f"<small>{words}</small>{escape(other.name)}</a>"
