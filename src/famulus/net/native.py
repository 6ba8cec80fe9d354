"""Which of the twins serves, the native module or Python; and what both have that needs no libzmq. Knows no protocol.

    wait(epoll, until_ns, longest_ms, names, alone) -> those that have news by then
        The wait of `famulus.net.waiting`; None where the Python twin serves.

    new_stream(socket, message_bytes_max) -> Stream
        Messages over a connection; see `famulus.net.stream_python`.

    new_connections(bounds...) -> Connections
        The same over many of them; see `famulus.net.connections_python`.

Clients and workers need no more than this, so they run without pyzmq.

FAMULUS_PUMP=native or FAMULUS_PUMP=python in the environment forces the choice.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from famulus.errors import NoSuchPump


def why_not_native(load: Callable[[], None]) -> str:
    """Why the Python twin has to serve for what this loads; empty where the native module does."""
    wish = os.environ.get("FAMULUS_PUMP", "")
    if wish not in ("", "native", "python"):
        raise NoSuchPump(f"FAMULUS_PUMP: must be native or python, not {wish!r}")
    if wish == "python":
        return "FAMULUS_PUMP=python"
    try:
        load()
    except ImportError as error:
        reason = "it is not built" if error.name == "famulus.net._pump" else str(error)
        if wish == "native":
            raise NoSuchPump(f"FAMULUS_PUMP=native, but there is no native pump: {reason}") from error
        return reason
    return ""


def _load() -> None:
    import famulus.net._pump  # noqa: F401


#: Why the Python twin serves; empty where the native module does.
WHY_NOT_NATIVE = why_not_native(_load)
NATIVE = not WHY_NOT_NATIVE

if NATIVE:
    from famulus.net._pump import Connections as _NativeConnections
    from famulus.net._pump import Stream as _NativeStream
    from famulus.net._pump import wait as _wait
else:
    from famulus.net.connections_python import Connections as _PythonConnections
    from famulus.net.stream_python import Stream as _PythonStream


class Stream(Protocol):
    """What the twins of a stream have in common."""

    commands: list[bytes]

    @property
    def unsent(self) -> bool: ...
    @property
    def ended(self) -> str: ...
    @property
    def received(self) -> int: ...
    @property
    def written(self) -> int: ...
    def recv(self) -> list[list[bytes]]: ...
    def send(self, messages: Sequence[Sequence[bytes]], /) -> int: ...
    def write(self, content: bytes, /) -> None: ...
    def flush(self) -> bool: ...


class Connections(Protocol):
    """What the twins of connections have in common."""

    news: list[int]
    gone: list[bytes]

    @property
    def fd(self) -> int: ...
    @property
    def more(self) -> bool: ...
    @property
    def unsent(self) -> int: ...
    @property
    def unfinished(self) -> int: ...
    def __len__(self) -> int: ...
    def add(self, fd: int, peer: bytes, /) -> None: ...
    def cut(self, peer: bytes, /) -> bool: ...
    def watch(self, fd: int, /) -> None: ...
    def forget(self, fd: int, /) -> None: ...
    def recv(self, limit: int, /) -> list[list[bytes]]: ...
    def send(self, messages: Sequence[Sequence[bytes]], /) -> list[tuple[int, int]]: ...
    def publish(self, frames: Sequence[bytes], /) -> None: ...
    def tick(self, now_ns: int, /) -> None: ...
    def leaving(self) -> int: ...
    def close(self) -> None: ...


new_connections: Callable[[int, int, int, int, int], Connections] = _NativeConnections if NATIVE else _PythonConnections
new_stream: Callable[[socket.socket, int], Stream] = _NativeStream if NATIVE else _PythonStream
wait: Callable[[int, int, int, dict[int, Any], bool], list[Any]] | None = _wait if NATIVE else None
