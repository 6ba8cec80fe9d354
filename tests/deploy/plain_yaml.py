"""Reads the part of YAML that the files in `deploy/` keep to, and refuses whatever else there is.

Maps and lists in blocks, lists indented below their key; texts plain, in double quotes, or as a literal block (`|`);
numbers, true, false; lists of texts in one line, and {}. Comments have lines of their own. No anchors, no tags, no
several lines for one text: what a person might misread is not there.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_KEY = re.compile(r"([\w./-]+):(?: (.*))?\Z")
#: What would not be a plain text in YAML, or not the one that it looks like.
_NOT_PLAIN = re.compile(r"^[\s\"'&*!|>%@`\[\]{},?#-]|: | #|:\Z|^(yes|no|on|off|null|~)\Z", re.IGNORECASE)
_PLAIN_WITH_DASHES = re.compile(r"--[\w-]+(=[\w.:/-]+)?")


@dataclass
class Line:
    number: int
    indent: int
    text: str


def read_all(text: str) -> list[Any]:
    """All documents of a file."""
    lines = text.splitlines()
    documents: list[Any] = []
    begin = 0
    for end in [*(number for number, line in enumerate(lines) if line == "---"), len(lines)]:
        part = _Reader(lines[begin:end], begin)
        if part.peek() is not None:
            documents.append(part.document())
        begin = end + 1
    return documents


class _Reader:
    def __init__(self, lines: list[str], first: int) -> None:
        self._lines = lines
        self._first = first
        self._at = 0

    def document(self) -> Any:
        value = self._block(0)
        if (rest := self.peek()) is not None:
            raise self._wrong(rest, "it is indented like nothing above it")
        return value

    def peek(self) -> Line | None:
        """The next line that says something."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            text = line.strip()
            if text and not text.startswith("#"):
                if "\t" in line or line != line.rstrip():
                    raise self._wrong(self._line(line), "a tab, or space at its end")
                return self._line(line)
            self._at += 1
        return None

    def _line(self, line: str) -> Line:
        return Line(self._first + self._at + 1, len(line) - len(line.lstrip(" ")), line.strip(" "))

    def _block(self, indent: int) -> Any:
        line = self.peek()
        if line is None or line.indent != indent:
            raise self._wrong(line, f"something indented by {indent} is missing")
        return self._list(indent) if line.text.startswith("- ") else self._map(indent)

    def _list(self, indent: int) -> list[Any]:
        items: list[Any] = []
        while (line := self.peek()) is not None and line.indent == indent and line.text.startswith("- "):
            rest = line.text[2:]
            if _KEY.match(rest):
                # A map that begins behind the dash: its other keys are below the first one.
                self._lines[self._at] = " " * (indent + 2) + rest
                items.append(self._map(indent + 2))
            else:
                self._at += 1
                items.append(self._scalar(line, rest))
        return items

    def _map(self, indent: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (line := self.peek()) is not None and line.indent == indent:
            match = _KEY.match(line.text)
            if match is None:
                raise self._wrong(line, "a key is missing")
            key, rest = match[1], match[2]
            if key in found:
                raise self._wrong(line, f"{key} is there twice")
            self._at += 1
            if rest is None:
                below = self.peek()
                if below is None or below.indent != indent + 2:
                    raise self._wrong(line, "what is below it has to be indented by two")
                found[key] = self._block(indent + 2)
            else:
                found[key] = self._literal(indent) if rest == "|" else self._scalar(line, rest)
        return found

    def _literal(self, indent: int) -> str:
        taken: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() and len(line) - len(line.lstrip(" ")) <= indent:
                break
            taken.append(line[indent + 2 :])
            self._at += 1
        return "\n".join(taken).rstrip("\n") + "\n"

    def _scalar(self, line: Line, text: str) -> Any:
        if text[0] in '"[' or text == "{}":
            try:
                return json.loads(text)
            except ValueError:
                raise self._wrong(line, "what is in quotes or brackets is written as in JSON") from None
        if re.fullmatch(r"-?\d+", text):
            return int(text)
        if text in ("true", "false"):
            return text == "true"
        if _NOT_PLAIN.search(text) and not _PLAIN_WITH_DASHES.fullmatch(text):
            raise self._wrong(line, "it needs double quotes")
        return text

    def _wrong(self, line: Line | None, what: str) -> ValueError:
        where = f"line {line.number}: {line.text!r}" if line is not None else "at the end"
        return ValueError(f"{where}: {what}")
