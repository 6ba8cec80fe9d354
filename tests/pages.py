"""What a browser would make of a page: which elements there are, what they would load, and what is plotted."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.handlers: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.specs: list[Any] = []
        self._script: dict[str, str | None] | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "action", "srcset", "data") and not (value or "").startswith("#"):
                self.loads.append(f"{tag} {value}")
            if name.startswith("on"):
                self.handlers.append(name)
            if name == "id":
                self.ids.append(value or "")
        self._script = dict(attrs) if tag == "script" else None

    def handle_data(self, data: str) -> None:
        if self._script is None:
            self.words.append(data)
        elif self._script.get("type") == "application/json":
            self.specs.append(json.loads(data))

    def handle_endtag(self, tag: str) -> None:
        self._script = None

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))
