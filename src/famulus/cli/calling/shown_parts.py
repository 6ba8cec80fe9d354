"""What `famulus call --stream` shows: each part when it comes, and on a terminal how far the task is."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from famulus.cli.calling.shown_body import json_of


class ShownParts:
    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._on_terminal = sys.stdout.isatty()
        self._tells_progress = sys.stderr.isatty()
        #: Of the progress that is on the screen.
        self._has_line = False
        self.count = 0

    def show(self, parts: Iterable[bytes]) -> None:
        try:
            for part in parts:
                self.count += 1
                self._erase_progress()
                self._show_part(part)
        finally:
            self._erase_progress()

    def on_progress(self, done: float, note: str) -> None:
        if self._tells_progress:
            self._erase_progress()
            sys.stderr.write(f"{done:4.0%} {note if note.isprintable() else ascii(note)}")
            sys.stderr.flush()
            self._has_line = True

    def _show_part(self, part: bytes) -> None:
        out = sys.stdout.buffer
        if self._as_json:
            facts: dict[str, Any] = {"part": self.count, **json_of(part)}
            out.write(json.dumps(facts).encode() + b"\n")
        else:
            out.write(part)
            # What goes to a file or to another program must be what the worker sent, and nothing else.
            if self._on_terminal and not part.endswith(b"\n"):
                out.write(b"\n")
        out.flush()

    def _erase_progress(self) -> None:
        if self._has_line:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._has_line = False
