"""Moves batches of multipart messages through sockets: the native pump or its Python twin. Knows no protocol.

    recv_many(socket, limit) -> list of messages, each a list of frames
        Up to `limit` whole messages; [] when nothing is there. Of a message with more than FRAMES_MAX frames
        the first FRAMES_MAX + 1 are kept: the caller sees that it is too long, and memory does not grow.

    send_many(socket, messages) -> list of (index, errno)
        Tries every message and names those refused: EAGAIN where it does not fit now, EHOSTUNREACH where a
        ROUTER with ROUTER_MANDATORY does not know the peer. Nothing of a refused message leaves.

    send_some(socket, messages) -> how many were taken
        In order, up to the first that does not fit now. For DEALER and PUSH.

    recv_parcels(socket, limit, senders), send_parcels(socket, messages, receivers), send_some_parcels(socket, messages)
        The same for messages of three frames (on a ROUTER, behind the peer), several of which may travel in one:
        a parcel (see `famulus.wire.parcels`). Who sends parcels understands them. So what a ROUTER reads adds to the
        set `senders`, and only those in `receivers` are sent any; a DEALER (`senders` is None) always may. The
        limit may be exceeded by what is in the last parcel.

    wait(epoll, until_ns, longest_ms, names, alone) -> those that have news by then
        The wait of `famulus.net.waiting`; None where the Python twin serves.

    Stream(socket, message_bytes_max)
        The same over a connection that libzmq knows nothing of; see `famulus.net.stream_python`.

    Connections(bounds...)
        The same over many of them; see `famulus.net.connections_python`.

None of the others ever blocks or raises for EAGAIN. Anything but a list or tuple of lists or tuples of bytes raises
TypeError, and a message without frames ValueError, before anything leaves. Other errors of libzmq (a
terminated context, a closed socket) raise zmq.ZMQError.

Reading or writing may swallow the readiness of the socket's file descriptor. Who waits on that descriptor,
and not with zmq's own poller, must call recv_many until it gives fewer than `limit` before waiting again,
also after sending.

FAMULUS_PUMP=native or FAMULUS_PUMP=python in the environment forces the choice.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import zmq

from famulus.errors import NoSuchPump
from famulus.net import pump_python
from famulus.net.pump_python import FRAMES_MAX

__all__ = [
    "FRAMES_MAX",
    "NATIVE",
    "WHY_NOT_NATIVE",
    "Connections",
    "Stream",
    "libzmq",
    "recv_many",
    "recv_parcels",
    "send_many",
    "send_parcels",
    "send_some",
    "send_some_parcels",
    "wait",
]


def _load_native() -> None:
    """Import the native pump and bind it to pyzmq's libzmq; ImportError says why that cannot be."""
    from zmq.backend.cython import _zmq

    import famulus.net._pump as native

    native.bind(_zmq.__file__, zmq.Socket, pump_python.error_for)


def _why_not_native() -> str:
    """Empty where the native pump is ready to be used."""
    wish = os.environ.get("FAMULUS_PUMP", "")
    if wish not in ("", "native", "python"):
        raise NoSuchPump(f"FAMULUS_PUMP: must be native or python, not {wish!r}")
    if wish == "python":
        return "FAMULUS_PUMP=python"
    try:
        _load_native()
    except ImportError as error:
        reason = "it is not built" if error.name == "famulus.net._pump" else str(error)
        if wish == "native":
            raise NoSuchPump(f"FAMULUS_PUMP=native, but there is no native pump: {reason}") from error
        return reason
    return ""


#: Why the Python twin serves; empty where the native pump does.
WHY_NOT_NATIVE = _why_not_native()
NATIVE = not WHY_NOT_NATIVE

if NATIVE:
    from famulus.net._pump import (
        Connections,
        Stream,
        recv_many,
        recv_parcels,
        send_many,
        send_parcels,
        send_some,
        send_some_parcels,
    )
    from famulus.net._pump import wait as _wait
else:
    from famulus.net.connections_python import Connections
    from famulus.net.pump_python import recv_many, recv_parcels, send_many, send_parcels, send_some, send_some_parcels
    from famulus.net.stream_python import Stream


wait: Callable[[int, int, int, dict[int, Any], bool], list[Any]] | None = _wait if NATIVE else None


def libzmq() -> tuple[str, bool]:
    """The version of the libzmq under the pump, and whether it can do CURVE."""
    return zmq.zmq_version(), zmq.has("curve")
