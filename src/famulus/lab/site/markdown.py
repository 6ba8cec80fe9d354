"""Reads a page as a repository browser does, and says what is in it: headings, links, words. Touches no file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

#: Headings that the list beside a page has, and that a search leads to.
LEVELS = ("h1", "h2", "h3")
#: By what a block may be called in the docs, if that is not its name for the highlighter.
LANGUAGES = {"sh": "bash"}
#: Where a link leads to in the site; None if it has to stay as it is.
Resolve = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    anchor: str
    text: str


@dataclass(slots=True)
class Part:
    """What is below a heading and above the next."""

    heading: Heading
    words: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Reading:
    html: str
    parts: list[Part]
    anchors: set[str]

    @property
    def title(self) -> str:
        return self.parts[0].heading.text if self.parts else ""


def read_page(text: str, resolve: Resolve) -> Reading:
    markdown = MarkdownIt("commonmark", {"html": False, "highlight": _highlighted}).enable("table")
    tokens = markdown.parse(text)
    parts, anchors = _name_headings(tokens)
    _lead(tokens, resolve)
    html = str(markdown.renderer.render(tokens, markdown.options, {}))
    # A wide table moves in a frame of its own, and not the page.
    html = html.replace("<table>", '<div class="wide" tabindex="0"><table>').replace("</table>", "</table></div>")
    return Reading(html, parts, anchors)


def source_page(name: str, text: str) -> Reading:
    """A file that is no page, as it is."""
    language = {"py": "python", "md": "markdown", "yml": "yaml", "service": "ini"}.get(
        suffix := name.rpartition(".")[2], suffix
    )
    heading = Heading(1, "top", name)
    return Reading(f'<h1 id="top">{escape(name)}</h1>\n{_highlighted(text, language, "")}', [Part(heading)], {"top"})


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _name_headings(tokens: Sequence[Token]) -> tuple[list[Part], set[str]]:
    parts: list[Part] = []
    seen: Counter[str] = Counter()
    anchors: set[str] = set()
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            text = _words(tokens[number + 1])
            name = slug(text)
            anchor = f"{name}-{seen[name]}" if seen[name] else name
            seen[name] += 1
            anchors.add(anchor)
            token.attrSet("id", anchor)
            if token.tag != "h1":
                tokens[number + 1].children = [*(tokens[number + 1].children or []), *_permalink(anchor)]
            if token.tag in LEVELS:
                parts.append(Part(Heading(int(token.tag[1]), anchor, text)))
        elif parts and token.type in ("inline", "fence", "code_block") and tokens[number - 1].type != "heading_open":
            parts[-1].words.append(_words(token))
    return parts, anchors


def _words(token: Token) -> str:
    if not token.children:
        return token.content
    return "".join(" " if each.type.endswith("break") else each.content for each in token.children)


def _permalink(anchor: str) -> list[Token]:
    opened = Token("link_open", "a", 1, {"href": f"#{anchor}", "class": "permalink", "aria-label": "Link to this part"})
    return [opened, Token("text", "", 0, content="#"), Token("link_close", "a", -1)]


def _lead(tokens: Sequence[Token], resolve: Resolve) -> None:
    """Links and pictures lead to where things are in the site."""
    for token in tokens:
        for name in ("href", "src"):
            written = token.attrGet(name)
            if isinstance(written, str) and (place := resolve(written)) is not None:
                token.attrSet(name, place)
        if token.type == "image":
            token.attrSet("loading", "lazy")
        _lead(token.children or [], resolve)


def _highlighted(code: str, language: str, _: str) -> str:
    try:
        lexer = get_lexer_by_name(LANGUAGES.get(language, language or "text"), stripnl=False)
    except ClassNotFound:
        lexer = get_lexer_by_name("text", stripnl=False)
    shown = highlight(code, lexer, HtmlFormatter(nowrap=True))
    return f'<pre class="code" tabindex="0"><code>{shown.rstrip()}\n</code></pre>\n'
