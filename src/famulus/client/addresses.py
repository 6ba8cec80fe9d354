"""Where the brokers of a client are, as its user says: one address or several, or the environment. Knows no sockets."""

from __future__ import annotations

import os
from collections.abc import Iterable

from famulus.net.addresses import FRONTEND, frontend


def frontends(wish: str | Iterable[str] | None) -> list[str]:
    """What was wished for, or what FAMULUS_FRONTEND says, or the default; each once, in order."""
    wishes = [wish] if isinstance(wish, str) else wish or ()
    texts = _split(wishes) or _split([os.environ.get("FAMULUS_FRONTEND", "")]) or [FRONTEND]
    return list(dict.fromkeys(map(frontend, texts)))


def _split(texts: Iterable[str]) -> list[str]:
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]
