"""The native pump; `famulus.net.pump` binds and exports it."""

from collections.abc import Callable, Sequence
from typing import Any

import zmq

FRAMES_MAX: int

def bind(
    extension_path: str, socket_type: type[zmq.Socket[Any]], error_for: Callable[[int], zmq.ZMQError], /
) -> None: ...
def recv_many(socket: zmq.Socket[bytes], limit: int, /) -> list[list[bytes]]: ...
def send_many(socket: zmq.Socket[bytes], messages: Sequence[Sequence[bytes]], /) -> list[tuple[int, int]]: ...
def send_some(socket: zmq.Socket[bytes], messages: Sequence[Sequence[bytes]], /) -> int: ...
