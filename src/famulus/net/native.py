"""Chooses which of the twins is used, the module in C or Python: neither needs libzmq. Knows no protocol.

    Stream(socket, message_bytes_max)
        Messages over a connection; see `famulus.net.stream_python`.

    Connections(bounds...)
        The same over many of them; see `famulus.net.connections_python`.

    wait(epoll, until_ns, longest_ms, names, alone) -> those that have news by then
        The wait of `famulus.net.waiting`; None where the Python twin is used.

FAMULUS_PUMP=native or FAMULUS_PUMP=python in the environment forces the choice.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from famulus.errors import NoSuchPump

__all__ = ["NATIVE", "WHY_NOT_NATIVE", "Connections", "Stream", "wait"]


def _why_not_native() -> str:
    """Empty where the native module can be used."""
    wish = os.environ.get("FAMULUS_PUMP", "")
    if wish not in ("", "native", "python"):
        raise NoSuchPump(f"FAMULUS_PUMP: must be native or python, not {wish!r}")
    if wish == "python":
        return "FAMULUS_PUMP=python"
    try:
        import famulus.net._pump  # noqa: F401
    except ImportError as error:
        reason = "it is not built" if error.name == "famulus.net._pump" else str(error)
        if wish == "native":
            raise NoSuchPump(f"FAMULUS_PUMP=native, but there is no native pump: {reason}") from error
        return reason
    return ""


#: Why the Python twin is used; empty where the native module is.
WHY_NOT_NATIVE = _why_not_native()
NATIVE = not WHY_NOT_NATIVE

wait: Callable[[int, int, int, dict[int, Any], bool], list[Any]] | None = None
if NATIVE:
    from famulus.net._pump import Connections, Stream, wait
else:
    from famulus.net.connections_python import Connections
    from famulus.net.stream_python import Stream
