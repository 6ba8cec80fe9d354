"""What a supervisor tells the journal, kept until there is a scribe to take it."""

from __future__ import annotations

import secrets
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from famulus.broker.child import Child

#: How much is kept while there is no scribe.
NOTES_MAX: Final = 1000
DETAIL_MAX: Final = 1000


class SupervisorFacts:
    def __init__(self, scribe: Child | None) -> None:
        self._scribe = scribe
        #: The present life of the dispatcher, as the journal names it.
        self.boot = ""
        self._rows: list[tuple[str, int, str, str, str, str]] = []
        #: For lives of the dispatcher that are over: how many rows each had sent to the scribe.
        self._last_words: list[tuple[str, dict[str, int]]] = []
        self._state = ""
        #: Which start of the scribe was told which boot and version. A new scribe knows nothing.
        self._told = (0, "", 0)

    def begin_life(self) -> str:
        """Name a life of the dispatcher that begins."""
        self.boot = secrets.token_hex(8)
        return self.boot

    def end_life(self, told: dict[str, int]) -> None:
        """What it had sent and the scribe never got is missing."""
        if self._scribe is not None and len(self._last_words) < NOTES_MAX:
            self._last_words.append((self.boot, told))

    def add(self, event: str, process: str = "", state: str = "", detail: str = "") -> None:
        if self._scribe is not None and len(self._rows) < NOTES_MAX:
            self._rows.append((self.boot, monotonic_ns(), event, process, state, detail[:DETAIL_MAX]))

    def tell(self, state: str, version: int) -> None:
        if self._scribe is None or not self._scribe.running:
            return
        if state != self._state:
            self._state = state
            self.add("state", state=state)
        present = (self._scribe.starts, self.boot, version)
        if self._rows or self._last_words or present != self._told:
            self._told = present
            news: dict[str, Any] = {"rows": self._rows, "ended": self._last_words}
            self._scribe.tell({"boot": self.boot, "config_version": version, **news})
            self._rows.clear()
            self._last_words.clear()
