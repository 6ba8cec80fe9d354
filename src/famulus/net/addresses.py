"""Where a broker is: as an address, as host and port, from the environment, or by default. Knows no sockets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from famulus.errors import SettingsError

FRONTEND = "tcp://127.0.0.1:7100"
BACKEND = "tcp://127.0.0.1:7101"


def frontend(wish: str | None, otherwise: Sequence[str] = ()) -> str:
    """What a client connects to: as somebody wishes, as the environment says, or else the first of those."""
    return _address(wish or os.environ.get("FAMULUS_FRONTEND") or next(iter(otherwise), FRONTEND))


def frontends(wish: str | Iterable[str] | None, otherwise: Sequence[str] = ()) -> list[str]:
    """The same for a client that may be given several: each once, in order."""
    wishes = [wish] if isinstance(wish, str) else wish or ()
    texts = _split(wishes) or _split([os.environ.get("FAMULUS_FRONTEND", "")]) or otherwise or [FRONTEND]
    return list(dict.fromkeys(map(_address, texts)))


def backend(wish: str | None) -> str:
    """What a worker connects to."""
    return _address(wish or os.environ.get("FAMULUS_BACKEND") or BACKEND)


def address(host: str, port: int | str) -> str:
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _split(texts: Iterable[str]) -> list[str]:
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def _address(text: str) -> str:
    if "://" not in text:
        text = f"tcp://{text}"
    split(text)
    return text


def split(address: str) -> tuple[str, int]:
    """Host and port; for a socket in the file system, its path and 0."""
    match = re.fullmatch(r"tcp://(?:\[([^\]]+)\]|(\w[\w.-]*)):(\d{1,5})|ipc://(\S+)", address)
    if match is None or (match[3] and not 0 < int(match[3]) <= 65535):
        raise SettingsError(f"{address!r} is not a broker's address; one looks like {FRONTEND}")
    return match[1] or match[2] or match[4], int(match[3] or 0)
