"""Where the dispatcher reads."""

from __future__ import annotations

from typing import Any

from famulus.net.waiting import Waiting


class Inlet:
    """A socket or descriptor to read from, and whether to look: it has news, or we have sent on it (see `Waiting`)."""

    def __init__(self, source: Any, waiting: Waiting) -> None:
        self.source = source
        # We were not told what happened before we watched it.
        self.look = True
        waiting.watch(source, self)
