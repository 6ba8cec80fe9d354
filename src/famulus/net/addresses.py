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
    if re.fullmatch(r"tcp://(\[[^\]]+\]|[^:/\s]+):\d{1,5}|(ipc|inproc)://\S+", text) is None:
        raise SettingsError(f"{text!r} is not a broker's address; one looks like {FRONTEND}")
    return text
