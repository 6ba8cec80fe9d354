"""Where a broker is: as an address, as host and port, from the environment, or by default. Knows no sockets."""

from __future__ import annotations

import os
import re

from famulus.errors import SettingsError

FRONTEND = "tcp://127.0.0.1:7100"
BACKEND = "tcp://127.0.0.1:7101"


def frontend(wish: str | None) -> str:
    """What a client connects to."""
    return _address(wish or os.environ.get("FAMULUS_FRONTEND") or FRONTEND)


def backend(wish: str | None) -> str:
    """What a worker connects to."""
    return _address(wish or os.environ.get("FAMULUS_BACKEND") or BACKEND)


def _address(text: str) -> str:
    if "://" not in text:
        text = f"tcp://{text}"
    match = re.fullmatch(r"tcp://(?:\[[^\]]+\]|[^:/\s]+):(\d{1,5})|(?:ipc|inproc)://\S+", text)
    # libzmq would take only the lower 16 bits of a larger number, and connect to somebody else.
    if match is None or (match[1] and not 0 < int(match[1]) <= 65535):
        raise SettingsError(f"{text!r} is not a broker's address; one looks like {FRONTEND}")
    return text
